/*
 * filter: options that choose runs. With the same options, retry and cancel take the runs that list shows.
 *
 * The first member of a command's options is a struct jr_filter, and its table has JR_FILTER_OPTIONS. Its statement
 * begins with the parameters of jr_filter_bind: $1 how many at most, $2 statuses, $3 job types, $4 queues, $5 age in
 * ms, $6 definitions. The conditions on them are the same in list.sql, matching_kinds.sql and matching_ids.sql.
 */
#ifndef JR_FILTER_H
#define JR_FILTER_H

#include "base/parse.h"
#include "options.h"

struct jr_filter {
	struct jr_words statuses, types, queues, definitions;
	int64_t since_ms; /* -1: any age */
	int64_t limit;    /* 0: all */
};

bool jr_filter_check_status(const char *what, const char *text, struct jr_err *err);

/* clang-format off */
#define JR_FILTER_OPTIONS(status_help, limit_help, limit_max) \
	{ .name = "status", .letter = 's', .arg = "STATUS", .help = (status_help), .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, statuses), .check = jr_filter_check_status }, \
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "only these job types", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, types), .check = jr_parse_job_type }, \
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "only these queues", .type = JR_OPT_WORDS, \
	    .offset = offsetof(struct jr_filter, queues), .check = jr_parse_queue }, \
	{ .name = "definition", .arg = "NAME", .help = "only runs of these definitions: scheduled, or enqueued with --definition", \
	    .type = JR_OPT_WORDS, .offset = offsetof(struct jr_filter, definitions), .check = jr_parse_definition }, \
	{ .name = "since", .arg = "D", .help = "only those that ended within D, or if they have not, were enqueued: 2h, 7d", \
	    .type = JR_OPT_DURATION, .offset = offsetof(struct jr_filter, since_ms) }, \
	{ .name = "limit", .arg = "N", .help = (limit_help), .type = JR_OPT_INT, .offset = offsetof(struct jr_filter, limit), \
	    .min = 1, .max = (limit_max) }
/* clang-format on */

/* Was an option given that chooses runs? (--limit does not count.) */
bool jr_filter_is_given(const struct jr_filter *filter);

/* Does --status name this status? `status` is the word of table job_runs: "failed", not "retrying". */
bool jr_filter_has_status(const struct jr_filter *filter, const char *status);

enum {
	JR_FILTER_LIMIT,
	JR_FILTER_STATUSES,
	JR_FILTER_TYPES,
	JR_FILTER_QUEUES,
	JR_FILTER_SINCE,
	JR_FILTER_DEFINITIONS,
	JR_FILTER_COUNT
};

/* A filter as the first parameters of a statement. It must not be copied. */
struct jr_filter_params {
	const char *values[JR_FILTER_COUNT];
	char *owned[4];
	char limit[24], since[24];
};

/* usual: an array literal of the statuses to use if --status is not given; NULL: any. */
void jr_filter_bind(const struct jr_filter *filter, const char *usual, struct jr_filter_params *params);
void jr_filter_unbind(struct jr_filter_params *params);

#endif
