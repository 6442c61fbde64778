/*
 * pauses: shared by pause and resume: the job types, queues, definitions and hosts to act on, or everything, all in one
 * transaction.
 */
#ifndef JR_PAUSES_H
#define JR_PAUSES_H

#include "commands.h"

struct jr_pauses {
	struct jr_words types, queues, definitions, hosts;
	const char *reason;
	bool all, dry_run;
};

/* clang-format off */
/* Rows for the table of options; struct struct_name has a member struct jr_pauses `what`. */
#define JR_PAUSES_OPTIONS(struct_name) \
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "these job types", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct struct_name, what.types), .check = jr_parse_job_type }, \
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "these queues", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct struct_name, what.queues), .check = jr_parse_queue }, \
	{ .name = "definition", .arg = "NAME", .help = "these definitions", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct struct_name, what.definitions), .check = jr_parse_definition }, \
	{ .name = "host", .arg = "HOST", .help = "these hosts, by the names that hostname(1) prints there", \
	    .type = JR_OPT_WORDS, .offset = offsetof(struct struct_name, what.hosts) }, \
	{ .name = "all", .help = "everything, on all hosts", .type = JR_OPT_FLAG, \
	    .offset = offsetof(struct struct_name, what.all) }, \
	{ .name = "reason", .arg = "TEXT", .help = "why, for all to see", .type = JR_OPT_STRING, \
	    .offset = offsetof(struct struct_name, what.reason) }, \
	{ .name = "dry-run", .letter = 'n', .help = "say what would be done", .type = JR_OPT_FLAG, \
	    .offset = offsetof(struct struct_name, what.dry_run) }
/* clang-format on */

/* The parameters $1 to $5 of pause, resume and pause_running: four arrays, and "true" if `all`. */
#define JR_PAUSES_VALUES 5
struct jr_pauses_values {
	char *arrays[JR_PAUSES_VALUES - 1];
	const char *values[JR_PAUSES_VALUES];
};
void jr_pauses_values_init(struct jr_pauses_values *values, const struct jr_pauses *what);
void jr_pauses_values_release(struct jr_pauses_values *values);

/*
 * Run a statement whose first parameters say what to act on, and whose further ones are `more`. With dry_run it is
 * rolled back. NULL on failure; it is a failure to name nothing.
 */
PGresult *jr_pauses_ask(const struct jr_app *app, const struct jr_pauses *what, const char *sql, size_t more_count,
    const char *const *more, struct jr_err *err) JR_MUST;

#endif
