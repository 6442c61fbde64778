/*
 * exec: run a line of an old crontab with lease, history, overlap rule and limits: `jobrun exec NAME -- CMD...`.
 *
 * The runner does the work, with this one command instead of handlers. This file reports CMD's exit status, or why CMD
 * was not started. With --fail-open it executes CMD in its own place if no run could be recorded.
 *
 * What must hold: CMD is executed in our place only if it is certain that the runner has not started it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/signals.h"
#include "base/text.h"
#include "commands.h"
#include "handler/handlers.h"
#include "handler/ping.h"
#include "pg/pg_array.h"
#include "print.h"
#include "process/state.h"
#include "run_report.h"
#include "runner/runner.h"
#include "waits.h"
#include "written.h"

#define TIMED_OUT 124
#define KILLED 130        /* by a second INT */
#define COMMAND_MAX 10000 /* bytes of the command that are recorded */

struct exec_opts {
	const char *state_dir;
	char *ping;
	int64_t timeout_ms, lease_ms, heartbeat_ms, grace_ms;
	struct jr_words ok_exit;
	bool strict, fail_open, mail_on_failure, ping_start;
};

static const struct exec_opts exec_defaults = {
    .timeout_ms = -1, .lease_ms = -1, .heartbeat_ms = -1, .grace_ms = JR_GRACE_MS};

#define AT(field) offsetof(struct exec_opts, field)

static bool
check_status(const char *what, const char *text, struct jr_err *err)
{
	int64_t status;

	return jr_parse_int(what, text, 0, 255, &status, err);
}

/* clang-format off */
static const struct jr_option exec_options[] = {
	{ .name = "timeout", .arg = "D", .help = "stop CMD after this time, and exit with 124 (the definition's, else no limit); 0: no limit",
	    .type = JR_OPT_DURATION, .offset = AT(timeout_ms) },
	{ .name = "ok-exit", .arg = "LIST", .help = "exit statuses of CMD that count as success, beside 0: 1 or 1,24",
	    .type = JR_OPT_WORDS, .offset = AT(ok_exit), .check = check_status },
	{ .name = "mail-on-failure", .help = "print CMD's output at its end, and only if it failed; else print nothing",
	    .type = JR_OPT_FLAG, .offset = AT(mail_on_failure) },
	{ .name = "strict", .help = "exit with 75 and say why if CMD is not started (it still runs, a limit, a pause)",
	    .type = JR_OPT_FLAG, .offset = AT(strict) },
	{ .name = "fail-open", .help = "run CMD without a record if the database cannot be used or a row stays locked",
	    .type = JR_OPT_FLAG, .offset = AT(fail_open) },
	{ .name = "grace", .arg = "D", .help = "between TERM and KILL, when CMD is stopped (10s)", .type = JR_OPT_DURATION,
	    .offset = AT(grace_ms) },
	{ .name = "ping", .arg = "URL", .help = "GET this when CMD has succeeded, and URL/fail when it has failed; or file:PATH, a file with the URL",
	    .type = JR_OPT_SECRET, .offset = AT(ping) },
	{ .name = "ping-start", .help = "with --ping: GET URL/start when CMD has been started, too", .type = JR_OPT_FLAG, .offset = AT(ping_start) },
	{ .name = "lease", .arg = "D", .help = "how long CMD may run without a heartbeat, 2s to 1h (90s)", .type = JR_OPT_DURATION,
	    .offset = AT(lease_ms), .env = "JOBRUN_LEASE" },
	{ .name = "heartbeat", .arg = "D", .help = "how often the lease is renewed, at most a quarter of --lease (20s or a quarter)",
	    .type = JR_OPT_DURATION, .offset = AT(heartbeat_ms) },
	{ .name = "state-dir", .arg = "DIR", .help = "private directory that remembers which failures were printed (as for run)",
	    .type = JR_OPT_STRING, .offset = AT(state_dir), .env = "JOBRUN_STATE_DIR", .not_empty = true },
	JR_OPTIONS_END,
};
/* clang-format on */

/* What the parts below share. */
struct doing {
	const struct jr_app *app;
	const struct exec_opts *opts;
	const char *name;
	char **argv;     /* CMD */
	const char *url; /* of --ping; NULL: none */
	struct jr_exec exec;
	struct jr_counts counts;
	struct jr_run_report report;
};

static bool
check_arguments(int argc, char **argv, struct jr_err *err)
{
	if (argc < 3 || strcmp(argv[1], "--") != 0)
		return jr_fail(err, JR_E_USAGE,
		    "the command goes behind \"--\", and before it NAME alone: jobrun exec %s -- /usr/local/bin/backup --all",
		    strcmp(argv[0], "--") == 0 ? "backup" : argv[0]);
	if (!jr_parse_definition("NAME", argv[0], err))
		return false;
	if (strncmp(argv[0], "jobrun.", strlen("jobrun.")) == 0)
		return jr_fail(err, JR_E_USAGE, "NAME: names that begin with \"jobrun.\" are jobrun's own");
	return true;
}

/* The words of CMD for the record, an array literal: at most COMMAND_MAX bytes, then "...". Caller frees. */
static char *
command_array(char *const *argv)
{
	struct jr_pg_array array;
	size_t room = COMMAND_MAX;
	char *text;

	jr_pg_array_init(&array);
	for (; *argv != NULL && room > 0; argv++) {
		size_t len = strlen(*argv);
		char *word = jr_text_clean(*argv, len, len < room ? len * 3 : room);

		jr_pg_array_add(&array, word);
		room -= len < room ? len + 1 : room;
		free(word);
	}
	if (room == 0)
		jr_pg_array_add(&array, "...");
	text = jr_xstrdup(jr_pg_array_end(&array));
	jr_pg_array_release(&array);
	return text;
}

/* "01" is 1. */
static void
copy_statuses(const struct jr_words *words, struct jr_codes *codes)
{
	codes->items = jr_xcalloc(words->count + 1, sizeof(*codes->items));
	for (codes->count = 0; codes->count < words->count; codes->count++)
		codes->items[codes->count] = jr_xasprintf("%ld", strtol(words->items[codes->count], NULL, 10));
}

/* The caller sees CMD's own end. Other runs that this runner found dead must be reported here. */
static void
on_dead(void *ctx, const struct jr_setback *dead)
{
	struct doing *doing = ctx;

	if (dead->id != doing->exec.run_id)
		jr_run_report_dead(&doing->report, dead);
}

static int
skip(const struct doing *doing, struct jr_err *err)
{
	bool strict = doing->opts->strict || doing->exec.held_back;

	if (!strict && doing->app->verbose == 0)
		return 0;
	jr_fail(err, JR_E_TEMP, "%s was not started: %s", doing->name, doing->exec.why);
	return strict ? JR_E_TEMP : 0;
}

/* CMD has ended, so return its status, even if its end could not be recorded. */
static int
pass_status(const struct doing *doing, int status, struct jr_err *err)
{
	if (doing->counts.fenced > 0)
		jr_fail(err, JR_E_TEMP,
		    "%s ended with %d without a record: its run %" PRId64 " was called lost before that", doing->name,
		    doing->exec.exit_status, doing->exec.run_id);
	return status;
}

/* CMD was claimed and not started: it was too late, no process could be created, or it was cancelled at once. */
static int
tell_unstarted(const struct doing *doing, struct jr_err *err)
{
	if (err->msg[0] == '\0' && doing->exec.signal == 0)
		jr_fail(err, JR_E_TEMP, "%s was not started: %s", doing->name, doing->exec.why);
	return JR_E_TEMP;
}

static int
tell_lost(const struct doing *doing, struct jr_err *err)
{
	jr_fail(err, JR_E_TEMP,
	    "%s was stopped: its run %" PRId64
	    " is lost, since the database did not answer in time (with --fail-open it would have gone on)",
	    doing->name, doing->exec.run_id);
	return JR_E_TEMP;
}

/* Returns the exit status, and fills *err with what CMD cannot report itself. `status` is the runner's. */
static int
tell_end(const struct doing *doing, int status, struct jr_err *err)
{
	if (status == KILLED)
		return status;
	switch (doing->exec.state) {
	case JR_EXEC_SKIPPED:
		return status > JR_E_NEWS ? status : skip(doing, err); /* JR_E_NEWS: only other runs are dead */
	case JR_EXEC_ENDED:
		return pass_status(doing, doing->exec.exit_status, err);
	case JR_EXEC_TIMED_OUT:
		return pass_status(doing, TIMED_OUT, err);
	case JR_EXEC_CANNOT_START:
		jr_fail(err, JR_E_NEWS, "%s", doing->exec.why);
		return jr_handlers_command_status(doing->exec.handler);
	case JR_EXEC_LOST:
		return tell_lost(doing, err);
	case JR_EXEC_UNSTARTED:
		status = tell_unstarted(doing, err);
		break;
	case JR_EXEC_NONE:
		if (err->msg[0] != '\0')
			jr_fail(err, err->code, "%.900s; %s was not started", err->msg, doing->name);
		break;
	case JR_EXEC_RUNNING:
		break;
	}
	return doing->exec.signal != 0 ? 128 + doing->exec.signal : status;
}

/* With --fail-open: is it certain that CMD was not started, and for no reason that somebody wanted? */
static bool
is_due_without_record(const struct doing *doing)
{
	const struct jr_exec *exec = &doing->exec;

	return doing->opts->fail_open && exec->signal == 0 && doing->counts.cancelled == 0 &&
	       (exec->state == JR_EXEC_NONE || exec->state == JR_EXEC_UNSTARTED);
}

/* Execute CMD in our place. Returns only on failure. */
static int
run_without_record(const struct doing *doing, struct jr_err *err)
{
	int error;

	if (err->msg[0] != '\0') {
		char *why = jr_text_visible(err->msg, false);

		fprintf(stderr, "jobrun: %s; %s runs without a record\n", why, doing->name);
		free(why);
	}
	fflush(NULL);
	jr_signals_default();
	execvp(doing->argv[0], doing->argv);
	error = errno;
	jr_signals_ignore();
	jr_fail(err, JR_E_NEWS, "cannot start %s: %s", doing->argv[0], strerror(error));
	return error == ENOENT || error == ENOTDIR ? 127 : 126;
}

static void
on_warned(void *ctx, const char *text)
{
	struct doing *doing = ctx;

	jr_run_report_warned(&doing->report, text);
}

static void
on_copied(void *ctx, const char *text)
{
	const struct doing *doing = ctx;

	jr_run_report_copy(doing->report.state_directory, doing->report.conninfo, doing->name, text);
}

static void
on_waits(void *ctx, const char *why, int64_t left_ms)
{
	const struct doing *doing = ctx;

	jr_waits_tell(doing->app, why, left_ms);
}

static void
tell_refused(const struct doing *doing, const struct jr_state *state, int status, struct jr_err *err)
{
	const char *dbname = doing->app->dbname;
	char *key = jr_xasprintf("%s exec %s", dbname == NULL ? "" : dbname, doing->name);

	jr_run_report_refused(state->directories[0], key, doing->name, status, err);
	free(key);
}

static int
run_with_record(struct doing *doing, const struct jr_lease *lease, struct jr_err *err)
{
	const struct jr_handlers none = {.count = 0};
	const struct jr_runner_opts runner = {
	    .conninfo = jr_db_conninfo(doing->app->dbname, NULL),
	    .version = JR_VERSION,
	    .handlers = &none,
	    .lease = *lease,
	    .exec = &doing->exec,
	    .ping_start = doing->opts->ping_start ? doing->url : NULL,
	    .patience_ms = JR_CMD_PATIENCE_MS,
	    .dead = on_dead,
	    .warned = on_warned,
	    .waits = on_waits,
	    .copied = on_copied,
	    .ctx = doing,
	};
	struct jr_err unused;
	struct jr_state state;
	bool has_state = jr_state_open(&state, doing->opts->state_dir, &unused); /* without it print all each time */
	int status;

	doing->report.state_directory = has_state ? state.directories[0] : NULL;
	doing->report.conninfo = runner.conninfo;
	status = jr_runner_run(&runner, &doing->counts, err);
	if (!doing->counts.answered)
		jr_waits_advise(doing->app, err);
	if (has_state) {
		jr_run_report_soften(
		    state.directories[0], runner.conninfo, doing->name, status, doing->counts.answered, err);
		tell_refused(doing, &state, status, err);
		jr_state_release(&state);
	}
	return status;
}

/* CMD was started, and its run did not succeed. What CMD has printed tells why, unless it was stopped or is quiet. */
static void
tell_failure(const struct doing *doing, struct jr_err *err)
{
	const struct jr_exec *exec = &doing->exec;
	bool quiet = doing->opts->mail_on_failure;
	struct jr_err unwritten;

	if (quiet && exec->output != NULL)
		jr_print_output(stdout, exec->output);
	if (!jr_written(&unwritten)) {
		fprintf(stderr, "jobrun: %s", unwritten.msg);
		if (exec->state != JR_EXEC_LOST) /* else nothing of it was recorded */
			fprintf(stderr, "; look: jobrun logs %" PRId64, exec->run_id);
		fputc('\n', stderr);
	}
	if (err->msg[0] == '\0' && exec->why != NULL && (quiet || exec->stopped))
		jr_fail(err, JR_E_NEWS, "%s failed, run %" PRId64 ": %s", doing->name, exec->run_id, exec->why);
}

static bool
is_failure(const struct jr_exec *exec)
{
	return exec->state == JR_EXEC_LOST ||
	       ((exec->state == JR_EXEC_ENDED || exec->state == JR_EXEC_TIMED_OUT) && exec->why != NULL);
}

/* A run that was not started sends no ping: if that lasts, the service notices. */
static void
ping(const char *url, const struct jr_exec *exec)
{
	fflush(stdout);
	if (exec->state >= JR_EXEC_CANNOT_START)
		jr_ping_now(url, exec->state == JR_EXEC_ENDED && exec->why == NULL ? JR_PING_OK : JR_PING_FAIL);
}

/* *url becomes the address of --ping, which the caller frees; NULL without one. */
static bool
read_ping(const struct exec_opts *opts, char **url, struct jr_err *err)
{
	if (opts->ping == NULL)
		return !opts->ping_start || jr_fail(err, JR_E_USAGE, "--ping-start goes with --ping URL");
	*url = jr_settings_url(opts->ping, NULL, err);
	return *url != NULL || jr_fail_in(err, "--ping");
}

static int
exec_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct exec_opts *opts = values;
	struct doing doing = {.app = app, .opts = opts, .name = argv[0], .argv = argv + 2};
	struct jr_handlers handlers;
	struct jr_lease lease;
	char *text, *url = NULL;
	int status;

	if (!check_arguments(argc, argv, err) || !jr_lease_init(&lease, opts->lease_ms, opts->heartbeat_ms, err) ||
	    !read_ping(opts, &url, err))
		return (int)err->code;
	doing.url = url;
	text = command_array(doing.argv);
	jr_handlers_of_command(&handlers, doing.name, doing.argv);
	handlers.items[0].settings.grace_ms = opts->grace_ms;
	handlers.items[0].quiet = opts->mail_on_failure;
	copy_statuses(&opts->ok_exit, &handlers.items[0].settings.rules.ok);
	doing.exec = (struct jr_exec){.handler = &handlers.items[0],
	    .definition = doing.name,
	    .argv = text,
	    .timeout_ms = opts->timeout_ms,
	    .goes_on = opts->fail_open};
	status = run_with_record(&doing, &lease, err);
	status = is_due_without_record(&doing) ? run_without_record(&doing, err) : tell_end(&doing, status, err);
	if (is_failure(&doing.exec))
		tell_failure(&doing, err);
	if (url != NULL)
		ping(url, &doing.exec);
	free(url);
	free(doing.exec.output);
	free(doing.exec.why);
	jr_handlers_release(&handlers);
	free(text);
	return status;
}

const struct jr_cmd jr_cmd_exec = {
    .name = "exec",
    .group = JR_GROUP_SCRIPTS,
    .summary = "run a command of an old crontab line with a lease, a history and no overlap",
    .usage = "[OPTION...] NAME -- CMD [ARG...]",
    .details =
	"CMD has the directory, environment, stdin, stdout and stderr of jobrun. It is recorded as a run of the\n"
	"definition NAME, with the head and tail of its output; the first use creates the definition. jobrun logs\n"
	"and jobrun cancel work. It is never retried. CMD is not started if the last run of NAME is not over, on\n"
	"any host, if NAME is paused or disabled, or if a limit of its queue or its lock key has no room (jobrun\n"
	"queue, jobrun define NAME --lock KEY). jobrun slots NAME shows each such start with the reason.\n"
	"\n"
	"The exit status is CMD's; 128+N if signal N killed it; 124 if --timeout stopped it; 127 if there is no\n"
	"such command, 126 if it cannot be executed. If it was not started: 0, with --strict 75, and always 75\n"
	"while everything or this host is paused (jobrun pause --all, --host). 75, too: the database\n"
	"could not be reached, so CMD was not started, or was stopped before its lease ended, so that it never\n"
	"runs twice at once; or another session has locked the row of the queue or the definition for 5 s.\n"
	"With --fail-open CMD runs all the same, without a record.\n"
	"\n"
	"CMD itself says why it failed. If --timeout or jobrun cancel stopped it, jobrun says so on stderr.\n"
	"\n"
	"--ok-exit decides whether the run succeeded; the exit status stays CMD's. --mail-on-failure keeps the head\n"
	"and tail of the output, as jobrun logs does; stdout and stderr of CMD then go to stdout. A CMD that runs\n"
	"without a record (--fail-open) prints as it goes.\n",
    .options = exec_options,
    .defaults = &exec_defaults,
    .size = sizeof(exec_defaults),
    .min_args = 1,
    .max_args = -1,
    .takes_command = true,
    .kind = "run",
    .run = exec_run,
};
