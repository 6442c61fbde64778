/*
 * watchdog: see watchdog.h.
 *
 * The pipe carries records while the runner lives and ends when the runner is dead. If another process that the runner
 * forked still has the pipe open, the pidfd of the runner reports its death. A pipe keeps the order, so a group that a
 * child announced at the last moment is read before the end of file.
 *
 * What must hold: a group on the list never has the number of another group. So the runner lets the watchdog forget a
 * group before it reaps the leader, and if it cannot write to the watchdog it kills it at once, before the watchdog
 * acts on an outdated list. And the watchdog never acts on a deadline that the runner has moved: it acts only when it
 * has read everything in the pipe.
 */
#include "process/watchdog.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "process/group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX ((size_t)2 * JR_PERMITS_MAX)
#define RECORDS_READ 512 /* in one piece */
#define REST_MS 3
#define END_MS 5000 /* how long a watchdog may take to end after its pipe was closed; it may be stopped */

enum verb {
	ANNOUNCE,
	MOVE,
	FORGET,
	GUARD /* the deadline of the runner itself */
};

struct record {
	int64_t verb;
	int64_t group;
	int64_t deadline_ms;
};

_Static_assert(sizeof(struct record) <= 512, "a record is written in one piece (POSIX: PIPE_BUF is at least 512)");

struct jr_watchdog {
	int fd; /* the writing end */
	int pidfd;
	pid_t pid;
	bool failed; /* a write failed and the watchdog was killed */
	sigset_t signals;
	struct jr_sweep sweep;
};

/* State inside the watchdog process. */
struct watched {
	int64_t group;
	int64_t deadline_ms;
};

struct list {
	int pipe_fd;
	int timer_fd;
	int runner_fd; /* readable when the runner is dead */
	int64_t runner_deadline_ms;
	int64_t armed_ms; /* what timer_fd is set to, JR_NEVER: nothing; never later than the first deadline */
	size_t count, due_count;
	struct watched groups[GROUPS_MAX];
	struct jr_session due[GROUPS_MAX]; /* killed now; the other groups of their sessions are still to be killed */
};

/* At most GROUPS_MAX before the next kill_others. */
static void
kill_group(struct list *list, int64_t group)
{
	if (group <= 1 || group > INT_MAX) /* kill(-1) would hit every process */
		return;
	jr_group_signal(group, SIGKILL);
	list->due[list->due_count++] = (struct jr_session){.number = group, .signo = SIGKILL};
}

/* One look for all of them, since it takes long. A second one sees what was forked during the first. */
static void
kill_others(struct list *list)
{
	for (int looks = 0; looks < 2; looks++)
		jr_sessions_signal_others(list->due, list->due_count);
	list->due_count = 0;
}

static struct watched *
find(struct list *list, int64_t group)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->groups[i].group == group)
			return &list->groups[i];
	}
	return NULL;
}

static void
take(struct list *list, const struct record *record)
{
	struct watched *watched = find(list, record->group);

	if (record->verb == GUARD) {
		list->runner_deadline_ms = record->deadline_ms;
	} else if (record->verb == FORGET) {
		if (watched != NULL)
			*watched = list->groups[--list->count];
	} else if (watched != NULL) {
		watched->deadline_ms = record->deadline_ms;
	} else if (record->verb == ANNOUNCE && list->count < GROUPS_MAX) {
		list->groups[list->count++] = (struct watched){record->group, record->deadline_ms};
	} else if (record->verb == ANNOUNCE) {
		kill_group(list, record->group); /* the list is full, so this group must not run */
		kill_others(list);
	}
}

/* A group that was killed stays on the list: its leader has not been reaped, so the number still belongs to it. */
static void
kill_overdue(struct list *list, int64_t now_ms)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->groups[i].deadline_ms > now_ms)
			continue;
		kill_group(list, list->groups[i].group);
		list->groups[i].deadline_ms = JR_NEVER;
	}
	kill_others(list);
	if (list->runner_deadline_ms > now_ms)
		return;
	jr_fd_kill_process(list->runner_fd); /* its death ends all groups, too */
	list->runner_deadline_ms = JR_NEVER;
}

/* Each start and end of a handler leads here, and most change nothing: to set a timer costs more than a vain look. */
static void
arm_timer(struct list *list)
{
	struct itimerspec spec = {0};
	int64_t at_ms = list->runner_deadline_ms;

	for (size_t i = 0; i < list->count; i++) {
		if (list->groups[i].deadline_ms < at_ms)
			at_ms = list->groups[i].deadline_ms;
	}
	if (at_ms >= list->armed_ms)
		return;
	list->armed_ms = at_ms;
	at_ms = at_ms > 0 ? at_ms : 1; /* 0 would switch it off */
	spec.it_value.tv_sec = (time_t)(at_ms / 1000);
	spec.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
	(void)timerfd_settime(list->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void
clear_timer(struct list *list)
{
	uint64_t expirations;
	ssize_t n = read(list->timer_fd, &expirations, sizeof(expirations));

	(void)n; /* it is readable */
	list->armed_ms = JR_NEVER;
}

/* false: the pipe has ended. */
static bool
read_records(struct list *list)
{
	struct record records[RECORDS_READ];
	ssize_t n = read(list->pipe_fd, records, sizeof(records));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	for (size_t i = 0; i < (size_t)n / sizeof(records[0]); i++)
		take(list, &records[i]);
	return true;
}

/*
 * Two records come with each handler, and to wake a process costs more than to take a record. So after a look it takes
 * no others for a moment. The pipe holds more than a runner can write in it. The end of the pipe or of the runner, and
 * a deadline, are seen at once.
 */
static void
rest(struct pollfd fds[3])
{
	fds[0].events = 0; /* its end is reported all the same */
	(void)poll(fds, 3, REST_MS);
}

static JR_NORETURN void
keep(struct list *list)
{
	bool ended = false;

	/*
	 * The death of the runner counts only when the pipe is empty: a child announces itself before it checks whether
	 * the runner lives. Deadlines, too, count only when the pipe is empty, and are compared with a time read before
	 * poll found it empty: if the watchdog is stopped right after poll, the runner may have moved deadlines since.
	 */
	while (!ended) {
		int64_t now_ms = jr_clock_now_ms();
		struct pollfd fds[3] = {{.fd = list->pipe_fd, .events = POLLIN},
		    {.fd = list->timer_fd, .events = POLLIN}, {.fd = list->runner_fd, .events = POLLIN}};

		arm_timer(list);
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[0].revents != 0) {
			ended = !read_records(list);
			if (!ended)
				rest(fds);
		} else {
			ended = fds[2].revents != 0;
			kill_overdue(list, now_ms);
			if (fds[1].revents != 0)
				clear_timer(list);
		}
	}
	for (size_t i = 0; i < list->count; i++)
		kill_group(list, list->groups[i].group);
	kill_others(list);
	_exit(0);
}

/* Move *fd to the number `to`. */
static void
place(int *fd, int to)
{
	if (dup2(*fd, to) < 0)
		_exit(1);
	*fd = to;
}

/* Drop everything of the runner: terminal, signals, descriptors (its locks and sockets must not outlive it). */
static void
leave_runner(struct list *list)
{
	int null_fd;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "jobrun-watchdog");
	for (int signo = 1; signo < NSIG; signo++)
		(void)signal(signo, SIG_IGN);
	if (chdir("/") < 0)
		_exit(1);
	place(&list->pipe_fd, STDERR_FILENO + 1);
	place(&list->timer_fd, STDERR_FILENO + 2);
	place(&list->runner_fd, STDERR_FILENO + 3);
	null_fd = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= STDERR_FILENO && null_fd >= 0; fd++)
		(void)dup2(null_fd, fd);
	jr_fd_close_range(STDERR_FILENO + 4, UINT_MAX);
}

/* Duplicate fd above the numbers that leave_runner uses, and close the original. */
static int
raised(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 4);

	jr_fd_close(fd);
	return copy;
}

/* Fork with every signal blocked; the watchdog keeps them blocked. */
static pid_t
fork_watchdog(struct list *list)
{
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0) {
		leave_runner(list);
		keep(list);
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Start the watchdog process, which reads from pipe_fd. Closes pipe_fd here. */
static bool
start(struct jr_watchdog *watchdog, int pipe_fd)
{
	struct list *list = jr_xcalloc(1, sizeof(*list));
	int error;

	list->runner_deadline_ms = JR_NEVER;
	list->armed_ms = JR_NEVER;
	list->pipe_fd = raised(pipe_fd);
	list->timer_fd = raised(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
	list->runner_fd = raised(jr_fd_of_process(getpid()));
	if (list->pipe_fd >= 0 && list->timer_fd >= 0 && list->runner_fd >= 0)
		watchdog->pid = fork_watchdog(list);
	if (watchdog->pid > 0)
		watchdog->pidfd = jr_fd_of_process(watchdog->pid);
	error = errno;
	jr_fd_close(list->pipe_fd);
	jr_fd_close(list->timer_fd);
	jr_fd_close(list->runner_fd);
	free(list);
	errno = error;
	return watchdog->pidfd >= 0 && jr_fd_set_nonblocking(watchdog->fd);
}

static void
find_signals(sigset_t *signals)
{
	struct sigaction action;

	(void)sigemptyset(signals);
	for (int signo = 1; signo < NSIG; signo++) {
		if (sigaction(signo, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			(void)sigaddset(signals, signo);
	}
}

/* Without pidfds there is none, today or later: the kernel is too old, or a filter of a container keeps them back. */
static bool
fail_start(struct jr_err *err)
{
	int error = errno;

	if (error == ENOSYS || error == EPERM)
		return jr_fail(err, JR_E_CONFIG,
		    "cannot start the watchdog: pidfd_open: %s: jobrun needs Linux 5.4 or newer, and a container whose seccomp filter allows pidfd_open(2)",
		    strerror(error));
	return jr_fail(err, JR_E_TEMP, "could not start the watchdog: %s", strerror(error));
}

struct jr_watchdog *
jr_watchdog_start(struct jr_err *err)
{
	struct jr_watchdog *watchdog;
	int ends[2];

	/* Cron or a shell may have left SIGCHLD ignored: the kernel would then reap the handlers. */
	(void)signal(SIGCHLD, SIG_DFL);
	jr_signals_ignore();
	if (!jr_fd_pipe(ends)) {
		fail_start(err);
		return NULL;
	}
	watchdog = jr_xcalloc(1, sizeof(*watchdog));
	watchdog->fd = ends[1];
	watchdog->pid = -1;
	watchdog->pidfd = -1;
	find_signals(&watchdog->signals);
	if (!start(watchdog, ends[0])) {
		fail_start(err);
		jr_watchdog_free(watchdog);
		return NULL;
	}
	return watchdog;
}

static bool
has_ended(const struct jr_watchdog *watchdog, int wait_ms)
{
	struct pollfd fd = {.fd = watchdog->pidfd, .events = POLLIN};

	return watchdog->pidfd < 0 || poll(&fd, 1, wait_ms) > 0;
}

void
jr_watchdog_free(struct jr_watchdog *watchdog)
{
	if (watchdog == NULL)
		return;
	(void)close(watchdog->fd);
	if (watchdog->pid > 0) {
		int64_t end_ms = jr_clock_after(jr_clock_now_ms(), END_MS);
		bool ended;

		do
			ended = has_ended(watchdog, 100);
		while (!ended && jr_clock_now_ms() < end_ms);
		if (!ended)
			(void)kill(watchdog->pid, SIGKILL);
		while (waitpid(watchdog->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (watchdog->pidfd >= 0)
		(void)close(watchdog->pidfd);
	free(watchdog);
}

const sigset_t *
jr_watchdog_signals(const struct jr_watchdog *watchdog)
{
	return &watchdog->signals;
}

struct jr_sweep *
jr_watchdog_sweep(struct jr_watchdog *watchdog)
{
	return &watchdog->sweep;
}

int
jr_watchdog_fd(const struct jr_watchdog *watchdog)
{
	return watchdog->fd;
}

static bool
write_record(int fd, enum verb verb, int64_t group, int64_t deadline_ms)
{
	struct record record = {.verb = verb, .group = group, .deadline_ms = deadline_ms};
	ssize_t n;

	do
		n = write(fd, &record, sizeof(record));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(record);
}

bool
jr_watchdog_announce(int fd, int64_t group, int64_t deadline_ms)
{
	return write_record(fd, ANNOUNCE, group, deadline_ms);
}

/* The watchdog is dead, or stopped with a full pipe. It must not act on its outdated list, so it is killed. */
static void
give_up(struct jr_watchdog *watchdog)
{
	const char *reason = strerror(errno);

	(void)kill(watchdog->pid, SIGKILL); /* it is not reaped yet, so the number still belongs to it */
	watchdog->failed = true;
	jr_log(JR_ERROR, JR_EVENT_WATCHDOG_LOST, JR_I("pid", watchdog->pid), JR_S("reason", reason));
}

static void
tell(struct jr_watchdog *watchdog, enum verb verb, int64_t group, int64_t deadline_ms)
{
	if (!watchdog->failed && !write_record(watchdog->fd, verb, group, deadline_ms))
		give_up(watchdog);
}

void
jr_watchdog_move(struct jr_watchdog *watchdog, int64_t group, int64_t deadline_ms)
{
	tell(watchdog, MOVE, group, deadline_ms);
}

void
jr_watchdog_forget(struct jr_watchdog *watchdog, int64_t group)
{
	tell(watchdog, FORGET, group, 0);
}

void
jr_watchdog_guard(struct jr_watchdog *watchdog, int64_t deadline_ms)
{
	tell(watchdog, GUARD, 0, deadline_ms);
}

bool
jr_watchdog_is_alive(const struct jr_watchdog *watchdog)
{
	return !watchdog->failed && !has_ended(watchdog, 0);
}
