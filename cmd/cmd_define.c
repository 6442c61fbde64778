/*
 * define: make or change a definition, show one or all, remove some, or apply a file of them.
 *
 * Numbers, durations and names are checked here, as in every command. The database checks the rest, above all schedules
 * and time zones, so that every client gets the same errors.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "change.h"
#include "define.h"
#include "next_times.h"
#include "payload.h"
#include "print.h"
#include "sql_text.h"
#include "zone.h"

#define NEXT_COUNT "3"

static const struct jr_define_opts define_defaults = {.type = NULL};

#define AT(field) offsetof(struct jr_define_opts, field)

/* clang-format off */
static const struct jr_option define_options[] = {
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "job type (the name)", .type = JR_OPT_STRING,
	    .offset = AT(type), .check = jr_define_check_name },
	{ .name = "schedule", .arg = "EXPR", .help = "when: '30 2 * * *', '@daily', '@every 15m'; none: only defaults",
	    .type = JR_OPT_STRING, .offset = AT(schedule) },
	{ .name = "time-zone", .arg = "ZONE", .help = "time zone of the schedule (UTC)", .type = JR_OPT_STRING,
	    .offset = AT(time_zone) },
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "queue (default)", .type = JR_OPT_STRING,
	    .offset = AT(queue), .check = jr_define_check_queue },
	{ .name = "priority", .letter = 'p', .arg = "N", .help = "smaller first, -1000 to 1000 (100)", .type = JR_OPT_STRING,
	    .offset = AT(priority), .check = jr_define_check_priority },
	{ .name = "max-attempts", .arg = "N", .help = "attempts before a run is dead (5)", .type = JR_OPT_STRING,
	    .offset = AT(max_attempts), .check = jr_define_check_attempts },
	{ .name = "timeout", .arg = "D", .help = "time for one attempt; 0: no limit", .type = JR_OPT_STRING,
	    .offset = AT(timeout), .check = jr_define_check_duration },
	{ .name = "backoff", .arg = "BASE[,CAP]", .help = "pause before the second attempt, doubled up to CAP (10s,1h)",
	    .type = JR_OPT_STRING, .offset = AT(backoff), .check = jr_define_check_backoff },
	{ .name = "lock", .arg = "KEY", .help = "lock key: one run with this key in its queue at a time", .type = JR_OPT_STRING,
	    .offset = AT(lock), .check = jr_parse_key },
	{ .name = "on-dead", .arg = "TYPE", .help = "enqueue a run of TYPE when one goes dead", .type = JR_OPT_STRING,
	    .offset = AT(on_dead), .check = jr_define_check_name },
	{ .name = "catch-up", .arg = "HOW", .help = "missed slots: once (one run for them all), skip or all (once)",
	    .type = JR_OPT_STRING, .offset = AT(catch_up), .choices = "once skip all none" },
	{ .name = "catch-up-grace", .arg = "D", .help = "never start a slot older than D (skip: 5m; else no limit)",
	    .type = JR_OPT_STRING, .offset = AT(catch_up_grace), .check = jr_define_check_duration },
	{ .name = "overlap", .arg = "HOW", .help = "if an earlier run is not over: skip the slot, or allow it (skip)",
	    .type = JR_OPT_STRING, .offset = AT(overlap), .choices = "skip allow none" },
	{ .name = "enable", .help = "start again what was disabled", .type = JR_OPT_FLAG, .offset = AT(enable) },
	{ .name = "disable", .help = "start nothing; its slots are recorded as skipped", .type = JR_OPT_FLAG,
	    .offset = AT(disable) },
	{ .name = "description", .arg = "TEXT", .help = "what it is for", .type = JR_OPT_STRING, .offset = AT(description) },
	{ .name = "restart", .help = "start from now: @every counts from now; slots recorded in the future are dropped", .type = JR_OPT_FLAG, .offset = AT(restart) },
	{ .name = "reason", .arg = "TEXT", .help = "why, for the audit", .type = JR_OPT_STRING, .offset = AT(reason) },
	{ .name = "list", .help = "all definitions", .type = JR_OPT_FLAG, .offset = AT(list) },
	{ .name = "remove", .help = "remove the named definitions; their runs stay, also those that wait", .type = JR_OPT_FLAG, .offset = AT(remove) },
	{ .name = "file", .arg = "FILE", .help = "apply the definitions of FILE (- is stdin), all or none",
	    .type = JR_OPT_STRING, .offset = AT(file), .not_empty = true },
	{ .name = "exact", .help = "with --file: remove definitions that are not in FILE", .type = JR_OPT_FLAG, .offset = AT(exact) },
	{ .name = "dry-run", .letter = 'n', .help = "say what would change, change nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* Columns of define.sql. */
enum {
	D_NAME,
	D_ACTION,
	D_LINES,
	D_DOC
};

static void
tell_change(const struct jr_define_opts *opts, const PGresult *result, const PGresult *next)
{
	const char *name = PQgetvalue(result, 0, D_NAME);
	const char *action = PQgetvalue(result, 0, D_ACTION);
	bool unchanged = strcmp(action, "unchanged") == 0;

	printf("%s: %s%s\n", name, opts->dry_run && !unchanged ? "would be " : "", action);
	if (strcmp(action, "changed") == 0)
		jr_define_print_lines(jr_pg_text(result, 0, D_LINES));
	jr_next_times_tell(stdout, name, next);
}

/*
 * A schedule without a zone is in UTC. On a host that has another zone, somebody who knows cron may have meant that.
 * Not for @every, which has no zone.
 */
static void
warn_of_zone(const struct jr_define_opts *opts, const char *name, const PGresult *result)
{
	char *zone, *text;

	if (opts->schedule == NULL || opts->time_zone != NULL || strncasecmp(opts->schedule, "@every", 6) == 0 ||
	    strcmp(opts->schedule, "none") == 0 || strcmp(PQgetvalue(result, 0, D_ACTION), "created") != 0)
		return;
	zone = jr_zone_but_utc();
	if (zone != NULL) {
		text = jr_xasprintf("the schedule of %s is in UTC, and this host is in %s: say --time-zone %s, or "
				    "--time-zone UTC",
		    name, zone, zone);
		jr_print_line(stderr, "jobrun: warning: ", text);
		free(text);
	}
	free(zone);
}

/* The payload as JSON text; NULL: none was given. false: it cannot be read. */
static bool
read_payload(const char *argument, char **payload, struct jr_err *err)
{
	*payload = NULL;
	if (argument == NULL)
		return true;
	if (strcmp(argument, "none") == 0)
		*payload = jr_xstrdup("null");
	else
		*payload = jr_payload_read(argument, err);
	return *payload != NULL;
}

/* The server has refused something, perhaps the payload. */
static void
blame_payload(const char *payload, struct jr_err *err)
{
	if (jr_payload_locate(payload, err) && jr_payload_is_name(payload))
		jr_fail(err, JR_E_DATA,
		    "the second argument is PAYLOAD, which is JSON, and \"%s\" is none; a job type is given by --type %s",
		    payload, payload);
}

static int
change_one(const struct jr_app *app, const struct jr_define_opts *opts, const char *name, const char *changes,
    const char *payload, struct jr_err *err)
{
	const char *values[] = {name, changes, payload, opts->reason};
	const char *fires[JR_NEXT_TIMES_PARAMS] = {[JR_NEXT_TIMES_OF] = name, [JR_NEXT_TIMES_COUNT] = NEXT_COUNT};
	const struct jr_statement statements[] = {{jr_sql_define, JR_COUNT(values), values},
	    {jr_sql_next, JR_NEXT_TIMES_PARAMS, fires}, {jr_sql_define_types, 1, &name}};
	const struct jr_change change = {.app = app, .dry_run = opts->dry_run};
	PGresult *results[JR_COUNT(statements)] = {NULL};

	if (!jr_change(&change, statements, JR_COUNT(statements), results, err)) {
		if (err->code == JR_E_DATA && payload != NULL)
			blame_payload(payload, err);
		return (int)err->code;
	}
	warn_of_zone(opts, name, results[0]);
	if (app->json)
		jr_print_document(PQgetvalue(results[0], 0, D_DOC));
	else
		tell_change(opts, results[0], results[1]);
	jr_define_warn_types(results[2]);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return 0;
}

/* argv: NAME [PAYLOAD]. Without anything to change, show the definition. */
static int
define_one(const struct jr_app *app, const struct jr_define_opts *opts, int argc, char **argv, struct jr_err *err)
{
	char *changes = NULL, *payload = NULL;
	int status;

	if (jr_parse_definition("NAME", argv[0], err))
		changes = jr_define_changes(opts, err);
	if (changes == NULL || !read_payload(argc > 1 ? argv[1] : NULL, &payload, err))
		status = (int)err->code;
	else if (payload != NULL || strcmp(changes, "{}") != 0)
		status = change_one(app, opts, argv[0], changes, payload, err);
	else if (opts->reason == NULL && !opts->dry_run)
		status = jr_define_show(app, argv[0], err);
	else {
		jr_fail(
		    err, JR_E_USAGE, "nothing to change was named; 'jobrun define --help' lists what can be changed");
		status = (int)err->code;
	}
	free(changes);
	free(payload);
	return status;
}

/* Runs that wait are found by the name of the definition only while it is there. */
static void
print_removed(const char *name, int64_t waiting, bool dry_run)
{
	printf("%s: %sremoved", name, dry_run ? "would be " : "");
	if (waiting > 0)
		printf("; %" PRId64 " run%s of it wait%s and can still start: to end %s, ", waiting,
		    jr_text_plural(waiting), waiting == 1 ? "s" : "", waiting == 1 ? "it" : "them");
	if (waiting > 0 && dry_run)
		printf("first type 'jobrun cancel --definition %s'", name);
	else if (waiting > 0)
		fputs("cancel by id or type", stdout);
	putchar('\n');
}

/* Print the removed definitions, and put the missing ones into the error. */
static int
tell_removed(const struct jr_app *app, const struct jr_define_opts *opts, const PGresult *result, struct jr_err *err)
{
	int missing = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		const char *name = PQgetvalue(result, row, 0);

		if (jr_pg_bool(result, row, 1)) {
			if (!app->json)
				print_removed(name, jr_pg_int(result, row, 3, 0), opts->dry_run);
		} else if (missing++ == 0)
			jr_fail(err, JR_E_NEWS, "there is no definition %s", name);
		else
			jr_fail(err, JR_E_NEWS, "%.900s, %s", err->msg, name);
	}
	return missing > 0 ? JR_E_NEWS : 0;
}

static int
remove_all(const struct jr_app *app, const struct jr_define_opts *opts, int argc, char **argv, struct jr_err *err)
{
	char *names = jr_pg_array_of((const char *const *)argv, (size_t)argc);
	const char *values[] = {names, opts->reason};
	const struct jr_statement statement = {jr_sql_undefine, JR_COUNT(values), values};
	const struct jr_change change = {.app = app, .dry_run = opts->dry_run};
	PGresult *result = NULL;
	int status;

	for (int i = 0; i < argc; i++) {
		if (!jr_parse_definition("NAME", argv[i], err)) {
			free(names);
			return (int)err->code;
		}
	}
	if (!jr_change(&change, &statement, 1, &result, err))
		status = (int)err->code;
	else {
		if (app->json)
			jr_print_list("definitions", result, 2);
		status = tell_removed(app, opts, result, err);
	}
	PQclear(result);
	free(names);
	return status;
}

/* At most one of --list, --remove and --file, and only arguments and options that go with it. */
static bool
check(const struct jr_define_opts *opts, int argc, char **argv, struct jr_err *err)
{
	bool alone = opts->list || opts->file != NULL;

	if (opts->list + opts->remove + (opts->file != NULL) > 1)
		return jr_fail(err, JR_E_USAGE, "--list, --remove and --file exclude each other");
	if (opts->enable && opts->disable)
		return jr_fail(err, JR_E_USAGE, "--enable and --disable exclude each other");
	if (opts->exact && opts->file == NULL)
		return jr_fail(err, JR_E_USAGE, "--exact goes with --file FILE, which is missing");
	if (argc == 0 && !alone)
		return jr_fail(
		    err, JR_E_USAGE, "which definition? usage: jobrun define NAME [OPTION...]; --list shows all");
	if (argc > (alone ? 0 : 2) && !opts->remove)
		return jr_fail(err, JR_E_USAGE, "an argument too many: \"%.100s\"", argv[alone ? 0 : 2]);
	if (opts->list && (opts->reason != NULL || opts->dry_run))
		return jr_fail(err, JR_E_USAGE, "--list changes nothing");
	return true;
}

/* --list, --remove and --file do not go with the options that change one definition. */
static bool
check_changes(const struct jr_define_opts *opts, struct jr_err *err)
{
	char *changes;
	bool ok;

	if (!opts->list && !opts->remove && opts->file == NULL)
		return true;
	changes = jr_define_changes(opts, err);
	if (changes == NULL)
		return false;
	ok = strcmp(changes, "{}") == 0;
	free(changes);
	if (!ok && opts->remove)
		return jr_fail(err, JR_E_USAGE,
		    "--remove takes the whole definition away: no option that changes it goes with it");
	return ok || jr_fail(err, JR_E_USAGE, "%s does not go with options of one definition; those need its NAME",
			 opts->list ? "--list" : "--file");
}

static int
define_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct jr_define_opts *opts = values;

	if (!check(opts, argc, argv, err) || !check_changes(opts, err))
		return (int)err->code;
	if (opts->list)
		return jr_define_list(app, err);
	if (opts->file != NULL)
		return jr_define_file(app, opts, err);
	if (opts->remove)
		return remove_all(app, opts, argc, argv, err);
	return define_one(app, opts, argc, argv, err);
}

static bool
define_changes(const void *values, int argc)
{
	const struct jr_define_opts *opts = values;
	struct jr_err unused;
	char *changes = jr_define_changes(opts, &unused);
	bool looks = changes != NULL && strcmp(changes, "{}") == 0 && argc < 2;

	free(changes);
	return opts->remove || opts->file != NULL || !looks;
}

const struct jr_cmd jr_cmd_define = {
    .name = "define",
    .group = JR_GROUP_SCHEDULE,
    .summary = "make definitions: schedules, and defaults of a job type",
    .usage = "NAME [PAYLOAD|-|@FILE] [OPTION...] | --file FILE [OPTION...] | --remove NAME... [OPTION...] | --list",
    .details =
	"Creates or changes the definition NAME. Options that are not given keep their values; 'none' restores the\n"
	"default, which is in brackets below. Without options and payload the definition is shown.\n"
	"A definition without a schedule that is named like a job type gives each enqueue of that type its payload,\n"
	"queue, priority, attempts, timeout, backoff and lock key.\n"
	"FILE is as below; members are named like the columns of jobrun.job_definitions, and one that is missing\n"
	"has its default.\n"
	"  {\"definitions\": [{\"name\": ..., \"schedule\": ..., \"payload\": ...}, ...]}\n",
    .options = define_options,
    .defaults = &define_defaults,
    .size = sizeof(define_defaults),
    .max_args = -1,
    .kind = "read",
    .needs_admin = define_changes,
    .run = define_run,
};
