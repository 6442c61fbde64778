/*
 * stats: what ended in the last hours or days, how it ended, how late it started and how long it took.
 *
 * The numbers are those of table job_stats and of the hours that are not summed yet, so the history is never read.
 * Times are known by their power of two: "<4.1s" is 2.048 to 4.096 seconds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "handler/document.h"
#include "list_columns.h"
#include "pager.h"
#include "print.h"
#include "sql_text.h"
#include "terminal.h"
#include "zone.h"

struct stats_opts {
	const char *by, *time_zone;
	int64_t since_ms;
	bool csv;
};

static const struct stats_opts stats_defaults = {.by = "type", .since_ms = INT64_C(86400000)};

#define AT(field) offsetof(struct stats_opts, field)

/* clang-format off */
static const struct jr_option stats_options[] = {
	{ .name = "by", .arg = "WHAT", .help = "a line for each type, queue, hour, day or error (type)", .type = JR_OPT_STRING,
	    .offset = AT(by), .choices = "type queue hour day error" },
	{ .name = "since", .arg = "D", .help = "what ended within D, and in the hour in which D begins (1d)",
	    .type = JR_OPT_DURATION, .offset = AT(since_ms), .min = 1 },
	{ .name = "time-zone", .arg = "ZONE", .help = "of the hours or days of --by (that of this host)", .type = JR_OPT_STRING,
	    .offset = AT(time_zone) },
	{ .name = "csv", .help = "as CSV (RFC 4180): durations in ms, times of errors in UTC", .type = JR_OPT_FLAG, .offset = AT(csv) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* The columns of stats.sql. */
enum {
	NAME,
	SUCCEEDED,
	FAILED,
	DEAD,
	CANCELLED,
	LOST,
	FIRST_BELOW,
	LAST_BELOW = FIRST_BELOW + 5,
	TOTAL,
	RUN_BUCKETS,
	WAIT_BUCKETS,
	DOCUMENT,
	SHOWN = RUN_BUCKETS
};

/* The columns of stats_errors.sql that are no column of the table. */
enum {
	E_LAST_AT = 6,
	E_DOCUMENT
};

/* Two digits of a power of two: "<512ms", "<4.1s", "<17m". Caller frees. */
static char *
below_text(int64_t ms)
{
	static const struct {
		double ms;
		const char *name;
	} units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};

	for (size_t i = 0; i < JR_COUNT(units); i++) {
		double value = (double)ms / units[i].ms;

		if (value >= 1)
			return jr_xasprintf(value < 9.95 ? "<%.1f%s" : "<%.0f%s", value, units[i].name);
	}
	return jr_xasprintf("<%" PRId64 "ms", ms);
}

/* What is mostly 0: a column of nothing else is left out on a terminal. */
static bool
is_left_out(const PGresult *result, int column)
{
	if ((column != FAILED && column != CANCELLED && column != LOST) || !jr_print_is_terminal(stdout))
		return false;
	for (int row = 0; row < PQntuples(result); row++) {
		if (jr_pg_int(result, row, column, 0) != 0)
			return false;
	}
	return true;
}

/* Caller frees; NULL: no value. */
static char *
cell_of(const PGresult *result, int row, int column)
{
	if (PQgetisnull(result, row, column))
		return NULL;
	if (column >= FIRST_BELOW && column <= LAST_BELOW)
		return below_text(jr_pg_int(result, row, column, 0));
	if (column == TOTAL)
		return jr_format_duration(jr_pg_int(result, row, column, 0));
	return jr_xstrdup(PQgetvalue(result, row, column));
}

static void
print_table(const PGresult *result, const char *first)
{
	const struct jr_column columns[SHOWN] = {{first, JR_CELL_WHOLE}, {"OK", JR_CELL_NUMBER},
	    {"FAILED", JR_CELL_NUMBER}, {"DEAD", JR_CELL_NUMBER}, {"CANCELLED", JR_CELL_NUMBER},
	    {"LOST", JR_CELL_NUMBER}, {"WAIT50", JR_CELL_NUMBER}, {"WAIT95", JR_CELL_NUMBER},
	    {"WAIT99", JR_CELL_NUMBER}, {"RUN50", JR_CELL_NUMBER}, {"RUN95", JR_CELL_NUMBER}, {"RUN99", JR_CELL_NUMBER},
	    {"TOTAL", JR_CELL_NUMBER}};
	size_t rows = (size_t)PQntuples(result);
	char **cells = jr_xcalloc(rows * SHOWN + 1, sizeof(*cells));

	for (int column = 0; column < SHOWN; column++) {
		bool left_out = is_left_out(result, column);

		for (int row = 0; row < PQntuples(result); row++)
			cells[row * SHOWN + column] = left_out ? NULL : cell_of(result, row, column);
	}
	jr_print_rows((const char *const *)cells, rows, columns, SHOWN);
	for (size_t i = 0; i < rows * SHOWN; i++)
		free(cells[i]);
	free(cells);
}

/* A line for each bucket from the first to the last that has any. `counts`: numbers with spaces between them. */
static void
print_histogram(const char *title, const char *counts)
{
	const char *block = *jr_terminal_mark() == '.' ? "#" : "\u2588";
	int64_t n[32] = {0}, most = 0, last = -1, first = -1;
	char *end;

	for (int64_t k = 0; k < 32 && *counts != '\0'; k++, counts = end) {
		n[k] = strtoll(counts, &end, 10);
		if (end == counts)
			return;
		most = n[k] > most ? n[k] : most;
		first = first < 0 && n[k] > 0 ? k : first;
		last = n[k] > 0 ? k : last;
	}
	if (most == 0)
		return;
	printf("\n%s\n", title);
	for (int64_t k = first; k <= last; k++) {
		char *below = below_text(INT64_C(2) << k);

		printf("%9s ", below);
		for (int64_t i = 0; i < (n[k] * 40 + most - 1) / most; i++)
			fputs(block, stdout);
		printf("%s%" PRId64 "\n", n[k] > 0 ? " " : "", n[k]);
		free(below);
	}
}

/* Hours and days alone have a time zone. */
static bool
in_zone(const struct stats_opts *opts)
{
	return strcmp(opts->by, "hour") == 0 || strcmp(opts->by, "day") == 0;
}

/* What the table is about: the window, and for hours and days the zone. */
static void
print_window(const struct stats_opts *opts, const char *zone)
{
	char *took = jr_format_duration(opts->since_ms);

	printf("What ended in the last %s%s%s\n", took, in_zone(opts) ? ", in " : "", in_zone(opts) ? zone : "");
	free(took);
}

static void
print_errors(const PGresult *result)
{
	static const struct jr_column columns[] = {{"TYPE", JR_CELL_TEXT}, {"ERROR", JR_CELL_WHOLE},
	    {"COUNT", JR_CELL_NUMBER}, {"DEAD", JR_CELL_NUMBER}, {"LAST", JR_CELL_AGE}, {"EXAMPLE", JR_CELL_NUMBER}};

	jr_print_table(result, columns, JR_COUNT(columns));
}

/* The buckets are in the document only. */
static void
print_csv(const struct stats_opts *opts, const PGresult *result)
{
	static const struct jr_list_column errors[] = {{.name = "type", .raw = 0}, {.name = "error_code", .raw = 1},
	    {.name = "count", .raw = 2}, {.name = "dead", .raw = 3},
	    {.name = "last", .raw = E_LAST_AT, .raw_kind = JR_RAW_TIME}, {.name = "example", .raw = 5}};
	static const char *const names[SHOWN] = {NULL, "succeeded", "failed", "dead", "cancelled", "lost", "wait_p50",
	    "wait_p95", "wait_p99", "run_p50", "run_p95", "run_p99", "run"};
	struct jr_list_column columns[SHOWN];

	if (strcmp(opts->by, "error") == 0) {
		jr_list_print_csv(result, errors, JR_COUNT(errors));
		return;
	}
	for (int i = 0; i < SHOWN; i++)
		columns[i] = (struct jr_list_column){.name = i == NAME ? opts->by : names[i],
		    .raw = i,
		    .raw_kind = i >= FIRST_BELOW ? JR_RAW_MS : JR_RAW_TEXT};
	jr_list_print_csv(result, columns, SHOWN);
}

static void
print_text(const struct stats_opts *opts, const char *zone, int argc, const PGresult *result)
{
	char *first = jr_xstrdup(opts->by);

	if (jr_print_is_terminal(stdout))
		print_window(opts, zone);
	for (char *c = first; *c != '\0'; c++)
		*c = (char)(*c - 'a' + 'A');
	if (PQntuples(result) == 0)
		puts("nothing ended");
	else if (strcmp(opts->by, "error") == 0)
		print_errors(result);
	else
		print_table(result, first);
	if (argc == 1 && strcmp(opts->by, "type") == 0 && PQntuples(result) == 1 && jr_print_is_terminal(stdout)) {
		print_histogram("Waited", PQgetvalue(result, 0, WAIT_BUCKETS));
		print_histogram("Ran", PQgetvalue(result, 0, RUN_BUCKETS));
	}
	free(first);
}

static void
print_json(const struct stats_opts *opts, const char *zone, const PGresult *result, int document)
{
	json_t *head = json_pack("{s:s, s:I, s:o}", "by", opts->by, "since_ms", (json_int_t)opts->since_ms, "time_zone",
	    jr_document_string(zone, strlen(zone)));
	char *text = json_dumps(head, JSON_COMPACT);

	jr_print_document_begin(text);
	jr_print_document_list("rows", result, document);
	jr_print_document_end();
	free(text);
	json_decref(head);
}

static PGresult *
ask(const struct jr_app *app, const struct stats_opts *opts, const char *zone, int argc, char **argv,
    struct jr_err *err)
{
	bool errors = strcmp(opts->by, "error") == 0;
	char *types = jr_pg_array_or_null((const char *const *)argv, (size_t)argc), since[24];
	const char *values[] = {jr_print_int(since, opts->since_ms), types, opts->by, zone};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;

	if (db != NULL && jr_zone_check(db, opts->time_zone, err))
		result = jr_db_query(db, errors ? jr_sql_stats_errors : jr_sql_stats, errors ? 2 : JR_COUNT(values),
		    values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	free(types);
	return result;
}

static bool
check(const struct jr_app *app, const struct stats_opts *opts, int argc, char **argv, struct jr_err *err)
{
	if (app->json && opts->csv)
		return jr_fail(err, JR_E_USAGE, "--json and --csv exclude each other");
	if (opts->time_zone != NULL && !in_zone(opts))
		return jr_fail(err, JR_E_USAGE, "--time-zone is that of hours and days: add --by hour or --by day");
	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return false;
	}
	return true;
}

static int
stats_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct stats_opts *opts = values;
	char *zone;
	PGresult *result;

	if (!check(app, opts, argc, argv, err))
		return (int)err->code;
	zone = opts->time_zone == NULL ? jr_zone_of_host() : jr_xstrdup(opts->time_zone);
	result = ask(app, opts, zone, argc, argv, err);
	if (result == NULL)
		jr_zone_blame(err);
	if (result != NULL) {
		jr_pager_open(!app->no_pager);
		if (app->json)
			print_json(opts, zone, result, strcmp(opts->by, "error") == 0 ? E_DOCUMENT : DOCUMENT);
		else if (opts->csv)
			print_csv(opts, result);
		else
			print_text(opts, zone, argc, result);
	}
	PQclear(result);
	free(zone);
	return result == NULL ? (int)err->code : 0;
}

const struct jr_cmd jr_cmd_stats = {
    .name = "stats",
    .group = JR_GROUP_WATCH,
    .summary = "show what ended, how late and how long, by type or hour",
    .usage = "[OPTION...] [TYPE...]",
    .details =
	"OK, DEAD and CANCELLED are runs. FAILED and LOST are attempts after which another one followed.\n"
	"WAIT is how late runs started, RUN how long they and their attempts took: half of them, 95% and 99%\n"
	"stayed below this time. Times are known by their power of two: <4.1s is 2.048 to 4.096 seconds.\n"
	"TOTAL is the sum of the times, by which types and queues are ordered. With one TYPE a terminal gets\n"
	"the distribution, too. --by error counts attempts by job type and error code, with the newest as EXAMPLE.\n",
    .options = stats_options,
    .defaults = &stats_defaults,
    .size = sizeof(stats_defaults),
    .max_args = -1,
    .kind = "read",
    .run = stats_run,
};
