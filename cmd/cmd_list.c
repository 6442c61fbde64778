/*
 * list: runs, newest first. Status "failed" in table job_runs means that another attempt follows. People see it as
 * "retrying" and may give either word; --json keeps "failed".
 */
#include <string.h>

#include "commands.h"
#include "filter.h"
#include "list_waiting.h"
#include "pager.h"
#include "print.h"
#include "sql_text.h"

struct list_opts {
	struct jr_filter filter; /* first */
	bool archived, waiting;
};

static const struct list_opts list_defaults = {.filter = {.since_ms = -1, .limit = 20}};
_Static_assert(offsetof(struct list_opts, filter) == 0, "JR_FILTER_OPTIONS takes offsets in struct jr_filter");

/* clang-format off */
static const struct jr_option list_options[] = {
	JR_FILTER_OPTIONS("queued, retrying, running, succeeded, dead, cancelled", "at most N (20)",
	    100000),
	{ .name = "archived", .help = "archived runs, too; with --since only those months of the archive are read",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct list_opts, archived) },
	{ .name = "waiting", .help = "what will start next, in that order, and why it does not run yet; only with --type, --queue, --limit",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct list_opts, waiting) },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "ID", JR_CELL_NUMBER },
	{ "TYPE", JR_CELL_TEXT },
	{ "STATUS", JR_CELL_STATE },
	{ "TRY", JR_CELL_TEXT },
	{ "WHEN", JR_CELL_AGE },
	{ "TOOK", JR_CELL_TOOK },
	{ "DEFINITION", JR_CELL_TEXT },
	{ "SLOT", JR_CELL_WHOLE },
	{ "MESSAGE", JR_CELL_CUT },
};
/* clang-format on */

static PGresult *
ask(struct jr_db *db, const struct list_opts *opts, struct jr_err *err)
{
	struct jr_filter_params params;
	const char *values[JR_FILTER_COUNT + 1];
	PGresult *result;

	jr_filter_bind(&opts->filter,
	    opts->filter.since_ms < 0 ? NULL : "{queued,failed,running,succeeded,dead,cancelled}", &params);
	memcpy(values, params.values, sizeof(params.values));
	values[JR_FILTER_COUNT] = opts->archived ? "t" : "f";
	result = jr_db_query(db, jr_sql_list, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	jr_filter_unbind(&params);
	return result;
}

/* Beside those of --waiting. */
static bool
has_other_filters(const struct jr_filter *filter)
{
	return filter->statuses.count > 0 || filter->definitions.count > 0 || filter->since_ms >= 0;
}

static int
list_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct list_opts *opts = values;
	struct jr_db *db;
	PGresult *result = NULL;

	(void)argc;
	(void)argv;
	if (opts->waiting && (opts->archived || has_other_filters(&opts->filter))) {
		jr_fail(err, JR_E_USAGE, "--waiting goes with --type, --queue and --limit only");
		return (int)err->code;
	}
	if (opts->waiting)
		return jr_list_waiting(app, &opts->filter, err);
	db = jr_cmd_connect(app, err);
	if (db != NULL)
		result = ask(db, values, err);
	jr_db_close(db);
	if (result == NULL)
		return (int)err->code;
	jr_pager_open(!app->no_pager);
	if (app->json)
		jr_print_list("runs", result, JR_COUNT(columns));
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
	       "WHEN is when a waiting run is due, a running one started, any other ended.\n"
	       "SLOT is the nominal time of a scheduled run, in the zone of its definition.\n"
	       "'jobrun retry' and 'jobrun cancel' take the same options.\n",
    .options = list_options,
    .defaults = &list_defaults,
    .size = sizeof(list_defaults),
    .run = list_run,
};
