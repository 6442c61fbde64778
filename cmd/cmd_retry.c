/*
 * retry: runs get all their attempts again and are due now. Named runs that cannot be retried are reported; the others
 * are retried all the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "payload.h"
#include "print.h"
#include "repair.h"
#include "sql_text.h"

struct retry_opts {
	struct jr_filter filter; /* first */
	const char *reason, *payload;
	bool force, dry_run;
};

static const struct retry_opts retry_defaults = {.filter = {JR_FILTER_ANY}};
_Static_assert(offsetof(struct retry_opts, filter) == 0, "JR_FILTER_OPTIONS takes offsets in struct jr_filter");

/* clang-format off */
static const struct jr_option retry_options[] = {
	JR_FILTER_OPTIONS("instead of IDs: those that are dead, cancelled, retrying, queued (dead)",
	    "at most N, the newest", INT64_C(1000000000)),
	{ .name = "reason", .arg = "TEXT", .help = "why, for the record", .type = JR_OPT_STRING,
	    .offset = offsetof(struct retry_opts, reason) },
	{ .name = "payload", .arg = "JSON|-|@FILE", .help = "with one ID: from now on this payload instead of its own; drops its checkpoint",
	    .type = JR_OPT_STRING, .offset = offsetof(struct retry_opts, payload) },
	{ .name = "force", .help = "also runs that have succeeded or are superseded (these lose their unique key)", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct retry_opts, force) },
	{ .name = "dry-run", .letter = 'n', .help = "only show how many runs of which type and status would be retried",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct retry_opts, dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* Further columns of retry.sql and retry_others.sql. */
enum {
	NEWER_ID = 3,
	NEWER_STATUS,
	LEASE_ENDED
};

static void
tell_superseded(const PGresult *result, int row)
{
	const char *id = PQgetvalue(result, row, 0);
	bool running = strcmp(PQgetvalue(result, row, NEWER_STATUS), "running") == 0;

	fprintf(stderr,
	    "jobrun: run %s is superseded by run %s, which %s; to run it all the same, without its unique key: jobrun retry --force %s\n",
	    id, PQgetvalue(result, row, NEWER_ID), running ? "is running" : "has succeeded", id);
}

static void
tell_running(const PGresult *result, int row)
{
	const char *id = PQgetvalue(result, row, 0);

	if (jr_pg_bool(result, row, LEASE_ENDED))
		fprintf(stderr,
		    "jobrun: run %s is running and its lease has run out; the next tick of any runner takes it back: jobrun run\n",
		    id);
	else
		fprintf(stderr, "jobrun: run %s is running; to stop it first: jobrun cancel %s\n", id, id);
}

/* Also used for a dry run: its rows are the runs that cannot be retried. */
static int
tell_refused(const PGresult *result)
{
	int count = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = jr_pg_text(result, row, 1);

		count++;
		if (answer == NULL)
			fprintf(stderr, "jobrun: there is no run %s\n", id);
		else if (strcmp(answer, "running") == 0)
			tell_running(result, row);
		else if (strcmp(answer, "superseded") == 0)
			tell_superseded(result, row);
		else if (strcmp(answer, "retried") != 0)
			fprintf(stderr, "jobrun: run %s has %s; to run it again: jobrun retry --force %s\n", id, answer,
			    id);
		else
			count--;
	}
	return count;
}

static void
tell_done(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		if (strcmp(PQgetvalue(result, row, 1), "retried") == 0)
			printf("run %s: retried\n", PQgetvalue(result, row, 0));
	}
}

static int
retry_named(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err)
{
	PGresult *result = jr_repair_named(repair, argc, argv, err);
	int refused;

	if (result == NULL && err->code == JR_E_DATA && repair->payload != NULL)
		(void)jr_payload_locate(repair->payload, err);
	if (result == NULL)
		return (int)err->code;
	if (repair->app->json)
		jr_print_list("runs", result, 2);
	else
		tell_done(result);
	fflush(stdout);
	refused = tell_refused(result);
	PQclear(result);
	return refused == 0 ? 0 : JR_E_NEWS;
}

static int
retry_with_payload(struct jr_repair *repair, const char *argument, char **argv, struct jr_err *err)
{
	char *payload = jr_payload_read(argument, err);
	int status;

	if (payload == NULL)
		return (int)err->code;
	repair->payload = payload;
	status = retry_named(repair, 1, argv, err);
	free(payload);
	return status;
}

static int
retry_matching(const struct jr_repair *repair, struct jr_err *err)
{
	struct jr_repaired n;
	bool ok = jr_repair_matching(repair, &n, err);
	bool counted = ok || n.done + n.passed > 0;

	if (repair->app->json && counted)
		printf("{\"version\":" JR_PRINT_VERSION ",\"retried\":%" PRId64 ",\"left_alone\":%" PRId64
		       ",\"passed_over\":%" PRId64 "}\n",
		    n.done, n.left, n.passed);
	else if (counted)
		printf("retried %" PRId64 " %s\n", n.done, n.done == 1 ? "run" : "runs");
	fflush(stdout);
	jr_repair_tell_left(&n);
	return ok ? 0 : (int)err->code;
}

static bool
check_options(const struct retry_opts *opts, int argc, struct jr_err *err)
{
	if (opts->payload != NULL && argc != 1)
		return jr_fail(
		    err, JR_E_USAGE, "--payload: it replaces the payload of one run; name that run by its ID");
	if (opts->force && jr_filter_is_given(&opts->filter) && opts->filter.statuses.count == 0)
		return jr_fail(err, JR_E_USAGE,
		    "--force: the runs that are dead need none; to run again what has succeeded, add --status succeeded");
	if (jr_filter_has_status(&opts->filter, "running"))
		return jr_fail(err, JR_E_USAGE,
		    "--status running: a running run cannot be retried; to stop it first: jobrun cancel --status running");
	if (jr_filter_has_status(&opts->filter, "succeeded") && !opts->force)
		return jr_fail(err, JR_E_USAGE, "--status succeeded: to run again what has succeeded, add --force");
	return true;
}

static int
retry_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct retry_opts *opts = values;
	struct jr_repair repair = {.app = app,
	    .filter = &opts->filter,
	    .name = "retry",
	    .usual = "{dead}",
	    .possible = opts->force ? "{dead,cancelled,queued,failed,succeeded}" : "{dead,cancelled,queued,failed}",
	    .reason = opts->reason,
	    .extra = opts->force ? "true" : "false",
	    .sql_named = jr_sql_retry,
	    .sql_matching = jr_sql_retry_matching,
	    .sql_kinds = jr_sql_retry_kinds,
	    .sql_others = jr_sql_retry_others,
	    .tell_refused = tell_refused};

	if (!jr_repair_check(&repair, argc, err) || !check_options(opts, argc, err))
		return (int)err->code;
	if (opts->dry_run)
		return jr_repair_preview(&repair, argc, argv, err);
	if (opts->payload != NULL)
		return retry_with_payload(&repair, opts->payload, argv, err);
	return argc > 0 ? retry_named(&repair, argc, argv, err) : retry_matching(&repair, err);
}

const struct jr_cmd jr_cmd_retry = {
    .name = "retry",
    .group = JR_GROUP_REPAIR,
    .summary = "run again, with a fresh set of attempts",
    .usage = "[OPTION...] ID... | [OPTION...] FILTER...",
    .details =
	"FILTER is one or more of the options --status to --until: it means the runs that 'jobrun list' shows with them.\n"
	"A running run is left alone. So is a run that has succeeded, and a run that is superseded, since a\n"
	"newer run of its unique key is running or has succeeded; --force retries both. With -n and a filter\n"
	"the count includes superseded runs.\n",
    .options = retry_options,
    .defaults = &retry_defaults,
    .size = sizeof(retry_defaults),
    .max_args = -1,
    .kind = "admin",
    .run = retry_run,
};
