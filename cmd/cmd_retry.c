/*
 * retry: runs get all their attempts again, now. Those that cannot are named; the others are done all the same.
 */
#include <string.h>

#include "ids.h"
#include "print.h"
#include "sql_text.h"

struct retry_opts {
	bool force;
};

static const struct retry_opts retry_defaults = {.force = false};

/* clang-format off */
static const struct jr_option retry_options[] = {
	{ .name = "force", .help = "also runs that have succeeded", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct retry_opts, force) },
	JR_OPTIONS_END,
};
/* clang-format on */

static void
tell_refused(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = jr_pg_text(result, row, 1);

		if (answer == NULL)
			fprintf(stderr, "jobrun: there is no run %s\n", id);
		else if (strcmp(answer, "running") == 0)
			fprintf(stderr,
			    "jobrun: run %s is running; to stop it first: jobrun cancel %s\n", id,
			    id);
		else if (strcmp(answer, "retried") != 0)
			fprintf(stderr,
			    "jobrun: run %s has %s; to run it again: jobrun retry --force %s\n", id,
			    answer, id);
	}
}

static int
retry_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct retry_opts *opts = values;
	PGresult *result =
	    jr_ids_ask(app, jr_sql_retry, argc, argv, opts->force ? "true" : "false", err);
	int retried, all;

	if (result == NULL)
		return (int)err->code;
	retried = jr_ids_count(result, "retried");
	all = PQntuples(result);
	if (app->json)
		jr_print_documents(result, 2);
	else if (retried > 0)
		printf("retried %d %s\n", retried, retried == 1 ? "run" : "runs");
	fflush(stdout);
	tell_refused(result);
	PQclear(result);
	return retried == all ? 0 : JR_E_NEWS;
}

const struct jr_cmd jr_cmd_retry = {
    .name = "retry",
    .group = JR_GROUP_REPAIR,
    .summary = "run again, with a fresh set of attempts",
    .usage = "[OPTION...] ID...",
    .details = "A run that is running is left alone, and one that has succeeded unless --force is "
	       "given.\n",
    .options = retry_options,
    .defaults = &retry_defaults,
    .size = sizeof(retry_defaults),
    .min_args = 1,
    .max_args = -1,
    .run = retry_run,
};
