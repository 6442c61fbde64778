/*
 * next: when a definition will fire, or when a schedule that is in no definition would fire.
 *
 * An expression has spaces or begins with @; a name does not. An argument with other characters of expressions counts
 * as an expression too, so that the server can say what is wrong with it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "commands.h"
#include "next_times.h"
#include "print.h"
#include "sql_text.h"
#include "zone.h"

#define COUNT_MAX 10000

struct next_opts {
	const char *time_zone, *after;
	int64_t count;
};

static const struct next_opts next_defaults = {.count = 5};

#define AT(field) offsetof(struct next_opts, field)

/* clang-format off */
static const struct jr_option next_options[] = {
	{ .name = "time-zone", .arg = "ZONE", .help = "time zone of EXPR (UTC)", .type = JR_OPT_STRING, .offset = AT(time_zone) },
	{ .name = "count", .arg = "N", .help = "how many (5)", .type = JR_OPT_INT, .offset = AT(count), .min = 1,
	    .max = COUNT_MAX },
	{ .name = "after", .arg = "TIME", .help = "only times after TIME (now): '2026-03-28', read in the zone of the schedule",
	    .type = JR_OPT_STRING, .offset = AT(after) },
	JR_OPTIONS_END,
};
/* clang-format on */

static bool
is_expression(const char *text)
{
	return strpbrk(text, " \t*/,?@#") != NULL;
}

/* *value becomes --after in Unix ms (as text in `out`); it is not touched without --after. */
static bool
read_after(struct jr_db *db, const char *const *values, const char *after, char out[24], const char **value,
    struct jr_err *err)
{
	const struct jr_statement statements[] = {{jr_sql_next_zone, 2, values}, {jr_sql_next_after, 1, &after}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	bool ok = false;

	if (after == NULL)
		return true;
	if (!jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err)) {
		jr_zone_blame_time("--after", after, err);
		return false;
	}
	if (PQgetisnull(results[1], 0, 0))
		jr_fail(err, JR_E_USAGE, "--after: \"%.100s\" is no point in time", after);
	else {
		*value = jr_print_int(out, jr_pg_int(results[1], 0, 0, 0));
		ok = true;
	}
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return ok;
}

static PGresult *
ask(const struct jr_app *app, const struct next_opts *opts, const char *what, struct jr_err *err)
{
	bool expression = is_expression(what);
	char after[24], count[24];
	const char *values[JR_NEXT_TIMES_PARAMS] = {[JR_NEXT_TIMES_OF] = expression ? NULL : what,
	    [JR_NEXT_TIMES_SCHEDULE] = expression ? what : NULL,
	    [JR_NEXT_TIMES_ZONE] = opts->time_zone == NULL ? "UTC" : opts->time_zone,
	    [JR_NEXT_TIMES_COUNT] = jr_print_int(count, opts->count)};
	const char *zone[] = {values[JR_NEXT_TIMES_OF], values[JR_NEXT_TIMES_ZONE]};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;

	if (db != NULL && read_after(db, zone, opts->after, after, &values[JR_NEXT_TIMES_AFTER], err))
		result = jr_db_query(db, jr_sql_next, JR_NEXT_TIMES_PARAMS, values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	return result;
}

static bool
check(const struct next_opts *opts, const char *what, struct jr_err *err)
{
	if (is_expression(what))
		return true;
	if (opts->time_zone != NULL)
		return jr_fail(
		    err, JR_E_USAGE, "--time-zone is for an expression; definition %.100s has its own", what);
	return jr_parse_definition("NAME", what, err);
}

static bool
fail_without_times(const char *what, const PGresult *result, struct jr_err *err)
{
	if (PQntuples(result) == 0)
		return jr_fail(err, JR_E_DATA, "there is no definition %s; 'jobrun define --list' shows them", what);
	if (!jr_next_times_has_schedule(result))
		return jr_fail(err, JR_E_NEWS, "definition %s has no schedule", what);
	if (jr_next_times_lost(result) != NULL)
		return jr_fail(err, JR_E_DATA, "%s", jr_next_times_lost(result));
	return jr_fail(err, JR_E_NEWS, "\"%.200s\" does not fire any more", what);
}

static int
next_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct next_opts *opts = values;
	PGresult *result = NULL;
	bool ok;

	(void)argc;
	if (check(opts, argv[0], err))
		result = ask(app, opts, argv[0], err);
	if (result == NULL)
		return (int)err->code;
	ok = jr_next_times_has_times(result) || fail_without_times(argv[0], result, err);
	if (ok && app->json) {
		jr_print_document_begin(PQgetvalue(result, 0, JR_NEXT_TIMES_HEAD));
		jr_print_document_list("slots", result, JR_NEXT_TIMES_DOCUMENT);
		jr_print_document_end();
	} else if (ok)
		jr_next_times_print(stdout, "", result);
	fflush(stdout);
	jr_next_times_hint(stderr, "jobrun: ", argv[0], result);
	PQclear(result);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_next = {
    .name = "next",
    .group = JR_GROUP_SCHEDULE,
    .summary = "show when a definition or a schedule fires next",
    .usage = "[OPTION...] NAME|EXPR",
    .details = "EXPR is a schedule: '30 2 * * mon-fri', '@daily', '@every 15m'. A line for each time, in its zone.\n"
	       "A line on stderr says if the definition is disabled or paused.\n",
    .options = next_options,
    .defaults = &next_defaults,
    .size = sizeof(next_defaults),
    .min_args = 1,
    .max_args = 1,
    .kind = "read",
    .run = next_run,
};
