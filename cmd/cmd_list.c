/*
 * list: runs, newest first. "failed" in the table of runs means that another attempt follows: people read retrying, and
 * may ask for either word; --json keeps failed.
 */
#include <string.h>

#include <stdlib.h>

#include "commands.h"
#include "parse.h"
#include "print.h"
#include "sql_text.h"

struct list_opts {
	struct jr_words statuses, types, queues;
	int64_t limit, since_ms;
};

static const struct list_opts list_defaults = {.limit = 20, .since_ms = -1};

static const char *const statuses[] = {
    "queued", "retrying", "running", "succeeded", "dead", "cancelled", "failed"};

static bool
check_status(const char *what, const char *text, struct jr_err *err)
{
	for (size_t i = 0; i < JR_COUNT(statuses); i++) {
		if (strcmp(statuses[i], text) == 0)
			return true;
	}
	jr_fail_unknown(err, "status", text, statuses, JR_COUNT(statuses),
	    "queued, retrying, running, succeeded, dead or cancelled");
	return jr_fail_in(err, what);
}

#define AT(field) offsetof(struct list_opts, field)

/* clang-format off */
static const struct jr_option list_options[] = {
	{ .name = "status", .letter = 's', .arg = "STATUS", .help = "queued, retrying, running, succeeded, dead, cancelled",
	    .type = JR_OPT_WORDS, .offset = AT(statuses), .check = check_status },
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "only these job types", .type = JR_OPT_WORDS, .offset = AT(types),
	    .check = jr_parse_job_type },
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "only these queues", .type = JR_OPT_WORDS,
	    .offset = AT(queues), .check = jr_parse_queue },
	{ .name = "since", .arg = "D", .help = "only those enqueued within D: 2h, 7d", .type = JR_OPT_DURATION,
	    .offset = AT(since_ms) },
	{ .name = "limit", .arg = "N", .help = "at most N (20)", .type = JR_OPT_INT, .offset = AT(limit), .min = 1,
	    .max = 100000 },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "ID", JR_CELL_NUMBER },
	{ "TYPE", JR_CELL_TEXT },
	{ "STATUS", JR_CELL_STATE },
	{ "TRY", JR_CELL_TEXT },
	{ "WHEN", JR_CELL_AGE },
	{ "TOOK", JR_CELL_TOOK },
	{ "MESSAGE", JR_CELL_CUT },
};
/* clang-format on */

/* NULL for no words: any. Caller frees. */
static char *
array_of(const struct jr_words *words)
{
	return words->count == 0 ? NULL
				 : jr_pg_array_of((const char *const *)words->items, words->count);
}

/* As the table calls it. */
static char *
array_of_statuses(const struct jr_words *words)
{
	struct jr_pg_array array;
	char *text;

	if (words->count == 0)
		return NULL;
	jr_pg_array_init(&array);
	for (size_t i = 0; i < words->count; i++)
		jr_pg_array_add(
		    &array, strcmp(words->items[i], "retrying") == 0 ? "failed" : words->items[i]);
	jr_pg_array_end(&array);
	text = jr_buf_detach(&array.text);
	jr_pg_array_release(&array);
	return text;
}

static PGresult *
ask(struct jr_db *db, const struct list_opts *opts, struct jr_err *err)
{
	char limit[24], since[24];
	char *status = array_of_statuses(&opts->statuses), *type = array_of(&opts->types);
	char *queue = array_of(&opts->queues);
	const char *values[] = {jr_pg_print_int(limit, opts->limit), status, type, queue,
	    opts->since_ms < 0 ? NULL : jr_pg_print_int(since, opts->since_ms)};
	PGresult *result =
	    jr_db_query(db, jr_sql_list, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);

	free(status);
	free(type);
	free(queue);
	return result;
}

static int
list_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;

	(void)argc;
	(void)argv;
	if (db != NULL)
		result = ask(db, values, err);
	jr_db_close(db);
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_documents(result, JR_COUNT(columns));
	else if (PQntuples(result) > 0 || jr_print_is_terminal(stdout))
		jr_print_table(result, columns, JR_COUNT(columns));
	PQclear(result);
	return 0;
}

const struct jr_cmd jr_cmd_list = {
    .name = "list",
    .group = JR_GROUP_EVERYDAY,
    .summary = "runs, newest first",
    .usage = "[OPTION...]",
    .details = "Words may be repeated or separated by commas: --status queued,retrying.\n"
	       "WHEN is when a waiting run is due, a running one started, any other ended.\n",
    .options = list_options,
    .defaults = &list_defaults,
    .size = sizeof(list_defaults),
    .run = list_run,
};
