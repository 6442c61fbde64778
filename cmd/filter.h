/*
 * filter: options that choose runs. With the same options, retry and cancel take the runs that list shows.
 *
 * The first member of a command's options is a struct jr_filter, and its table has JR_FILTER_OPTIONS. Its statement
 * begins with the parameters of jr_filter_bind: $1 how many at most, and those of cmd/sql/run_filter.part, which has
 * the conditions for all of the statements.
 */
#ifndef JR_FILTER_H
#define JR_FILTER_H

#include "base/parse.h"
#include "options.h"
#include "pg/db.h"

struct jr_filter {
	struct jr_words statuses, types, queues, definitions, hosts, parents, creators;
	const char *lock, *error;
	int64_t since_ms, until_ms; /* -1: any age */
	int64_t limit;              /* 0: all */
};

#define JR_FILTER_ANY .since_ms = -1, .until_ms = -1

bool jr_filter_check_status(const char *what, const char *text, struct jr_err *err);
bool jr_filter_check_id(const char *what, const char *text, struct jr_err *err);

/* clang-format off */
#define JR_FILTER_OPTIONS(status_help, limit_help, limit_max) \
	{ .name = "status", .letter = 's', .arg = "STATUS", .help = (status_help), .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, statuses), .check = jr_filter_check_status, \
	    .choices = "queued retrying running succeeded dead cancelled" }, \
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "only these job types", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, types), .check = jr_parse_job_type }, \
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "only these queues", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, queues), .check = jr_parse_queue }, \
	{ .name = "definition", .arg = "NAME", .help = "only runs of these definitions: scheduled, or enqueued with --definition", \
	    .type = JR_OPT_WORDS, .offset = offsetof(struct jr_filter, definitions), .check = jr_parse_definition }, \
	{ .name = "host", .arg = "HOST", .help = "only runs that this host holds, or held last", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, hosts) }, \
	{ .name = "lock", .arg = "KEY", .help = "only runs with this lock key", .type = JR_OPT_STRING, \
	    .offset = offsetof(struct jr_filter, lock), .not_empty = true }, \
	{ .name = "error", .arg = "TEXT", .help = "only runs whose last error has this error code (exit:1, timeout), or this text in its message; with code:timeout only the code counts", \
	    .type = JR_OPT_STRING, .offset = offsetof(struct jr_filter, error), .not_empty = true }, \
	{ .name = "parent", .arg = "ID", .help = "only runs that were enqueued inside this run", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, parents), .check = jr_filter_check_id }, \
	{ .name = "created-by", .arg = "ROLE", .help = "only runs that this database role has enqueued", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, creators) }, \
	{ .name = "since", .arg = "D", .help = "only those that ended within D, or if they have not, were enqueued: 2h, 7d", \
	    .type = JR_OPT_DURATION, .offset = offsetof(struct jr_filter, since_ms) }, \
	{ .name = "until", .arg = "D", .help = "not those of the last D, by the same times: --since 7d --until 1d", \
	    .type = JR_OPT_DURATION, .offset = offsetof(struct jr_filter, until_ms) }, \
	{ .name = "limit", .arg = "N", .help = (limit_help), .type = JR_OPT_INT, .offset = offsetof(struct jr_filter, limit), \
	    .min = 1, .max = (limit_max) }
/* clang-format on */

/* Was an option given that chooses runs? (--limit does not count.) */
bool jr_filter_is_given(const struct jr_filter *filter);

/* JR_E_USAGE if no run can match: --since does not reach beyond --until. */
bool jr_filter_check(const struct jr_filter *filter, struct jr_err *err) JR_MUST;

/* Does --status name this status? `status` is the word of table job_runs: "failed", not "retrying". */
bool jr_filter_has_status(const struct jr_filter *filter, const char *status);

enum {
	JR_FILTER_LIMIT,
	JR_FILTER_STATUSES,
	JR_FILTER_TYPES,
	JR_FILTER_QUEUES,
	JR_FILTER_SINCE,
	JR_FILTER_DEFINITIONS,
	JR_FILTER_HOSTS,
	JR_FILTER_LOCKS,
	JR_FILTER_ERROR,
	JR_FILTER_PARENTS,
	JR_FILTER_CREATORS,
	JR_FILTER_UNTIL,
	JR_FILTER_COUNT
};

/*
 * Where nothing has matched: a warning on stderr for each job type, queue and definition of the filter that nothing
 * has. It is a courtesy, so a failure of its statement is not reported.
 */
void jr_filter_warn_unknown(const struct jr_filter *filter, struct jr_db *db);

/* A filter as the first parameters of a statement. It must not be copied. */
struct jr_filter_params {
	const char *values[JR_FILTER_COUNT];
	char *owned[JR_FILTER_COUNT]; /* NULL, or the same as in values */
	char limit[24], since[24], until[24];
};

/* usual: an array literal of the statuses to use if --status is not given; NULL: any. */
void jr_filter_bind(const struct jr_filter *filter, const char *usual, struct jr_filter_params *params);
void jr_filter_unbind(struct jr_filter_params *params);

#endif
