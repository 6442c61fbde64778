/*
 * child: see child.h.
 *
 * The loop drives everything: a pidfd reports the end, pipes carry input and output, and one timer has a meaning for
 * each stage (send KILL again, end the drain, check whether the group is gone). Output goes through relays.
 *
 * What must hold: the parent always closes the child's ends of the pipes right after the start, or it would never see
 * end of file. It watches its own ends, or closes them if the child could not be started. It may signal the session
 * until the leader has been reaped, and after that only the group, until kill() has failed once with ESRCH: then the
 * number may be that of somebody else. A callback calls `ended` last, because `ended` may free the child.
 */
#include "process/child.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "process/group.h"
#include "process/isolate.h"
#include "process/relay.h"
#include "process/spawn.h"
#include "process/sweep.h"
#include "process/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECES_AT_EXIT 8
#define PIECES_AT_END 256 /* more than a pipe can hold */
#define RSS_SLACK_KB 1024 /* the kernel's count of pages is not exact */
#define KILL_AGAIN_MS 100
#define GONE_MS 5000 /* how long to wait for a killed group; a process that waits for a device stays longer */
#define FREE_MS 1000

enum stage {
	RUNNING,  /* the leader lives */
	DRAINING, /* it has ended and is a zombie; its last output is read */
	LEAVING,  /* killed; other members of the session may still be on their way out, and then those of the group */
	GONE      /* `ended` has been called */
};

struct jr_child {
	struct jr_loop *loop;
	struct jr_watchdog *watchdog;
	jr_child_fn *ended;
	void *ctx;
	enum stage stage;
	pid_t pid;   /* also the number of its session and group */
	pid_t group; /* that the watchdog knows: the same, or that of the init of its namespace (isolate.h) */
	struct jr_watch exit_watch;
	struct jr_watch in_watch;
	struct jr_relay relays[2]; /* stdout and stderr, or one for both */
	struct jr_timer timer;
	const char *input;
	size_t input_left;
	struct jr_capture output;
	bool stopped;   /* we have sent it a signal */
	bool by_itself; /* and it had ended before */
	bool killed;
	bool reaped;
	struct jr_swept swept; /* the other groups of its session, if it is stopped */
	int64_t leave_by_ms;
	int64_t pause_ms;
	int status;
	struct rusage usage;
	int64_t start_rss_kb; /* our size at the start: the kernel counts it as the child's, too, until it executes */
};

/* The pipes of a child: [0] is the reading end, [1] the writing end; -1: there is none. */
struct pipes {
	int in[2], out[2], err[2];
};

static void
close_watch(struct jr_watch *watch)
{
	int fd = watch->fd;

	jr_watch_remove(watch);
	jr_fd_close(fd);
}

static void
set_timer(struct jr_child *child, int64_t span_ms)
{
	jr_timer_set(child->loop, &child->timer, jr_clock_after(jr_clock_now_ms(), span_ms));
}

static void
take_output(struct jr_child *child, int pieces)
{
	for (size_t i = 0; i < JR_COUNT(child->relays); i++)
		jr_relay_take(&child->relays[i], pieces);
}

static void
close_output(struct jr_child *child)
{
	for (size_t i = 0; i < JR_COUNT(child->relays); i++)
		jr_relay_close(&child->relays[i]);
}

static bool
is_output_over(const struct jr_child *child)
{
	return jr_relay_is_over(&child->relays[0]) && jr_relay_is_over(&child->relays[1]);
}

static bool
is_held_up(const struct jr_child *child)
{
	return jr_relay_is_held_up(&child->relays[0]) || jr_relay_is_held_up(&child->relays[1]);
}

static void
finish(struct jr_child *child)
{
	struct jr_child_end end = {
	    .status = child->status, .by_itself = child->by_itself, .usage = child->usage, .output = &child->output};

	if (child->usage.ru_maxrss > child->start_rss_kb + RSS_SLACK_KB)
		end.max_rss_kb = child->usage.ru_maxrss;
	child->stage = GONE;
	child->ended(child->ctx, &end);
}

static bool
is_isolated(const struct jr_child *child)
{
	return child->group != child->pid;
}

/*
 * Signal the first group now, and of what was stopped the others with the next look at all processes. With the init of
 * a namespace the kernel kills all that is in it.
 */
static void
signal_all(struct jr_child *child, int signo)
{
	if (is_isolated(child) && signo == SIGKILL) {
		jr_group_signal(child->group, SIGKILL);
		jr_sweep_leave(&child->swept);
		return;
	}
	jr_group_signal(child->pid, signo);
	if (child->stopped)
		jr_sweep_ask(jr_watchdog_sweep(child->watchdog), child->loop, &child->swept, child->pid, signo);
}

static void
reap(struct jr_child *child)
{
	pid_t pid;

	do
		pid = wait4(child->pid, &child->status, 0, &child->usage);
	while (pid < 0 && errno == EINTR);
	child->reaped = true;
	if (pid == child->pid)
		return;
	child->status = 255 << 8; /* somebody else reaped it and its status is lost: report exit status 255 */
	jr_log(JR_ERROR, JR_EVENT_CHILD_LOST, JR_I("pid", child->pid));
}

/* Its leader has ended. From now on its number may be given to somebody else. */
static void
let_go(struct jr_child *child)
{
	jr_sweep_leave(&child->swept);
	jr_watchdog_forget(child->watchdog, child->group);
	reap(child);
}

/* Are the other groups gone? Whom a look has found got KILL; the next one tells. In a namespace there is no look. */
static bool
is_swept(struct jr_child *child)
{
	if (is_isolated(child))
		return true;
	if (child->stopped && child->swept.state == JR_SWEPT_FOUND)
		signal_all(child, SIGKILL);
	return !child->stopped || child->swept.state == JR_SWEPT_CLEAR;
}

/* Is nothing left? Asked when the leader has been reaped. */
static bool
is_over(const struct jr_child *child)
{
	return is_isolated(child) ? jr_isolation_is_over(child->group) : jr_group_is_gone(child->pid);
}

static void
check_gone(struct jr_child *child)
{
	bool late = jr_clock_now_ms() >= child->leave_by_ms, swept = is_swept(child), gone;

	if (!child->reaped && (swept || late))
		let_go(child);
	gone = swept && is_over(child);
	if (!gone && late)
		jr_log(JR_WARN, JR_EVENT_GROUP_NOT_GONE, JR_I("pid", child->pid));
	if (gone || late) {
		finish(child);
		return;
	}
	set_timer(child, child->pause_ms);
	child->pause_ms = child->pause_ms < 50 ? child->pause_ms * 2 : 100;
}

static void
leave(struct jr_child *child)
{
	jr_timer_cancel(&child->timer);
	signal_all(child, SIGKILL);
	take_output(child, PIECES_AT_END);
	close_output(child);
	child->stage = LEAVING;
	child->leave_by_ms = jr_clock_after(jr_clock_now_ms(), GONE_MS);
	child->pause_ms = 1;
	check_gone(child);
}

static void
on_output_over(void *ctx)
{
	struct jr_child *child = ctx;

	if (child->stage == DRAINING && is_output_over(child))
		leave(child);
}

/* A child may close stdin before it has read everything: then the pipe is closed without an error. */
static void
on_input(void *ctx, short revents)
{
	struct jr_child *child = ctx;
	ssize_t n = write(child->in_watch.fd, child->input, child->input_left);

	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		child->input += n;
		child->input_left -= (size_t)n;
	}
	if (n < 0 || child->input_left == 0)
		close_watch(&child->in_watch);
}

static void
on_exit_of_leader(void *ctx, short revents)
{
	struct jr_child *child = ctx;

	(void)revents;
	close_watch(&child->exit_watch);
	close_watch(&child->in_watch);
	child->stage = DRAINING;
	child->by_itself = !child->stopped;
	take_output(child, PIECES_AT_EXIT);
	if (is_output_over(child))
		leave(child);
	else
		set_timer(child, JR_DRAIN_MS); /* another process has the pipe open, or there is much in it */
}

/* If our descriptor takes no more, wait until it has taken all output; but kill the group, so that it adds nothing. */
static void
end_drain(struct jr_child *child)
{
	if (child->killed || !is_held_up(child)) {
		leave(child);
		return;
	}
	signal_all(child, SIGKILL);
	set_timer(child, JR_DRAIN_MS);
}

static void
on_timer(void *ctx)
{
	struct jr_child *child = ctx;

	switch (child->stage) {
	case RUNNING:
		signal_all(child, SIGKILL);
		set_timer(child, KILL_AGAIN_MS);
		break;
	case DRAINING:
		end_drain(child);
		break;
	case LEAVING:
		check_gone(child);
		break;
	case GONE:
		break;
	}
}

static void
init_relays(struct jr_child *child, const struct jr_child_spec *spec)
{
	enum jr_relay_kind echo = spec->raw ? JR_RELAY_RAW : JR_RELAY_COPY;
	enum jr_relay_kind kind = spec->as_is && !spec->quiet ? JR_RELAY_WHOLE : spec->echo ? echo : JR_RELAY_KEEP;

	jr_relay_init(&child->relays[0], &child->output, kind, spec->as_is ? STDOUT_FILENO : STDERR_FILENO,
	    on_output_over, child);
	jr_relay_init(&child->relays[1], &child->output, kind, STDERR_FILENO, on_output_over, child);
}

/* The child is not started yet. */
static struct jr_child *
new_child(struct jr_loop *loop, struct jr_watchdog *watchdog, const struct jr_child_spec *spec)
{
	struct jr_child *child = jr_xcalloc(1, sizeof(*child));

	child->loop = loop;
	child->watchdog = watchdog;
	child->pid = -1;
	child->group = -1;
	child->input = spec->input;
	child->input_left = spec->input_len;
	jr_watch_init(&child->exit_watch, on_exit_of_leader, child);
	jr_watch_init(&child->in_watch, on_input, child);
	jr_timer_init(&child->timer, on_timer, child);
	jr_capture_init(&child->output, JR_OUTPUT_HEAD, JR_OUTPUT_TAIL);
	init_relays(child, spec);
	return child;
}

/* The child has been reaped; a process that waits for a device stays longer. */
static void
wait_for_namespace(const struct jr_child *child)
{
	int64_t end_ms = jr_clock_after(jr_clock_now_ms(), FREE_MS);

	while (!jr_isolation_is_over(child->group) && jr_clock_now_ms() < end_ms)
		(void)poll(NULL, 0, 1);
}

/* Without the loop: kill the group and reap its leader. */
static void
abandon(struct jr_child *child)
{
	(void)kill(-child->group, SIGKILL);
	let_go(child);
	if (is_isolated(child))
		wait_for_namespace(child);
}

/* Watch all our ends, or none on failure. */
static bool
watch_ends(struct jr_child *child, struct pipes *pipes)
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
	jr_watch_set(child->loop, &child->in_watch, pipes->in[1], POLLOUT); /* no harm if there is none */
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
	    .isolation = spec->isolation,
	    .as_is = spec->as_is};
	struct jr_spawned spawned;

	if (!jr_spawn(child->watchdog, &spawn, &spawned, err))
		return false;
	child->pid = (pid_t)spawned.pid;
	child->group = (pid_t)spawned.group;
	if (watch_ends(child, pipes))
		return true;
	jr_fail(err, JR_E_TEMP, "could not watch %s: %s", spec->path, strerror(errno));
	abandon(child);
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

/* An input that fits into an empty pipe is written before the start, and stdin needs no watch. */
static void
write_ahead(struct jr_child *child, struct pipes *pipes)
{
	bool fits = pipes->in[1] >= 0 && child->input_left <= PIPE_BUF;

	if (!fits || write(pipes->in[1], child->input, child->input_left) != (ssize_t)child->input_left)
		return;
	child->input_left = 0;
	jr_fd_close(pipes->in[1]);
	pipes->in[1] = -1;
}

/* Closes the child's ends in any case, and ours if it could not be started. */
static bool
start_on_pipes(struct jr_child *child, const struct jr_child_spec *spec, struct jr_err *err)
{
	struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}};
	bool started = false;

	if (open_pipes(&pipes, spec->as_is)) {
		write_ahead(child, &pipes);
		started = start(child, spec, &pipes, err);
	} else
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
	child = new_child(loop, watchdog, spec);
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

void
jr_child_signal(struct jr_child *child, int signo)
{
	if (child->stage != RUNNING && child->stage != DRAINING)
		return; /* the group has got KILL already */
	child->stopped = true;
	signal_all(child, signo);
	if (signo != SIGKILL)
		return;
	child->killed = true;
	if (child->stage == RUNNING)
		set_timer(child, KILL_AGAIN_MS);
	else if (is_held_up(child))
		set_timer(child, 0);
}

void
jr_child_deadline(struct jr_child *child, int64_t deadline_ms)
{
	if (child->stage == RUNNING || child->stage == DRAINING)
		jr_watchdog_move(child->watchdog, child->group, deadline_ms);
}

int64_t
jr_child_pid(const struct jr_child *child)
{
	return child->pid;
}

const struct jr_capture *
jr_child_output(const struct jr_child *child)
{
	return &child->output;
}

/* The leader is not reaped. If it does not end, the watchdog knows it still and kills it when the runner is gone. */
static void
end_now(struct jr_child *child)
{
	struct pollfd fd = {.fd = child->exit_watch.fd, .events = POLLIN};
	int64_t end_ms = jr_clock_after(jr_clock_now_ms(), FREE_MS);
	bool ended = child->stage != RUNNING;

	jr_session_signal(child->group, SIGKILL);
	while (!ended && jr_clock_now_ms() < end_ms)
		ended = poll(&fd, 1, 100) > 0;
	if (ended)
		abandon(child);
	else
		jr_log(JR_WARN, JR_EVENT_GROUP_NOT_GONE, JR_I("pid", child->pid));
}

void
jr_child_free(struct jr_child *child)
{
	if (child == NULL)
		return;
	if (!child->reaped)
		end_now(child);
	else if (child->stage == LEAVING && is_isolated(child))
		wait_for_namespace(child);
	jr_sweep_leave(&child->swept);
	close_watch(&child->exit_watch);
	close_watch(&child->in_watch);
	close_output(child);
	jr_timer_cancel(&child->timer);
	jr_capture_release(&child->output);
	free(child);
}
