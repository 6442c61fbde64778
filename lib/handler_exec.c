/*
 * handler_exec: a handler that is an executable file.
 *
 * The file is judged again right before it is started, then run without a shell, with the payload
 * on stdin. Its exit decides the verdict (verdict.h). What must hold: every text that leaves here is
 * clean and bounded.
 */
#include "handler.h"

#include "clock.h"
#include "environ.h"
#include "mem.h"
#include "perm.h"
#include "text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX (JR_OUTPUT_HEAD + JR_OUTPUT_TAIL + 200) /* and a line between */

struct exec_work {
	struct jr_work work; /* first */
	const struct jr_handler *handler;
	struct jr_child *child;
	char *input;
	jr_work_fn *ended;
	void *ctx;
};

/*
 * The captured bytes as clean text, NULL if there are none. A byte that is no character grows to
 * three, so a log full of them is cut a second time: in its middle again, because the end of a log
 * says the most.
 */
static char *
clean_output(const struct jr_capture *capture)
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

static int64_t
milliseconds(struct timeval tv)
{
	return (int64_t)tv.tv_sec * 1000 + tv.tv_usec / 1000;
}

/* The work may be freed in `ended`: everything that is released after it is local. */
static void
on_ended(void *ctx, const struct jr_child_end *child_end)
{
	struct exec_work *exec = ctx;
	int status = child_end->status;
	char *output = clean_output(child_end->output);
	char *code = NULL, *error = NULL;
	struct jr_work_end end = {
	    .verdict = jr_verdict_of_exit(&exec->handler->settings.rules, status),
	    .has_exit = true,
	    .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	    .pid = jr_child_pid(exec->child),
	    .cpu_ms =
		milliseconds(child_end->usage.ru_utime) + milliseconds(child_end->usage.ru_stime),
	    .max_rss_kb = child_end->usage.ru_maxrss,
	    .output_dropped = (int64_t)child_end->output->dropped,
	    .output = output,
	};

	if (end.verdict != JR_DONE) {
		code = jr_code_of_exit(status);
		error = jr_error_of_exit(status, output);
	}
	end.error_code = code;
	end.error = error;
	exec->ended(exec->ctx, &end);
	free(output);
	free(code);
	free(error);
}

/* The run's deadline on the clock of the wall, for JOBRUN_DEADLINE. */
static int64_t
wall_deadline(int64_t run_deadline_ms)
{
	if (run_deadline_ms == JR_NEVER)
		return JR_NEVER;
	return jr_clock_after(jr_clock_wall_ms(), run_deadline_ms - jr_clock_now_ms());
}

static bool
start_child(struct exec_work *exec, const struct jr_host *host, const struct jr_handler *handler,
    const struct jr_child_spec *spec, struct jr_err *err)
{
	if (!jr_perm_check_file(handler->path, err))
		return false;
	exec->child = jr_child_start(host->loop, host->keeper, spec, on_ended, exec, err);
	return exec->child != NULL;
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run,
    int64_t deadline_ms, int64_t run_deadline_ms, jr_work_fn *ended, void *ctx, struct jr_err *err)
{
	struct exec_work *exec = jr_xcalloc(1, sizeof(*exec));
	char **env = jr_environ_make(environ, run, wall_deadline(run_deadline_ms));
	char *argv[] = {handler->path, NULL};
	struct jr_child_spec spec = {.path = handler->path,
	    .argv = argv,
	    .envp = env,
	    .cwd = handler->directory,
	    .deadline_ms = deadline_ms,
	    .echo = host->echo};
	bool started;

	exec->work.kind = &jr_handler_exec;
	exec->handler = handler;
	exec->ended = ended;
	exec->ctx = ctx;
	exec->input = jr_xasprintf("%s\n", run->payload);
	spec.input = exec->input;
	spec.input_len = strlen(exec->input);
	started = start_child(exec, host, handler, &spec, err);
	jr_environ_free(env);
	if (started)
		return &exec->work;
	free(exec->input);
	free(exec);
	return NULL;
}

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
free_work(struct jr_work *work)
{
	struct exec_work *exec = (struct exec_work *)work;

	jr_child_free(exec->child);
	free(exec->input);
	free(exec);
}

const struct jr_handler_kind jr_handler_exec = {
    .name = "exec",
    .start = start,
    .stop = stop,
    .move = move,
    .free = free_work,
};
