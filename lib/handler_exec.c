/*
 * handler_exec: a handler that is an executable file.
 *
 * The file is judged again right before it is started, then run without a shell, with the payload
 * on stdin. Its exit decides the verdict: 0 done, 75 later, 65 give up, anything else fail (75 and
 * 65 are EX_TEMPFAIL and EX_DATAERR of sysexits). What must hold: every text that leaves here is
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

#define EXIT_GIVE_UP 65
#define EXIT_LATER 75
#define OUTPUT_MAX (JR_OUTPUT_HEAD + JR_OUTPUT_TAIL + 200) /* and a line between */
#define LAST_LINE_MAX (JR_ERROR_MAX - 64)

struct exec_work {
	struct jr_work work; /* first */
	struct jr_child *child;
	char *input;
	jr_work_fn *ended;
	void *ctx;
};

/* SEGV for SIGSEGV; the number for those without a name. Caller frees. */
static char *
signal_name(int signo)
{
	static const char *const names[] = {[SIGHUP] = "HUP",
	    [SIGINT] = "INT",
	    [SIGQUIT] = "QUIT",
	    [SIGILL] = "ILL",
	    [SIGTRAP] = "TRAP",
	    [SIGABRT] = "ABRT",
	    [SIGBUS] = "BUS",
	    [SIGFPE] = "FPE",
	    [SIGKILL] = "KILL",
	    [SIGUSR1] = "USR1",
	    [SIGSEGV] = "SEGV",
	    [SIGUSR2] = "USR2",
	    [SIGPIPE] = "PIPE",
	    [SIGALRM] = "ALRM",
	    [SIGTERM] = "TERM",
	    [SIGVTALRM] = "VTALRM",
	    [SIGPROF] = "PROF",
	    [SIGXCPU] = "XCPU",
	    [SIGXFSZ] = "XFSZ",
	    [SIGPOLL] = "POLL",
	    [SIGPWR] = "PWR",
	    [SIGSYS] = "SYS"};

	if (signo > 0 && (size_t)signo < JR_COUNT(names) && names[signo] != NULL)
		return jr_xstrdup(names[signo]);
	return jr_xasprintf("%d", signo);
}

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

static enum jr_verdict
verdict_of(int status)
{
	if (!WIFEXITED(status))
		return JR_FAIL;
	switch (WEXITSTATUS(status)) {
	case 0:
		return JR_DONE;
	case EXIT_LATER:
		return JR_LATER;
	case EXIT_GIVE_UP:
		return JR_GIVE_UP;
	default:
		return JR_FAIL;
	}
}

/* The code for programs and the line for people of an end that was not exit 0. */
static void
describe(int status, const char *output, char **code, char **error)
{
	char *last = jr_text_last_line(output != NULL ? output : "", LAST_LINE_MAX);
	const char *colon = last[0] != '\0' ? ": " : "";

	if (WIFEXITED(status)) {
		*code = jr_xasprintf("exit:%d", WEXITSTATUS(status));
		*error = jr_xasprintf("exit %d%s%s", WEXITSTATUS(status), colon, last);
	} else {
		char *name = signal_name(WTERMSIG(status));
		bool is_named = name[0] >= 'A';

		*code = jr_xasprintf("signal:%s", name);
		*error = jr_xasprintf(
		    "killed by %s%s%s%s", is_named ? "SIG" : "signal ", name, colon, last);
		free(name);
	}
	free(last);
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
	    .verdict = verdict_of(status),
	    .has_exit = true,
	    .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	    .pid = jr_child_pid(exec->child),
	    .cpu_ms =
		milliseconds(child_end->usage.ru_utime) + milliseconds(child_end->usage.ru_stime),
	    .max_rss_kb = child_end->usage.ru_maxrss,
	    .output_dropped = (int64_t)child_end->output->dropped,
	    .output = output,
	};

	if (end.verdict != JR_DONE)
		describe(status, output, &code, &error);
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
