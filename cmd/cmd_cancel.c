/*
 * cancel: waiting runs end at once. Running ones get a request to cancel, which their runner sees at its next
 * heartbeat. If that runner is gone, the first tick after the lease ends them. The command does not ask which of the
 * two it will be, since a role that may only enqueue cannot read leases.
 */
#include <inttypes.h>
#include <string.h>

#include "print.h"
#include "repair.h"
#include "sql_text.h"

struct cancel_opts {
	struct jr_filter filter; /* first */
	const char *reason;
	bool dry_run;
};

static const struct cancel_opts cancel_defaults = {.filter = {JR_FILTER_ANY}};
_Static_assert(offsetof(struct cancel_opts, filter) == 0, "JR_FILTER_OPTIONS takes offsets in struct jr_filter");

/* clang-format off */
static const struct jr_option cancel_options[] = {
	JR_FILTER_OPTIONS("instead of IDs: those that are queued, retrying, running (queued,retrying)",
	    "at most N, the newest", INT64_C(1000000000)),
	{ .name = "reason", .arg = "TEXT", .help = "why, for the record", .type = JR_OPT_STRING,
	    .offset = offsetof(struct cancel_opts, reason) },
	{ .name = "dry-run", .letter = 'n', .help = "only show how many runs of which type and status would be cancelled",
	    .type = JR_OPT_FLAG, .offset = offsetof(struct cancel_opts, dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

static void
tell_done(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = PQgetvalue(result, row, 1);

		if (strcmp(answer, "cancelled") == 0)
			printf("run %s: cancelled\n", id);
		else if (strcmp(answer, "requested") == 0)
			printf(
			    "run %s: cancel requested; its runner stops it at the next heartbeat; if that runner is gone, the first tick after the lease ends it\n",
			    id);
	}
}

/* Also used for a dry run: its rows are the runs that cannot be cancelled, those cancelled before included. */
static int
tell_refused(const PGresult *result)
{
	int count = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = jr_pg_text(result, row, 1);

		if (answer != NULL && (strcmp(answer, "cancelled") == 0 || strcmp(answer, "requested") == 0))
			continue;
		count++;
		if (answer == NULL)
			fprintf(stderr, "jobrun: there is no run %s that you may cancel\n", id);
		else
			fprintf(stderr, "jobrun: run %s had ended already: %s\n", id, answer);
	}
	return count;
}

static int
cancel_named(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err)
{
	PGresult *result = jr_repair_named(repair, argc, argv, err);
	int refused;

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

static void
print_counts(const struct jr_app *app, const struct jr_repaired *n)
{
	if (app->json)
		printf("{\"version\":" JR_PRINT_VERSION ",\"cancelled\":%" PRId64 ",\"requested\":%" PRId64
		       ",\"left_alone\":%" PRId64 ",\"passed_over\":%" PRId64 "}\n",
		    n->done, n->asked, n->left, n->passed);
	else if (n->asked == 0)
		printf("cancelled %" PRId64 " %s\n", n->done, n->done == 1 ? "run" : "runs");
	else
		printf("cancelled %" PRId64 " %s, asked %" PRId64 " running %s to stop\n", n->done,
		    n->done == 1 ? "run" : "runs", n->asked, n->asked == 1 ? "one" : "ones");
}

static int
cancel_matching(const struct jr_repair *repair, struct jr_err *err)
{
	struct jr_repaired n;
	bool ok = jr_repair_matching(repair, &n, err);

	if (ok || n.done + n.asked + n.passed > 0)
		print_counts(repair->app, &n);
	fflush(stdout);
	jr_repair_tell_left(&n);
	return ok ? 0 : (int)err->code;
}

static bool
check_statuses(const struct jr_filter *filter, struct jr_err *err)
{
	static const char *const ended[] = {"succeeded", "dead", "cancelled"};

	for (size_t i = 0; i < JR_COUNT(ended); i++) {
		if (jr_filter_has_status(filter, ended[i]))
			return jr_fail(err, JR_E_USAGE,
			    "--status %s: those have ended already; queued, retrying and running ones can be cancelled",
			    ended[i]);
	}
	return true;
}

static int
cancel_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct cancel_opts *opts = values;
	const struct jr_repair repair = {.app = app,
	    .filter = &opts->filter,
	    .name = "cancel",
	    .usual = "{queued,failed}",
	    .possible = "{queued,failed,running}",
	    .reason = opts->reason,
	    .sql_named = jr_sql_cancel,
	    .sql_matching = jr_sql_cancel_matching,
	    .sql_kinds = jr_sql_cancel_kinds,
	    .sql_others = jr_sql_cancel_others,
	    .tell_refused = tell_refused};

	if (!jr_repair_check(&repair, argc, err) || !check_statuses(&opts->filter, err))
		return (int)err->code;
	if (opts->dry_run)
		return jr_repair_preview(&repair, argc, argv, err);
	return argc > 0 ? cancel_named(&repair, argc, argv, err) : cancel_matching(&repair, err);
}

/*
 * By ID a role that may enqueue cancels its own runs already, so a refusal means that it needs admin. By a filter it
 * must also read the tables: run is enough for its own.
 */
static bool
cancel_names_ids(const void *values, int argc)
{
	(void)values;
	return argc > 0;
}

const struct jr_cmd jr_cmd_cancel = {
    .name = "cancel",
    .group = JR_GROUP_REPAIR,
    .summary = "stop runs that wait or are running",
    .usage = "[OPTION...] ID... | [OPTION...] FILTER...",
    .details =
	"FILTER is one or more of the options --status to --until: it means the runs that 'jobrun list' shows with them.\n"
	"A runner stops a running run at its next heartbeat; a runner with --for stops it at once. If that runner\n"
	"is gone, the first tick after the end of its lease ends the run.\n",
    .options = cancel_options,
    .defaults = &cancel_defaults,
    .size = sizeof(cancel_defaults),
    .max_args = -1,
    .kind = "run",
    .needs_admin = cancel_names_ids,
    .run = cancel_run,
};
