/*
 * child_start: the pipes of a child, and its start on them. See child.h.
 *
 * What must hold: the child's ends of the pipes are closed here in any case, so that their end can be seen; ours are
 * watched, or closed if it could not be started.
 */
#include "process/child_parts.h"

#include "base/fd.h"
#include "base/mem.h"
#include "process/spawn.h"
#include "process/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The pipes of a child: [0] is read from, [1] written to; -1: there is none. */
struct pipes {
	int in[2], out[2], err[2];
};

/* Our ends become watches: of an empty input nothing is left to write. */
static bool
watch(struct jr_child *child, struct pipes *pipes)
{
	int pidfd;

	if ((pipes->in[1] >= 0 && !jr_fd_set_nonblocking(pipes->in[1])) || !jr_fd_set_nonblocking(pipes->out[0]) ||
	    (pipes->err[0] >= 0 && !jr_fd_set_nonblocking(pipes->err[0])))
		return false;
	pidfd = jr_fd_of_process(child->pid);
	if (pidfd < 0)
		return false;
	jr_watch_set(child->loop, &child->exit_watch, pidfd, POLLIN);
	jr_relay_open(&child->relays[0], child->loop, pipes->out[0]);
	if (pipes->err[0] >= 0)
		jr_relay_open(&child->relays[1], child->loop, pipes->err[0]);
	if (child->input_left > 0)
		jr_watch_set(child->loop, &child->in_watch, pipes->in[1], POLLOUT);
	else
		jr_fd_close(pipes->in[1]);
	return true;
}

static bool
start(struct jr_child *child, const struct jr_child_spec *spec, struct pipes *pipes, struct jr_err *err)
{
	struct jr_spawn spawn = {.path = spec->path,
	    .argv = spec->argv,
	    .envp = spec->envp,
	    .cwd = spec->cwd,
	    .in_fd = pipes->in[0],
	    .out_fd = pipes->out[1],
	    .err_fd = pipes->err[1] >= 0 ? pipes->err[1] : pipes->out[1],
	    .deadline_ms = spec->deadline_ms,
	    .limits = spec->limits,
	    .as_is = spec->as_is};
	int64_t pid = jr_spawn(child->watchdog, &spawn, err);

	if (pid < 0)
		return false;
	child->pid = (pid_t)pid;
	if (watch(child, pipes))
		return true;
	jr_fail(err, JR_E_TEMP, "could not watch %s: %s", spec->path, strerror(errno));
	jr_child_abandon(child);
	return false;
}

static bool
open_pipes(struct pipes *pipes, bool as_is)
{
	if (!as_is)
		return jr_fd_pipe(pipes->in) && jr_fd_pipe(pipes->out);
	pipes->in[0] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return pipes->in[0] >= 0 && jr_fd_pipe(pipes->out) && jr_fd_pipe(pipes->err);
}

/* The child's ends are closed either way, ours if it could not be started. */
static bool
start_on_pipes(struct jr_child *child, const struct jr_child_spec *spec, struct jr_err *err)
{
	struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}};
	bool started = false;

	if (open_pipes(&pipes, spec->as_is))
		started = start(child, spec, &pipes, err);
	else
		jr_fail(err, JR_E_TEMP, "could not start %s: pipe: %s", spec->path, strerror(errno));
	jr_fd_close(pipes.in[0]);
	jr_fd_close(pipes.out[1]);
	jr_fd_close(pipes.err[1]);
	if (!started) {
		jr_fd_close(pipes.in[1]);
		jr_fd_close(pipes.out[0]);
		jr_fd_close(pipes.err[0]);
	}
	return started;
}

struct jr_child *
jr_child_start(struct jr_loop *loop, struct jr_watchdog *watchdog, const struct jr_child_spec *spec, jr_child_fn *ended,
    void *ctx, struct jr_err *err)
{
	struct jr_child *child;
	struct rusage own;

	if (!jr_watchdog_is_alive(watchdog)) {
		jr_fail(err, JR_E_TEMP, "could not start %s: the watchdog is gone", spec->path);
		return NULL;
	}
	child = jr_child_new(loop, watchdog, spec);
	child->ended = ended;
	child->ctx = ctx;
	(void)getrusage(RUSAGE_SELF, &own); /* cannot fail */
	child->start_rss_kb = own.ru_maxrss;
	if (start_on_pipes(child, spec, err))
		return child;
	jr_capture_release(&child->output);
	free(child);
	return NULL;
}
