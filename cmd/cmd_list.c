/*
 * list: runs, newest first, or what went wrong with them. Status "failed" in table job_runs means that another attempt
 * follows. People see it as "retrying" and may give either word.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "commands.h"
#include "filter.h"
#include "list_columns.h"
#include "list_waiting.h"
#include "pager.h"
#include "pg/pg_error.h"
#include "sql_text.h"

/* Without --since list looks at so many runs of each kind, or at --limit of them, and counts no further. */
#define LOOK 10000
#define ALL_STATUSES "{queued,failed,running,succeeded,dead,cancelled}"

struct list_opts {
	struct jr_filter filter; /* first */
	struct jr_words columns;
	const char *sort, *by;
	bool archived, waiting, csv;
};

static const struct list_opts list_defaults = {.filter = {JR_FILTER_ANY, .limit = 20}};
_Static_assert(offsetof(struct list_opts, filter) == 0, "JR_FILTER_OPTIONS takes offsets in struct jr_filter");

/* clang-format off */
static const struct jr_option list_options[] = {
	JR_FILTER_OPTIONS("queued, retrying, running, succeeded, dead, cancelled", "at most N (20)",
	    100000),
	{ .name = "archived", .help = "archived runs, too; with --since only those months of the archive are read",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct list_opts, archived) },
	{ .name = "waiting", .help = "what will start next, in that order, and why it does not run yet; only with --type, --queue, --limit",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct list_opts, waiting) },
	{ .name = "columns", .letter = 'o', .arg = "COLUMNS", .help = "these columns, in this order: id,type,wait,host; a wrong name lists all",
	    .type = JR_OPT_WORDS, .offset = offsetof(struct list_opts, columns), .check = jr_list_check_column,
	    .word = jr_list_column_word },
	{ .name = "sort", .arg = "COLUMN", .help = "in the order of this column, -COLUMN: the largest first; runs without a value are last",
	    .type = JR_OPT_STRING, .offset = offsetof(struct list_opts, sort), .check = jr_list_check_sort,
	    .word = jr_list_sort_word },
	{ .name = "csv", .help = "as CSV (RFC 4180): times in UTC, durations in ms", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct list_opts, csv) },
	{ .name = "by", .arg = "error", .help = "what went wrong, how often, when, and one run each (of those that are dead)",
	    .type = JR_OPT_STRING, .offset = offsetof(struct list_opts, by), .choices = "error" },
	JR_OPTIONS_END,
};

/* Columns of list_errors.sql. */
enum {
	G_DOCUMENT = 9,
	G_FOUND,
	G_MORE
};
static const struct jr_list_column groups[] = {
	{ .name = "type", .cell = JR_CELL_TEXT, .shown = 0, .raw = 0 },
	{ .name = "error_code", .heading = "CODE", .cell = JR_CELL_TEXT, .shown = 1, .raw = 1 },
	{ .name = "runs", .cell = JR_CELL_NUMBER, .shown = 2, .raw = 2 },
	{ .name = "first", .cell = JR_CELL_AGE, .shown = 3, .raw = 4, .raw_kind = JR_RAW_TIME },
	{ .name = "last", .cell = JR_CELL_AGE, .shown = 5, .raw = 6, .raw_kind = JR_RAW_TIME },
	{ .name = "example", .cell = JR_CELL_NUMBER, .shown = 7, .raw = 7 },
	{ .name = "message", .cell = JR_CELL_CUT, .shown = 8, .raw = 8 },
};
/* clang-format on */

/* What a statement answered, and how to print it. */
struct list {
	PGresult *result;
	struct jr_list_column *columns; /* owned */
	size_t count;
	const char *name; /* of the array in the document */
	int document, found;
	int64_t look;
	bool more; /* more may match, which was not looked at */
};

/* Both statements begin with the same parameters; list_errors.sql has no more than those. */
enum {
	P_ARCHIVED = JR_FILTER_COUNT,
	P_WANTED,
	P_LOOK,
	P_SORT,
	P_DESCENDING,
	P_COUNT
};

/* Is the number of runs told? Then so many are looked for, and one more. */
static bool
tells_total(const struct jr_app *app, const struct list_opts *opts)
{
	return app->json || (!opts->csv && jr_print_is_terminal(stdout));
}

static PGresult *
ask(const struct jr_app *app, struct jr_db *db, const struct list_opts *opts, int64_t look, struct jr_err *err)
{
	bool by_error = opts->by != NULL, descending = opts->sort != NULL && *opts->sort == '-';
	struct jr_filter_params params;
	const char *values[P_COUNT];
	char wanted[24], looked[24];
	const struct jr_statement statements[] = {{jr_sql_list_plan, 0, NULL},
	    {by_error ? jr_sql_list_errors : jr_sql_list, by_error ? P_SORT : P_COUNT, values}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	bool ok;

	jr_filter_bind(&opts->filter, by_error ? "{dead}" : opts->filter.since_ms < 0 ? NULL : ALL_STATUSES, &params);
	memcpy(values, params.values, sizeof(params.values));
	values[P_ARCHIVED] = opts->archived ? "t" : "f";
	values[P_WANTED] = jr_print_int(wanted, tells_total(app, opts) ? look + 1 : opts->filter.limit);
	values[P_LOOK] = jr_print_int(looked, look);
	values[P_SORT] = opts->sort == NULL ? NULL : opts->sort + descending;
	values[P_DESCENDING] = descending ? "t" : "f";
	ok = jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err);
	jr_filter_unbind(&params);
	PQclear(results[0]);
	return ok ? results[1] : NULL;
}

static struct list
list_of(const struct list_opts *opts, PGresult *result, int64_t look)
{
	struct list list = {.result = result, .look = look};

	if (opts->by == NULL) {
		list.columns = jr_list_choose(&opts->columns, &list.count);
		list.name = "runs";
		list.document = JR_LIST_DOCUMENT;
		list.found = JR_LIST_FOUND;
		list.more = *PQgetvalue(result, 0, JR_LIST_MORE) == 't';
		return list;
	}
	list.count = JR_COUNT(groups);
	list.columns = jr_xcalloc(list.count, sizeof(*list.columns));
	memcpy(list.columns, groups, sizeof(groups));
	list.name = "errors";
	list.document = G_DOCUMENT;
	list.found = G_FOUND;
	list.more = *PQgetvalue(result, 0, G_MORE) == 't';
	return list;
}

/* {"total":..,"complete":..,"NAME":[..]}; total is null if it is not known. */
static void
print_json(const struct list *list)
{
	int64_t found = jr_pg_int(list->result, 0, list->found, 0);
	char *total = list->more || found > list->look ? jr_xstrdup("null") : jr_xasprintf("%" PRId64, found);
	char *head = jr_xasprintf("{\"total\":%s,\"complete\":%s}", total, list->more ? "false" : "true");

	jr_print_document_begin(head);
	jr_print_document_list(list->name, list->result, list->document);
	jr_print_document_end();
	free(head);
	free(total);
}

/* On a terminal: how many of how many. */
static void
tell_total(const struct list *list)
{
	int64_t found = jr_pg_int(list->result, 0, list->found, 0);
	int rows = jr_list_rows(list->result);

	if (found > list->look)
		printf("%d of >%" PRId64 " (--limit)\n", rows, list->look);
	else if (found > rows)
		printf("%d of %" PRId64 " (--limit)\n", rows, found);
}

static void
print_list(const struct jr_app *app, const struct list_opts *opts, const struct list *list)
{
	if (app->json)
		print_json(list);
	else if (opts->csv)
		jr_list_print_csv(list->result, list->columns, list->count);
	else if (jr_list_rows(list->result) > 0 || jr_print_is_terminal(stdout))
		jr_list_print_table(list->result, list->columns, list->count);
	if (tells_total(app, opts) && !app->json)
		tell_total(list);
	if (!list->more || app->json)
		return;
	fflush(stdout);
	fprintf(stderr,
	    "jobrun: not all runs were looked at, only %" PRId64
	    " of each kind: newest, dead, waiting, ended last; --since 7d looks at all of 7 days\n",
	    list->look);
}

/* Beside those of --waiting. */
static bool
has_other_filters(const struct jr_filter *filter)
{
	struct jr_filter others = *filter;

	others.types.count = others.queues.count = 0;
	return jr_filter_is_given(&others);
}

static bool
check_options(const struct jr_app *app, const struct list_opts *opts, struct jr_err *err)
{
	if (app->json && opts->csv)
		return jr_fail(err, JR_E_USAGE, "--json and --csv exclude each other");
	if (app->json && opts->columns.count > 0)
		return jr_fail(
		    err, JR_E_USAGE, "--columns: it chooses columns of a table or of --csv; --json has all of them");
	if (opts->by != NULL && (opts->columns.count > 0 || opts->sort != NULL))
		return jr_fail(
		    err, JR_E_USAGE, "--by has its own columns and order: --columns and --sort do not go with it");
	if (opts->archived && opts->filter.since_ms < 0 && (opts->by != NULL || opts->sort != NULL))
		return jr_fail(err, JR_E_USAGE,
		    "--archived: with --%s it needs --since, or the whole archive would be read",
		    opts->by != NULL ? "by" : "sort");
	if (opts->waiting && (opts->archived || opts->csv || opts->by != NULL || opts->sort != NULL ||
				 opts->columns.count > 0 || has_other_filters(&opts->filter)))
		return jr_fail(err, JR_E_USAGE, "--waiting goes with --type, --queue, --limit and --json only");
	return jr_filter_check(&opts->filter, err);
}

static int
list_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct list_opts *opts = values;
	int64_t look = opts->filter.limit > LOOK ? opts->filter.limit : LOOK;
	struct jr_db *db;
	PGresult *result = NULL;
	struct list list;

	(void)argc;
	(void)argv;
	if (!check_options(app, opts, err))
		return (int)err->code;
	if (opts->waiting)
		return jr_list_waiting(app, &opts->filter, err);
	db = jr_cmd_connect(app, err);
	if (db != NULL)
		result = ask(app, db, opts, look, err);
	if (result != NULL && jr_list_rows(result) == 0)
		jr_filter_warn_unknown(&opts->filter, db);
	jr_db_close(db);
	if (result == NULL)
		return (int)err->code;
	list = list_of(opts, result, look);
	jr_pager_open(!app->no_pager);
	print_list(app, opts, &list);
	free(list.columns);
	PQclear(result);
	return 0;
}

const struct jr_cmd jr_cmd_list = {
    .name = "list",
    .group = JR_GROUP_EVERYDAY,
    .summary = "list runs, newest first, or with --by error what went wrong",
    .usage = "[OPTION...]",
    .details = "Words may be repeated or separated by commas: --status queued,retrying.\n"
	       "WHEN is when a waiting run is due, a running one started, any other ended.\n"
	       "SLOT is the nominal time of a scheduled run, in the zone of its definition.\n"
	       "Without --since list looks at 10000 runs (or --limit) of each kind: the newest, the newest\n"
	       "dead ones, waiting ones (with --type: of each type), and those that ended last. It says so if\n"
	       "that may not be all. --sort orders what it finds there; then --limit takes the first ones.\n"
	       "'jobrun retry' and 'jobrun cancel' take the options from --status to --limit, too.\n",
    .options = list_options,
    .defaults = &list_defaults,
    .size = sizeof(list_defaults),
    .kind = "read",
    .run = list_run,
};
