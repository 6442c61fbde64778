/*
 * queue: show the queues and their limits, or set the limits of one.
 *
 * The limits on the command line are checked here and sent as one JSON object with only these members, so that other
 * limits stay as they are. The line that is printed is read in the same transaction.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "known.h"
#include "print.h"
#include "sql_text.h"

#define LIMIT_MAX INT64_C(1000000000)
#define PERIOD_MAX_MS (INT64_C(366) * 86400 * 1000)

struct queue_opts {
	const char *max_running, *per_key, *rate, *reason;
	bool remove, dry_run;
};

static const struct queue_opts queue_defaults = {.reason = NULL};

static bool
is_none(const char *text)
{
	return strcmp(text, "none") == 0;
}

static bool
check_limit(const char *what, const char *text, struct jr_err *err)
{
	int64_t unused;

	return is_none(text) || jr_parse_int(what, text, 0, LIMIT_MAX, &unused, err);
}

/* "100/1m", "5/s". */
static bool
parse_rate(const char *what, const char *text, int64_t *limit, int64_t *period_ms, struct jr_err *err)
{
	size_t len = strcspn(text, "/");
	const char *period = text + len + 1;
	char *number, *whole;
	bool ok;

	if (text[len] == '\0' || len == 0 || *period == '\0')
		return jr_fail(
		    err, JR_E_USAGE, "%s: \"%.100s\" is not N/PERIOD; write it like 100/1m, or none", what, text);
	number = jr_xmemdup0(text, len);
	/* "s" alone is one second */
	whole = jr_xasprintf("%s%s", *period >= 'a' && *period <= 'z' ? "1" : "", period);
	ok = jr_parse_int(what, number, 0, LIMIT_MAX, limit, err) && jr_parse_duration(what, whole, period_ms, err);
	free(number);
	free(whole);
	if (ok && (*period_ms < 1 || *period_ms > PERIOD_MAX_MS))
		return jr_fail(err, JR_E_USAGE, "%s: the period of \"%.100s\" is too %s", what, text,
		    *period_ms < 1 ? "short; at least 1ms" : "long; at most 366d");
	return ok;
}

static bool
check_rate(const char *what, const char *text, struct jr_err *err)
{
	int64_t limit, period_ms;

	return is_none(text) || parse_rate(what, text, &limit, &period_ms, err);
}

#define AT(field) offsetof(struct queue_opts, field)

/* clang-format off */
static const struct jr_option queue_options[] = {
	{ .name = "max-running", .arg = "N", .help = "at most N runs of the queue at once, on all hosts; none: no limit",
	    .type = JR_OPT_STRING, .offset = AT(max_running), .check = check_limit, .choices = "none" },
	{ .name = "per-key", .arg = "N", .help = "at most N runs with the same lock key at once (1); none: no limit",
	    .type = JR_OPT_STRING, .offset = AT(per_key), .check = check_limit, .choices = "none" },
	{ .name = "rate", .arg = "N/PERIOD", .help = "start at most N runs in each PERIOD: 100/1m; none: no limit",
	    .type = JR_OPT_STRING, .offset = AT(rate), .check = check_rate, .choices = "none" },
	{ .name = "remove", .help = "forget its limits and its pause; its runs stay", .type = JR_OPT_FLAG, .offset = AT(remove) },
	{ .name = "reason", .arg = "TEXT", .help = "why, for the audit", .type = JR_OPT_STRING, .offset = AT(reason) },
	{ .name = "dry-run", .letter = 'n', .help = "show the queue as it would be, change nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "NAME", JR_CELL_TEXT },
	{ "RUNNING", JR_CELL_NUMBER },
	{ "WAITING", JR_CELL_NUMBER },
	{ "MAX", JR_CELL_NUMBER },
	{ "PER KEY", JR_CELL_NUMBER },
	{ "RATE", JR_CELL_TEXT },
	{ "PAUSED", JR_CELL_CUT },
};

/* Columns of queues.sql. */
enum { Q_PLAIN = 5, Q_RATE = 5, Q_PERIOD, Q_USED, Q_UNTIL, Q_REASON, Q_DOC };
/* clang-format on */

/* "100/1m, used 37". Caller frees; NULL: no limit. */
static char *
rate_text(const PGresult *result, int row)
{
	char *period, *text;

	if (PQgetisnull(result, row, Q_RATE))
		return NULL;
	period = jr_format_duration(jr_pg_int(result, row, Q_PERIOD, 0));
	text = jr_xasprintf("%s/%s, used %s", PQgetvalue(result, row, Q_RATE), period, PQgetvalue(result, row, Q_USED));
	free(period);
	return text;
}

/* "until 14:35:00+01:00: the disk is full". Caller frees; NULL: not paused. */
static char *
pause_text(const PGresult *result, int row)
{
	int64_t until = jr_pg_int(result, row, Q_UNTIL, -1);
	const char *reason = jr_pg_text(result, row, Q_REASON);
	char *at, *text;

	if (until < 0)
		return NULL;
	at = until == 0 ? jr_xstrdup("until resumed") : jr_format_local_time(until);
	text = jr_xasprintf(
	    "%s%s%s%s", until == 0 ? "" : "until ", at, reason == NULL ? "" : ": ", reason == NULL ? "" : reason);
	free(at);
	return text;
}

static void
print_table(const PGresult *result)
{
	size_t rows = (size_t)PQntuples(result), width = JR_COUNT(columns);
	const char **cells = jr_xcalloc(rows * width + 1, sizeof(*cells));
	char **made = jr_xcalloc(rows * 2 + 1, sizeof(*made));

	for (size_t row = 0; row < rows; row++) {
		for (size_t i = 0; i < Q_PLAIN; i++)
			cells[row * width + i] = jr_pg_text(result, (int)row, (int)i);
		made[row * 2] = rate_text(result, (int)row);
		made[row * 2 + 1] = pause_text(result, (int)row);
		cells[row * width + Q_PLAIN] = made[row * 2];
		cells[row * width + Q_PLAIN + 1] = made[row * 2 + 1];
	}
	jr_print_rows(cells, rows, columns, width);
	for (size_t i = 0; i < rows * 2; i++)
		free(made[i]);
	free(made);
	free(cells);
}

/* The member of a limit: a number, or null for none. */
static json_t *
limit_value(const char *text)
{
	struct jr_err unused;
	int64_t n;

	if (is_none(text) || !jr_parse_int("", text, 0, LIMIT_MAX, &n, &unused))
		return json_null();
	return json_integer(n);
}

static void
set_rate(json_t *changes, const char *text)
{
	struct jr_err unused;
	int64_t limit = 0, period_ms = 0;
	char *period;

	if (is_none(text) || !parse_rate("", text, &limit, &period_ms, &unused)) {
		json_object_set_new(changes, "rate_limit", json_null());
		json_object_set_new(changes, "rate_period", json_null());
		return;
	}
	/* in seconds: old servers cannot read large numbers of milliseconds in an interval */
	period = jr_xasprintf("%" PRId64 ".%03" PRId64 " seconds", period_ms / 1000, period_ms % 1000);
	json_object_set_new(changes, "rate_limit", json_integer(limit));
	json_object_set_new(changes, "rate_period", json_string(period));
	free(period);
}

/* The given limits as JSON; NULL when none was given. Caller frees. */
static char *
changes_of(const struct queue_opts *opts)
{
	json_t *changes = json_object();
	char *text = NULL;

	if (opts->max_running != NULL)
		json_object_set_new(changes, "max_running", limit_value(opts->max_running));
	if (opts->per_key != NULL)
		json_object_set_new(changes, "max_running_per_key", limit_value(opts->per_key));
	if (opts->rate != NULL)
		set_rate(changes, opts->rate);
	if (json_object_size(changes) > 0)
		text = json_dumps(changes, JSON_COMPACT);
	json_decref(changes);
	return text;
}

/* Answers of the database. NULL: was not asked. */
struct answers {
	PGresult *others, *changed, *lines;
};

/* Make the change, if there is one, and read the lines of `name` (NULL: all). With -n roll back. */
static bool
ask(struct jr_db *db, const char *name, const char *changes, const struct queue_opts *opts, struct answers *answers,
    struct jr_err *err)
{
	const char *set[] = {name, changes, opts->reason}, *removed[] = {name, opts->reason};
	struct jr_statement statements[5];
	PGresult *results[JR_COUNT(statements)] = {NULL};
	PGresult **wanted[JR_COUNT(statements)] = {NULL};
	size_t count = 0;

	if (name != NULL) {
		wanted[count] = &answers->others;
		statements[count++] = (struct jr_statement){jr_sql_other_queues, 1, &name};
	}
	if (changes != NULL || opts->remove) {
		wanted[count] = &answers->changed;
		statements[count++] = opts->remove
					  ? (struct jr_statement){jr_sql_remove_queue, JR_COUNT(removed), removed}
					  : (struct jr_statement){jr_sql_set_queue, JR_COUNT(set), set};
	}
	wanted[count] = &answers->lines;
	statements[count++] = (struct jr_statement){jr_sql_queues, 1, &name};
	if (opts->dry_run) {
		statements[count++] = (struct jr_statement){jr_sql_rollback, 0, NULL};
		statements[count++] = (struct jr_statement){jr_sql_begin, 0, NULL};
	}
	if (!jr_db_run(db, statements, count, results, JR_CMD_TIMEOUT_MS, err))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (wanted[i] != NULL)
			*wanted[i] = results[i];
		else
			PQclear(results[i]);
	}
	return true;
}

static bool
check(const char *name, const char *changes, const struct queue_opts *opts, struct jr_err *err)
{
	if (name != NULL && !jr_parse_queue("NAME", name, err))
		return false;
	if (name == NULL && (changes != NULL || opts->remove))
		return jr_fail(err, JR_E_USAGE,
		    "which queue? usage: jobrun queue NAME [--max-running N] [--per-key N] [--rate N/PERIOD] | NAME --remove");
	if (changes != NULL && opts->remove)
		return jr_fail(err, JR_E_USAGE, "--remove forgets all limits: it does not go with new ones");
	if (changes == NULL && !opts->remove && (opts->reason != NULL || opts->dry_run))
		return jr_fail(
		    err, JR_E_USAGE, "nothing to change: --max-running, --per-key, --rate or --remove says what");
	return true;
}

/* "queue mail: removed". Returns the exit status. */
static int
tell_removed(const char *name, const struct queue_opts *opts, const PGresult *removed, struct jr_err *err)
{
	const char *done = jr_pg_text(removed, 0, 0);

	if (done == NULL) {
		jr_fail(err, JR_E_NEWS, "queue %s has no limits and no pause to remove", name);
		return JR_E_NEWS;
	}
	printf("queue %s: %s%s\n", name, opts->dry_run ? "would be " : "",
	    strcmp(done, "removed") == 0
		? "removed"
		: "without limits, but for one run per lock key at a time: runs or definitions in it have lock keys");
	return 0;
}

static int
tell(const struct jr_app *app, const char *name, const struct queue_opts *opts, const struct answers *answers,
    struct jr_err *err)
{
	bool unknown = name != NULL && PQntuples(answers->lines) == 0;
	int status = 0;

	if (opts->remove && (!app->json || PQgetisnull(answers->changed, 0, 0)))
		status = tell_removed(name, opts, answers->changed, err);
	else if (app->json)
		jr_print_list("queues", answers->lines, Q_DOC);
	else if (PQntuples(answers->lines) > 0 || (name == NULL && jr_print_is_terminal(stdout))) {
		if (opts->dry_run)
			printf("would be:\n");
		print_table(answers->lines);
	}
	if (unknown && !opts->remove) {
		status = JR_E_NEWS;
		if (!app->json)
			jr_fail(err, JR_E_NEWS, "queue %s has no limits, and no run is in it", name);
	}
	if (name != NULL)
		jr_known_warn("queue", name, jr_pg_text(answers->others, 0, 0));
	return status;
}

static int
queue_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct queue_opts *opts = values;
	const char *name = argc > 0 ? argv[0] : NULL;
	char *changes = changes_of(opts);
	struct answers answers = {NULL};
	struct jr_db *db = NULL;
	bool ok = false;
	int status;

	if (check(name, changes, opts, err))
		db = jr_cmd_connect(app, err);
	if (db != NULL)
		ok = ask(db, name, changes, opts, &answers, err);
	jr_db_close(db);
	free(changes);
	status = ok ? tell(app, name, opts, &answers, err) : (int)err->code;
	PQclear(answers.others);
	PQclear(answers.changed);
	PQclear(answers.lines);
	return status;
}

static bool
queue_changes(const void *values, int argc)
{
	const struct queue_opts *opts = values;

	(void)argc;
	return opts->remove || opts->max_running != NULL || opts->per_key != NULL || opts->rate != NULL;
}

const struct jr_cmd jr_cmd_queue = {
    .name = "queue",
    .group = JR_GROUP_SETUP,
    .summary = "show queues and their limits, or set the limits of one",
    .usage = "[NAME [OPTION...]] | NAME --remove [OPTION...]",
    .details =
	"Without options: list the queues that have unfinished runs or ever had a limit, pause or lock key.\n"
	"A limit that is not given stays.\n"
	"A run that a limit holds back stays due and no attempt counts. With a limit of 0 nothing starts;\n"
	"'jobrun pause --queue NAME' does the same and records why and until when.\n"
	"With --remove its runs go on without limits. If unfinished runs or definitions in it have lock keys, one run\n"
	"per lock key at a time stays the rule.\n",
    .options = queue_options,
    .defaults = &queue_defaults,
    .size = sizeof(queue_defaults),
    .max_args = 1,
    .kind = "read",
    .needs_admin = queue_changes,
    .run = queue_run,
};
