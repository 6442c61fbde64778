/*
 * pause: start nothing new of these job types, queues and definitions, on these hosts, or at all, until a time or until
 * they are resumed.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/parse.h"
#include "known.h"
#include "pause_wait.h"
#include "print.h"
#include "sql_text.h"

struct pause_opts {
	struct jr_pauses what;
	int64_t for_ms, timeout_ms;
	bool wait;
};

static const struct pause_opts pause_defaults = {.for_ms = -1, .timeout_ms = -1};

/* clang-format off */
static const struct jr_option pause_options[] = {
	JR_PAUSES_OPTIONS(pause_opts),
	{ .name = "for", .arg = "D", .help = "ends by itself after D: 30m, 2h (until resumed)", .type = JR_OPT_DURATION,
	    .offset = offsetof(struct pause_opts, for_ms), .min = 1 },
	{ .name = "wait", .help = "return when nothing of it runs any more", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct pause_opts, wait) },
	{ .name = "timeout", .arg = "D", .help = "with --wait: wait at most D (1h)", .type = JR_OPT_DURATION,
	    .offset = offsetof(struct pause_opts, timeout_ms) },
	JR_OPTIONS_END,
};

/* Columns of pause.sql. */
enum { P_KIND, P_NAME, P_UNTIL, P_DOC, P_OTHERS };
/* clang-format on */

static void
tell_line(const PGresult *result, int row, bool dry_run)
{
	int64_t until = jr_pg_int(result, row, P_UNTIL, 0);
	char *at = until == 0 ? NULL : jr_format_local_time(until);

	printf("%s%s%s: %spaused%s%s\n", PQgetvalue(result, row, P_KIND), PQgetisnull(result, row, P_NAME) ? "" : " ",
	    PQgetvalue(result, row, P_NAME), dry_run ? "would be " : "", at == NULL ? "" : " until ",
	    at == NULL ? "" : at);
	free(at);
}

static bool
check_options(const struct pause_opts *opts, struct jr_err *err)
{
	if (opts->timeout_ms >= 0 && !opts->wait)
		return jr_fail(err, JR_E_USAGE,
		    "--timeout goes with --wait, which is missing; a pause that ends by itself: --for 30m");
	return true;
}

static int
pause_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct pause_opts *opts = values;
	char ms[24];
	const char *more[] = {opts->for_ms < 0 ? NULL : jr_print_int(ms, opts->for_ms), opts->what.reason};
	PGresult *result = NULL;

	(void)argc;
	(void)argv;
	if (check_options(opts, err))
		result = jr_pauses_ask(app, &opts->what, jr_sql_pause, JR_COUNT(more), more, err);
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_list("pauses", result, P_DOC);
	for (int row = 0; !app->json && row < PQntuples(result); row++)
		tell_line(result, row, opts->what.dry_run);
	for (int row = 0; row < PQntuples(result); row++)
		jr_known_warn(PQgetvalue(result, row, P_KIND), PQgetvalue(result, row, P_NAME),
		    jr_pg_text(result, row, P_OTHERS));
	fflush(stdout);
	PQclear(result);
	if (!opts->wait || opts->what.dry_run)
		return 0;
	return jr_pause_wait(app, &opts->what, opts->timeout_ms < 0 ? JR_PAUSE_WAIT_MS : opts->timeout_ms, err);
}

const struct jr_cmd jr_cmd_pause = {
    .name = "pause",
    .group = JR_GROUP_REPAIR,
    .summary = "let nothing new start: of a job type, a queue, a definition, on a host, or at all",
    .usage = "[--type TYPE] [--queue QUEUE] [--definition NAME] [--host HOST] [--all] [OPTION...]",
    .details =
	"Running runs go on to their end. Waiting runs stay, do not count as late, and start when the pause is\n"
	"over. Pausing again replaces end and reason. 'jobrun status' shows what is paused.\n"
	"\n"
	"With --all and --host, schedules still fire, and their runs wait; 'jobrun run --job' and housekeeping start\n"
	"nothing either, and 'jobrun exec' exits with 75 and a line. This host: --host \"$(hostname)\".\n"
	"\n"
	"--wait takes 5 seconds more than the runs: a claim may be on its way. On a terminal it shows who still\n"
	"runs. Exit status 75: something still runs after --timeout. Ctrl-C ends the wait. The pause stays.\n",
    .options = pause_options,
    .defaults = &pause_defaults,
    .size = sizeof(pause_defaults),
    .kind = "admin",
    .run = pause_run,
};
