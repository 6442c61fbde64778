/*
 * handler_exec: a handler that is an executable file, or the "argv" of its settings.
 *
 * Right before it is started, its files are looked at again (trust.h). It runs without a shell, with the payload
 * on stdin and the two files of out.h. Its exit status decides the verdict (verdict.h). What must hold: every text that
 * is reported is clean and bounded, whatever the handler prints; warnings about JOBRUN_OUT come after the output and
 * are marked, so that nobody takes them for output; the files exist until the whole process group is gone, and are
 * removed with the work.
 *
 * A command of jobrun exec (as_is) gets the stdin and the environment of its caller instead, and its permissions are
 * not checked. If the two files cannot be created, it runs without them.
 */
#include "handler/handler.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "handler/environ.h"
#include "handler/out.h"
#include "handler/trust.h"
#include "process/isolate.h"
#include "process/reach.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX (JR_OUTPUT_HEAD + JR_OUTPUT_TAIL + 200) /* and a line between head and tail */
#define WARNINGS_MAX 65536

struct exec_work {
	struct jr_work work; /* first */
	const struct jr_handler *handler;
	int64_t run_id;
	char *argv[2]; /* used if the settings have no "argv" */
	struct jr_child *child;
	struct jr_out *out; /* NULL: as_is, and the files could not be created */
	char *input;
	uint64_t output_reported; /* bytes of output that have been reported */
	jr_work_fn *ended;
	void *ctx;
};

/* --- the output, as text --- */

/*
 * The captured bytes as clean and bounded text; NULL if there are none. Caller frees.
 *
 * Cleaning turns an invalid byte into three. So an output full of such bytes may have to be cut again: in the middle,
 * because the end of an output says the most.
 */
static char *
output_of(const struct jr_capture *capture)
{
	struct jr_capture shorter;
	struct jr_buf raw;
	char *text;

	if (jr_capture_is_empty(capture))
		return NULL;
	jr_buf_init(&raw, OUTPUT_MAX);
	jr_capture_read(capture, &raw);
	text = jr_text_clean(raw.data, raw.len, (size_t)OUTPUT_MAX * 3);
	if (strlen(text) > OUTPUT_MAX) {
		jr_capture_init(&shorter, JR_OUTPUT_HEAD, JR_OUTPUT_TAIL);
		jr_capture_add(&shorter, text, strlen(text));
		jr_buf_clear(&raw);
		jr_capture_read(&shorter, &raw);
		jr_capture_release(&shorter);
		free(text);
		text = jr_text_clean(raw.data, raw.len, OUTPUT_MAX);
	}
	jr_buf_release(&raw);
	return text;
}

/* How many bytes the handler has printed so far, dropped bytes included. */
static uint64_t
output_total(const struct jr_capture *capture)
{
	return capture->head.len + capture->ring_len + capture->dropped;
}

/* Append the warnings to the output (NULL: none), each as a line that begins with "jobrun: ". Takes `output`. */
static char *
add_warnings(char *output, const char *warnings)
{
	struct jr_buf text;
	size_t len = output != NULL ? strlen(output) : 0;

	if (warnings[0] == '\0')
		return output;
	jr_buf_init(&text, OUTPUT_MAX + 1 + WARNINGS_MAX);
	jr_buf_add(&text, output, len);
	if (len > 0 && output[len - 1] != '\n')
		jr_buf_addc(&text, '\n');
	while (warnings[0] != '\0') {
		size_t line = strcspn(warnings, "\n");

		jr_buf_adds(&text, "jobrun: ");
		jr_buf_add(&text, warnings, line);
		jr_buf_addc(&text, '\n');
		warnings += line + (warnings[line] != '\0');
	}
	free(output);
	return jr_buf_detach(&text);
}

/* --- can this host run it? --- */

/* May the account of "user" start it? Else each run would lose all its attempts. */
static bool
check_account(const struct jr_handler *handler, struct jr_err *err)
{
	const struct jr_settings *settings = &handler->settings;
	const char *cwd = settings->cwd != NULL ? settings->cwd : handler->directory;
	const char *program = settings->argv != NULL ? settings->argv[0] : handler->path;

	return jr_reach_check(&settings->limits, settings->user, cwd, err) &&
	       jr_reach_check(&settings->limits, settings->user, program, err);
}

/*
 * What must hold: a handler with "isolate" has an isolation, so that it never runs without. One that is not prepared
 * for a shortage is prepared at the start.
 */
static bool
check(struct jr_handler *handler, struct jr_err *err)
{
	if (!jr_trust_check(handler, err) || !jr_outs_check(err) || !check_account(handler, err))
		return false;
	if (!handler->settings.isolate)
		return true;
	handler->isolation = jr_isolation_open(err);
	return handler->isolation != NULL;
}

static bool
may_start(const struct jr_handler *handler, struct jr_err *err)
{
	return jr_trust_check(handler, err) || jr_fail_in(err, handler->job_type);
}

/* --- the end --- */

static int64_t
milliseconds(struct timeval tv)
{
	return (int64_t)tv.tv_sec * 1000 + tv.tv_usec / 1000;
}

/* Also log that there are warnings, since they do not fail the run. */
static void
warn(const struct exec_work *exec, char **output)
{
	const char *warnings = jr_out_warnings(exec->out);

	if (warnings[0] != '\0')
		jr_log(
		    JR_INFO, JR_EVENT_OUT_WARNINGS, JR_I("run", exec->run_id), JR_S("type", exec->handler->job_type));
	*output = add_warnings(*output, warnings);
}

/* Read JOBRUN_OUT to its end. */
static void
read_out(const struct exec_work *exec, struct jr_work_end *end)
{
	jr_out_read(exec->out, true);
	end->progress = jr_out_progress(exec->out);
	end->checkpoint = jr_out_checkpoint(exec->out);
	end->result = jr_out_result(exec->out);
	end->retry_in_ms = jr_out_retry_in_ms(exec->out);
}

/*
 * `ended` may free the work, and with it the lines that *end borrows from `out`. So only local memory is used after it.
 */
static void
on_ended(void *ctx, const struct jr_child_end *child_end)
{
	struct exec_work *exec = ctx;
	int status = child_end->status;
	enum jr_verdict verdict = jr_verdict_of_exit(&exec->handler->settings.rules, status);
	char *output = output_of(child_end->output);
	char *code = verdict != JR_DONE ? jr_code_of_exit(status) : NULL;
	char *error = verdict != JR_DONE ? jr_error_of_exit(status, output) : NULL;
	struct jr_work_end end = {
	    .verdict = verdict,
	    .has_exit = true,
	    .by_itself = child_end->by_itself,
	    .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	    .pid = jr_child_pid(exec->child),
	    .cpu_ms = milliseconds(child_end->usage.ru_utime) + milliseconds(child_end->usage.ru_stime),
	    .max_rss_kb = child_end->max_rss_kb,
	    .output_dropped = (int64_t)child_end->output->dropped,
	    .error_code = code,
	    .error = error,
	};

	if (exec->out != NULL) {
		read_out(exec, &end);
		warn(exec, &output);
	}
	end.output = output;
	exec->ended(exec->ctx, &end);
	free(output);
	free(code);
	free(error);
}

/* --- the start --- */

/* The run's deadline on the wall clock, for JOBRUN_DEADLINE. */
static int64_t
wall_deadline(int64_t run_deadline_ms)
{
	if (run_deadline_ms == JR_NEVER)
		return JR_NEVER;
	return jr_clock_after(jr_clock_wall_ms(), run_deadline_ms - jr_clock_now_ms());
}

/* A path without a slash was not found in PATH. It must not be started from the current directory. */
static bool
fill_command(const struct exec_work *exec, struct jr_child_spec *spec, struct jr_err *err)
{
	spec->as_is = true;
	spec->quiet = exec->handler->quiet;
	spec->path = exec->handler->path;
	spec->argv = exec->handler->settings.argv;
	if (strchr(spec->path, '/') != NULL)
		return true;
	return jr_fail(err, JR_E_CONFIG, "cannot start %s: no such command", spec->path);
}

static bool
fill_handler(struct exec_work *exec, const struct jr_host *host, struct jr_child_spec *spec, struct jr_err *err)
{
	const struct jr_settings *settings = &exec->handler->settings;

	exec->argv[0] = exec->handler->path;
	spec->argv = settings->argv != NULL ? settings->argv : exec->argv;
	spec->path = spec->argv[0];
	spec->cwd = settings->cwd != NULL ? settings->cwd : exec->handler->directory;
	spec->limits = &settings->limits;
	spec->isolation = exec->handler->isolation;
	spec->echo = host->echo;
	spec->raw = host->raw;
	spec->input = exec->input;
	spec->input_len = strlen(exec->input);
	return may_start(exec->handler, err) &&
	       (spec->isolation == NULL || jr_isolation_prepare(exec->handler->isolation, err) ||
		   jr_fail_in(err, exec->handler->job_type));
}

static bool
start_child(struct exec_work *exec, const struct jr_host *host, struct jr_child_spec *spec, char *const *env,
    struct jr_err *err)
{
	bool filled = exec->handler->as_is ? fill_command(exec, spec, err) : fill_handler(exec, host, spec, err);

	if (!filled)
		return false;
	spec->envp = env;
	exec->child = jr_child_start(host->loop, host->watchdog, spec, on_ended, exec, err);
	return exec->child != NULL;
}

static bool
open_out(struct exec_work *exec, struct jr_host *host, const struct jr_run *run, struct jr_err *err)
{
	if (host->outs == NULL)
		host->outs = jr_outs_open(err);
	if (host->outs == NULL)
		return false;
	exec->out =
	    jr_out_open(host->outs, run->id, run->claim_seq, run->checkpoint, &exec->handler->settings.limits, err);
	return exec->out != NULL;
}

static char **
make_environment(const struct exec_work *exec, struct jr_host *host, const struct jr_run *run, int64_t run_deadline_ms)
{
	const struct jr_settings *settings = &exec->handler->settings;
	struct jr_environ_extra extra = {.env = settings->env, .user = settings->user, .home = settings->home};

	if (exec->out != NULL) {
		extra.out = jr_out_path(exec->out);
		extra.checkpoint = jr_out_checkpoint_path(exec->out);
	}
	if (exec->handler->as_is)
		return jr_environ_keep(environ, run, wall_deadline(run_deadline_ms), &extra);
	if (host->inherited == NULL) {
		jr_environ_log_left_out(environ);
		host->inherited = jr_environ_inherit(environ);
	}
	return jr_environ_make(host->inherited, run, wall_deadline(run_deadline_ms), &extra);
}

static void
free_work(struct jr_work *work)
{
	struct exec_work *exec = (struct exec_work *)work;

	jr_child_free(exec->child);
	jr_out_close(exec->out);
	free(exec->input);
	free(exec);
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	struct exec_work *exec = jr_xcalloc(1, sizeof(*exec));
	struct jr_child_spec spec = {.deadline_ms = deadline_ms};
	char **env = NULL;
	bool started = false;

	exec->work.kind = &jr_handler_exec;
	exec->handler = handler;
	exec->run_id = run->id;
	exec->ended = owner->ended;
	exec->ctx = owner->ctx;
	exec->input = jr_xasprintf("%s\n", run->payload);
	if (open_out(exec, host, run, err) || handler->as_is) {
		env = make_environment(exec, host, run, run_deadline_ms);
		started = start_child(exec, host, &spec, env, err);
	}
	jr_strings_free(env);
	if (started)
		return &exec->work;
	free_work(&exec->work);
	return NULL;
}

/* --- while it runs --- */

static void
stop(struct jr_work *work, bool kill)
{
	jr_child_signal(((struct exec_work *)work)->child, kill ? SIGKILL : SIGTERM);
}

static void
move(struct jr_work *work, int64_t deadline_ms)
{
	jr_child_deadline(((struct exec_work *)work)->child, deadline_ms);
}

static void
take_progress(struct jr_work *work, struct jr_handler_progress *report)
{
	struct exec_work *exec = (struct exec_work *)work;
	const struct jr_capture *capture = jr_child_output(exec->child);
	uint64_t total = output_total(capture);

	*report = (struct jr_handler_progress){0};
	if (exec->out != NULL) {
		jr_out_read(exec->out, false);
		jr_out_take_changes(exec->out, &report->progress, &report->checkpoint);
	}
	if (total == exec->output_reported)
		return;
	exec->output_reported = total;
	report->output = output_of(capture);
	report->output_dropped = (int64_t)capture->dropped;
}

static void
close_host(struct jr_host *host)
{
	jr_outs_close(host->outs);
	host->outs = NULL;
	jr_strings_free(host->inherited);
	host->inherited = NULL;
}

const struct jr_handler_kind jr_handler_exec = {
    .name = "exec",
    .pool = JR_POOL_EXEC,
    .member = "argv",
    .success_rule = "exit status 0 means: done",
    .check = check,
    .may_start = may_start,
    .start = start,
    .stop = stop,
    .move = move,
    .progress = take_progress,
    .free = free_work,
    .close = close_host,
};
