/*
 * run: the command that cron calls. It turns options into a struct jr_runner_opts and reports what happened.
 *
 * It is silent when all is well. The runner that writes a run as dead prints it once, with what to type next; from the
 * eleventh on it prints only their number. A failure to reach the database is printed at once, then after 10 minutes,
 * an hour and every six hours. On a terminal a status line shows progress, and a summary comes at the end. A dry run
 * writes nothing.
 */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "explanation.h"
#include "handler/handlers.h"
#include "handler/ping.h"
#include "print.h"
#include "process/state.h"
#include "run_report.h"
#include "runner/preview.h"
#include "runner/runner.h"
#include "sql_text.h"
#include "types.h"
#include "waits.h"

struct run_opts {
	struct jr_words types, queues;
	const char *handlers, *state_dir;
	char *ping;
	int64_t jobs, http_jobs, sql_jobs, job, max_runs;
	int64_t for_ms, max_runtime_ms, lease_ms, heartbeat_ms, grace_ms, splay_ms;
	bool once, raw;
	bool dry_run, ping_start;
};

static const struct run_opts run_defaults = {
    .http_jobs = 64,
    .sql_jobs = 4,
    .max_runtime_ms = -1,
    .lease_ms = -1,
    .heartbeat_ms = -1,
    .grace_ms = 30000,
};

#define MAX_RUNTIME_MS 600000
#define DUE_MOST 100       /* most rows of a dry run */
#define WAITING_MOST "200" /* of so many waiting runs it says why they would not start */

#define AT(field) offsetof(struct run_opts, field)

/* clang-format off */
static const struct jr_option run_options[] = {
	{ .name = "once", .help = "run what is due and exit: the default", .type = JR_OPT_FLAG, .offset = AT(once) },
	{ .name = "for", .arg = "D", .help = "stay for this time, 1s to 1d, and start new runs at once; then hand over to another runner",
	    .type = JR_OPT_DURATION, .offset = AT(for_ms), .min = 1000, .max = INT64_C(86400000) },
	{ .name = "jobs", .letter = 'j', .arg = "N", .help = "executables at once on this host, for all runners of this user together (number of CPUs)",
	    .type = JR_OPT_INT, .offset = AT(jobs), .min = 1, .max = JR_PERMITS_MAX, .env = "JOBRUN_JOBS" },
	{ .name = "http-jobs", .arg = "N", .help = "http handlers at once on this host, counted like --jobs (64)", .type = JR_OPT_INT,
	    .offset = AT(http_jobs), .min = 1, .max = JR_PERMITS_MAX, .env = "JOBRUN_HTTP_JOBS" },
	{ .name = "sql-jobs", .arg = "N", .help = "sql handlers at once on this host, each with a connection, counted like --jobs (4)",
	    .type = JR_OPT_INT, .offset = AT(sql_jobs), .min = 1, .max = JR_PERMITS_MAX, .env = "JOBRUN_SQL_JOBS" },
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "only these job types", .type = JR_OPT_WORDS, .offset = AT(types),
	    .check = jr_parse_job_type },
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "only these queues", .type = JR_OPT_WORDS, .offset = AT(queues),
	    .check = jr_parse_queue },
	{ .name = "job", .arg = "ID", .help = "only this run, now, even if it is due later; its output is shown, and why it waits again",
	    .type = JR_OPT_INT, .offset = AT(job), .min = 1, .max = INT64_MAX },
	{ .name = "raw", .help = "with --job: show its output unchanged, even on a terminal", .type = JR_OPT_FLAG, .offset = AT(raw) },
	{ .name = "max-runs", .arg = "N", .help = "stop claiming after N runs", .type = JR_OPT_INT, .offset = AT(max_runs),
	    .min = 1, .max = INT64_MAX },
	{ .name = "max-runtime", .arg = "D", .help = "stop claiming after this time; 0: never (10m; with --for, as long as it stays)", .type = JR_OPT_DURATION,
	    .offset = AT(max_runtime_ms) },
	{ .name = "handlers", .arg = "DIR", .help = "the handlers directory (~/.config/jobrun/handlers, else /etc/jobrun/handlers)",
	    .type = JR_OPT_STRING, .offset = AT(handlers), .env = "JOBRUN_HANDLERS", .not_empty = true },
	{ .name = "ping", .arg = "URL", .help = "at the end GET URL, or URL/fail if jobrun could not work; file:PATH: a file with the URL",
	    .type = JR_OPT_SECRET, .offset = AT(ping), .env = "JOBRUN_PING" },
	{ .name = "ping-start", .help = "with --ping: GET URL/start when the tick starts, too", .type = JR_OPT_FLAG, .offset = AT(ping_start) },
	{ .name = "lease", .arg = "D", .help = "how long a claim lasts without a heartbeat, 2s to 1h (90s)", .type = JR_OPT_DURATION,
	    .offset = AT(lease_ms), .env = "JOBRUN_LEASE" },
	{ .name = "heartbeat", .arg = "D", .help = "how often leases are renewed, at most a quarter of --lease (20s or a quarter)",
	    .type = JR_OPT_DURATION, .offset = AT(heartbeat_ms) },
	{ .name = "grace", .arg = "D", .help = "at TERM: how long handlers may go on before they are stopped (30s)",
	    .type = JR_OPT_DURATION, .offset = AT(grace_ms) },
	{ .name = "splay", .arg = "D", .help = "wait up to D before connecting; the wait is always the same on one host (0)",
	    .type = JR_OPT_DURATION, .offset = AT(splay_ms), .max = 600000 },
	{ .name = "state-dir", .arg = "DIR", .help = "the private directory for permits (else the safe ones of four, see the manual)",
	    .type = JR_OPT_STRING, .offset = AT(state_dir), .env = "JOBRUN_STATE_DIR", .not_empty = true },
	{ .name = "dry-run", .letter = 'n', .help = "show what would be claimed and fired; write nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

static bool
check_types(const struct run_opts *opts, const struct jr_handlers *handlers, struct jr_err *err)
{
	for (size_t i = 0; i < opts->types.count; i++) {
		if (!jr_types_check(handlers, opts->types.items[i], err))
			return false;
	}
	return true;
}

static bool
load_handlers(const struct run_opts *opts, struct jr_handlers *handlers, struct jr_err *err)
{
	char *directory = jr_handlers_directory(opts->handlers);
	bool ok = jr_handlers_load(handlers, directory, err);

	free(directory);
	if (!ok)
		return false;
	if (check_types(opts, handlers, err))
		return true;
	jr_handlers_release(handlers);
	return false;
}

/* An executable takes four descriptors, an http handler three (while libcurl looks up a name), a sql handler one. */
static int64_t
files_of(const struct run_opts *opts, int64_t jobs)
{
	return 4 * jobs + 3 * opts->http_jobs + opts->sql_jobs + 60;
}

/* How many files this process may have open. */
static int64_t
files_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT64_MAX)
		return INT64_MAX;
	return (int64_t)limit.rlim_cur;
}

/* One for each processor, or for as many as the limit of open files is enough for: 1024 are common. */
static int64_t
default_jobs(const struct run_opts *opts)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t jobs = cpus > JR_PERMITS_MAX ? JR_PERMITS_MAX : cpus;
	int64_t possible = (files_limit() - files_of(opts, 0)) / 4;

	if (jobs > possible)
		jobs = possible;
	return jobs < 1 ? 1 : jobs;
}

static int64_t
jobs_of(const struct run_opts *opts)
{
	return opts->jobs > 0 ? opts->jobs : default_jobs(opts);
}

static bool
check_descriptors(const struct run_opts *opts, struct jr_err *err)
{
	int64_t jobs = jobs_of(opts), need = files_of(opts, jobs), limit = files_limit();

	if (limit >= need)
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "-j %" PRId64 " with --http-jobs %" PRId64 " and --sql-jobs %" PRId64 " needs %" PRId64
	    " open files, the limit is %" PRId64 ": type ulimit -n %" PRId64 ", or give smaller numbers",
	    jobs, opts->http_jobs, opts->sql_jobs, need, limit, need);
}

/* Options that exclude each other. */
static bool
check_together(const struct run_opts *opts, struct jr_err *err)
{
	if (opts->raw && opts->job == 0)
		return jr_fail(err, JR_E_USAGE, "--raw goes with --job: the output of other runs is not shown");
	if (opts->ping_start && opts->ping == NULL)
		return jr_fail(err, JR_E_USAGE, "--ping-start goes with --ping URL");
	if (opts->for_ms == 0)
		return true;
	if (opts->job > 0)
		return jr_fail(err, JR_E_USAGE, "--for and --job exclude each other: --job ends with that run");
	if (opts->once)
		return jr_fail(err, JR_E_USAGE, "--for and --once exclude each other: type jobrun run --for D");
	if (opts->max_runtime_ms > 0 && opts->max_runtime_ms < opts->for_ms)
		return jr_fail(
		    err, JR_E_USAGE, "--max-runtime is shorter than --for: nothing would be started at the end of it");
	return true;
}

/* The default is long enough for --for. */
static int64_t
max_runtime(const struct run_opts *opts)
{
	int64_t need = opts->splay_ms + opts->for_ms + JR_HANDOVER_MS;

	if (opts->max_runtime_ms >= 0)
		return opts->max_runtime_ms;
	return opts->for_ms > 0 && need > MAX_RUNTIME_MS ? need : MAX_RUNTIME_MS;
}

static struct jr_runner_opts
runner_opts(const struct jr_app *app, const struct run_opts *opts, const struct jr_handlers *handlers,
    const struct jr_state *state, const struct jr_lease *lease, struct jr_run_report *report)
{
	return (struct jr_runner_opts){
	    .conninfo = jr_db_conninfo(app->dbname, NULL),
	    .state = state,
	    .version = JR_VERSION,
	    .handlers = handlers,
	    .types = (const char *const *)opts->types.items,
	    .type_count = opts->types.count,
	    .queues = (const char *const *)opts->queues.items,
	    .queue_count = opts->queues.count,
	    .lease = *lease,
	    .permits = {[JR_POOL_EXEC] = jobs_of(opts),
		[JR_POOL_HTTP] = opts->http_jobs,
		[JR_POOL_SQL] = opts->sql_jobs,
		[JR_POOL_PRUNE] = 1},
	    .job_id = opts->job,
	    .max_runs = opts->max_runs,
	    .max_runtime_ms = max_runtime(opts),
	    .linger_ms = opts->for_ms,
	    .grace_ms = opts->grace_ms,
	    .splay_ms = opts->splay_ms,
	    .ping_start = opts->ping_start ? opts->ping : NULL,
	    .patience_ms = JR_CMD_PATIENCE_MS,
	    .echo = opts->job > 0,
	    .idle_session = jr_run_report_idle_session,
	    .raw = opts->raw,
	    .dead = jr_run_report_dead,
	    .again = opts->job > 0 ? jr_run_report_again : NULL,
	    .warned = jr_run_report_warned,
	    .troubled = jr_run_report_troubled,
	    .healed = jr_run_report_healed,
	    .refused = opts->job > 0 ? NULL : jr_run_report_refused_handler,
	    .progress = jr_run_report_progress,
	    .waits = jr_run_report_waits,
	    .stopping = jr_run_report_stopping,
	    .copied = jr_run_report_copied,
	    .unhandled = opts->job > 0 ? NULL : jr_run_report_unhandled,
	    .ctx = report,
	};
}

/* The run of --job was not claimed. That there was no permit matters only if nothing else holds it. */
static int
fail_not_claimed(const struct jr_app *app, const struct run_opts *opts, const struct jr_runner_opts *runner,
    bool crowded, struct jr_err *err)
{
	struct jr_err otherwise;

	if (crowded)
		jr_fail(&otherwise, JR_E_TEMP, "no free permit on this host: try again later, or with a larger -j");
	else
		jr_fail(&otherwise, JR_E_NEWS, "%sit was taken by somebody else",
		    opts->types.count > 0 ? "--type leaves it out, or " : "");
	jr_explanation_fail(app, opts->job, runner->handlers, &otherwise, err);
	return (int)err->code;
}

/* People who look are told why nothing was done; cron is not: the runners that have the permits do the work. */
static void
tell_crowded(const struct jr_app *app, const struct jr_run_report *report, const struct jr_counts *counts)
{
	if (counts->crowded && counts->claimed == 0 && (app->verbose > 0 || report->terminal))
		fputs(
		    "jobrun: no free permit on this host: other runners have them all; a larger -j has more\n", stderr);
}

static int
run_here(const struct jr_app *app, const struct run_opts *opts, const struct jr_runner_opts *runner,
    struct jr_run_report *report, struct jr_err *err)
{
	int64_t started = jr_clock_now_ms();
	struct jr_counts counts;
	int status = jr_runner_run(runner, &counts, err);

	jr_run_report_summary(report, &counts, jr_clock_now_ms() - started);
	if (opts->job > 0 && status == 0 && !counts.crowded && !counts.tried) {
		jr_fail(err, JR_E_TEMP, "run %" PRId64 " was not started: jobrun was told to end", opts->job);
		status = JR_E_TEMP;
	} else if (opts->job > 0 && status == 0 && (counts.crowded || counts.claimed == 0)) {
		status = fail_not_claimed(app, opts, runner, counts.crowded, err);
	} else if (status == 0) {
		tell_crowded(app, report, &counts);
	}
	if (app->json)
		jr_run_report_json(&counts, jr_clock_now_ms() - started, status);
	if (!counts.answered)
		jr_waits_advise(app, err);
	jr_run_report_soften(report->state_directory, runner->conninfo, NULL, status, counts.answered, err);
	return status;
}

/* waiting: NULL, or why other due runs would not start. */
static void
print_due(const struct jr_app *app, const PGresult *result, const PGresult *waiting)
{
	static const struct jr_column columns[] = {
	    {"ID", JR_CELL_NUMBER},
	    {"TYPE", JR_CELL_TEXT},
	    {"QUEUE", JR_CELL_TEXT},
	    {"PRIORITY", JR_CELL_NUMBER},
	    {"TRY", JR_CELL_TEXT},
	    {"DUE FOR", JR_CELL_SINCE},
	    {"DEFINITION", JR_CELL_TEXT},
	};

	if (app->json) {
		jr_print_document_begin("{}");
		jr_print_document_list("runs", result, JR_COUNT(columns));
		if (waiting != NULL)
			jr_print_document_list("waiting", waiting, 1);
		jr_print_document_end();
	} else if (PQntuples(result) > 0 || jr_print_is_terminal(stdout))
		jr_print_table(result, columns, JR_COUNT(columns));
	for (int row = 0; waiting != NULL && !app->json && row < PQntuples(waiting); row++)
		jr_print_line(stderr, "jobrun: ", PQgetvalue(waiting, row, 0));
}

/* Nothing starts here because everything or this host is paused: say so, or an empty list would look like no work. */
static bool
tell_held_back(struct jr_db *db, struct jr_err *err)
{
	char host[HOST_NAME_MAX + 1] = "";
	const char *values[] = {host};
	PGresult *result;

	(void)gethostname(host, sizeof(host) - 1);
	result = jr_db_query(db, jr_sql_held_back, 1, values, JR_CMD_TIMEOUT_MS, err);
	if (result != NULL && !PQgetisnull(result, 0, 0))
		jr_print_line(stderr, "jobrun: ", PQgetvalue(result, 0, 0));
	PQclear(result);
	return result != NULL;
}

/* Due runs that would not start, and why: an empty list would look like no work. */
static PGresult *
ask_waiting(const struct run_opts *opts, const struct jr_handlers *handlers, struct jr_db *db, struct jr_err *err)
{
	const char **here = jr_xcalloc(handlers->count + 1, sizeof(*here));
	char *types = jr_pg_array_or_null((const char *const *)opts->types.items, opts->types.count);
	char *queues = jr_pg_array_or_null((const char *const *)opts->queues.items, opts->queues.count);
	const char *values[] = {WAITING_MOST, types, queues, NULL};
	char *runnable;
	PGresult *result;

	for (size_t i = 0; i < handlers->count; i++)
		here[i] = handlers->items[i].job_type;
	values[3] = runnable = jr_pg_array_of(here, handlers->count);
	result = jr_db_query(db, jr_sql_waiting_reasons, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	free(here);
	free(types);
	free(queues);
	free(runnable);
	return result;
}

/* What a runner here would start now, and which definitions it would fire. */
static int
dry_run(const struct jr_app *app, const struct run_opts *opts, const struct jr_runner_opts *runner, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *due = NULL, *waiting = NULL;
	int status;
	bool ok;

	if (db == NULL)
		return (int)err->code;
	due = jr_preview(db, runner, DUE_MOST, JR_CMD_TIMEOUT_MS, err);
	ok = due != NULL && tell_held_back(db, err);
	if (ok && runner->job_id == 0)
		ok = (waiting = ask_waiting(opts, runner->handlers, db, err)) != NULL;
	jr_db_close(db);
	if (ok) {
		print_due(app, due, waiting);
		status =
		    runner->job_id > 0 && PQntuples(due) == 0 ? fail_not_claimed(app, opts, runner, false, err) : 0;
	} else
		status = (int)err->code;
	PQclear(due);
	PQclear(waiting);
	return status;
}

/* Everything is read and open. */
static int
run_or_show(const struct jr_app *app, const struct run_opts *opts, const struct jr_handlers *handlers,
    const struct jr_state *state, const struct jr_lease *lease, struct jr_run_report *report, struct jr_err *err)
{
	const struct jr_runner_opts runner = runner_opts(app, opts, handlers, state, lease, report);

	report->heartbeat_ms = lease->heartbeat_ms;
	if (opts->dry_run)
		return dry_run(app, opts, &runner, err);
	return run_here(app, opts, &runner, report, err);
}

/* The directory of states is open. */
static int
load_and_run(const struct jr_app *app, const struct run_opts *opts, const struct jr_state *state,
    struct jr_run_report *report, struct jr_err *err)
{
	struct jr_handlers handlers;
	struct jr_lease lease;
	int status;

	if (!jr_lease_init(&lease, opts->lease_ms, opts->heartbeat_ms, err) || !check_descriptors(opts, err) ||
	    !load_handlers(opts, &handlers, err))
		return (int)err->code;
	jr_run_report_problems(&handlers, state->directories[0]);
	status = run_or_show(app, opts, &handlers, state, &lease, report, err);
	jr_handlers_release(&handlers);
	return status;
}

static int
run_with_state(const struct jr_app *app, const struct run_opts *opts, struct jr_err *err)
{
	struct jr_run_report report = {.app = app,
	    .job = opts->job,
	    .conninfo = jr_db_conninfo(app->dbname, NULL),
	    .grace_ms = opts->grace_ms,
	    .tells = app->verbose > 0 && (app->log_format == NULL || strcmp(app->log_format, "json") != 0),
	    .terminal = isatty(STDERR_FILENO) && app->verbose == 0 && opts->job == 0};
	struct jr_state state;
	char *directory, *key;
	int status;

	if (!jr_state_open(&state, opts->state_dir, err))
		return (int)err->code;
	directory = jr_handlers_directory(opts->handlers);
	key = jr_xasprintf("%s%s", directory, app->line);
	report.state_directory = state.directories[0];
	report.key = key;
	status = load_and_run(app, opts, &state, &report, err);
	if (!opts->dry_run && opts->job == 0)
		jr_run_report_refused(state.directories[0], key, "run", status, err);
	jr_run_report_leave_out(&report, err);
	free(key);
	free(directory);
	jr_state_release(&state);
	return status;
}

/* A tick is alive if it could work: a run that went dead is not its failure. */
static int
run_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct run_opts opts = *(const struct run_opts *)values;
	char *url = NULL;
	int status;

	(void)argc;
	(void)argv;
	if (!check_together(&opts, err))
		return (int)err->code;
	if (opts.ping != NULL && !opts.dry_run) {
		url = jr_settings_url(opts.ping, NULL, err);
		if (url == NULL) {
			jr_fail_in(err, "--ping");
			return (int)err->code;
		}
	}
	opts.ping = url;
	status = run_with_state(app, &opts, err);
	if (url != NULL)
		jr_ping_now(url, status == 0 || status == JR_E_NEWS ? JR_PING_OK : JR_PING_FAIL);
	free(url);
	return status;
}

const struct jr_cmd jr_cmd_run = {
    .name = "run",
    .group = JR_GROUP_EVERYDAY,
    .summary = "reclaim lost runs, fire schedules, run what is due, exit (also: jobrun --once)",
    .usage = "[OPTION...]",
    .options = run_options,
    .defaults = &run_defaults,
    .size = sizeof(run_defaults),
    .kind = "run",
    .run = run_run,
};
