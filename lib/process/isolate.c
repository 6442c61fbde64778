/*
 * isolate: see isolate.h.
 *
 * The numbers of a user namespace are written into files of a process in it. A process that was forked from us cannot
 * be that one: those files belong to root, since nobody may look into our memory (PR_SET_DUMPABLE), and to allow it for
 * a moment would open the copy of our secrets. So a shell is executed in the namespace, which reads commands from an
 * empty pipe until we have written the numbers and opened the namespace. Later starts enter it by that descriptor.
 *
 * The init is a copy of the runner that executes nothing: it starts at once, and neither a file nor the environment can
 * change what it does. The copy may not be looked into, either.
 */
#include "process/isolate.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL "/bin/sh"
#define PROC_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

struct jr_isolation {
	int user_fd;   /* the user namespace; -1: none is needed, or it is not prepared */
	bool prepared; /* this host allows it, and there is all that a start needs */
};

/* What a child of jr_isolation_open could not do. */
struct trouble {
	const char *what;
	int error;
};

const char *
jr_isolation_advice(void)
{
	return geteuid() == 0 ? "give jobrun the capability CAP_SYS_ADMIN, or remove \"isolate\""
			      : "let this account make user namespaces (sysctl user.max_user_namespaces and the like), "
				"start jobrun as root, or remove \"isolate\"";
}

/* May it succeed later? ENOSPC is not here: a limit of 0 says the same as one that is reached. */
static bool
is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
}

static bool
refuse(const struct trouble *trouble, struct jr_err *err)
{
	if (is_shortage(trouble->error))
		return jr_fail(err, JR_E_TEMP, "isolate: this host is short of something for the moment: %s: %s",
		    trouble->what, strerror(trouble->error));
	return jr_fail(err, JR_E_CONFIG,
	    "isolate: this host does not allow %s: %s; %s; see ISOLATION in jobrun-handlers(7)", trouble->what,
	    strerror(trouble->error), jr_isolation_advice());
}

/* --- in children --- */

bool
jr_isolation_enter(const struct jr_isolation *isolation)
{
	return (isolation->user_fd < 0 || setns(isolation->user_fd, CLONE_NEWUSER) == 0) &&
	       unshare(CLONE_NEWPID | CLONE_NEWNS) == 0;
}

int64_t
jr_isolation_fork(volatile pid_t *number)
{
	unsigned long flags = CLONE_PARENT | SIGCHLD | (number != NULL ? CLONE_PARENT_SETTID : 0);

#ifdef __s390__
	return (pid_t)syscall(SYS_clone, 0UL, flags, number, 0UL, 0UL);
#else
	return (pid_t)syscall(SYS_clone, flags, 0UL, number, 0UL, 0UL);
#endif
}

/* The old mount of /proc becomes private first, or the new one would appear on it in all other namespaces. */
bool
jr_isolation_mount_proc(void)
{
	return mount(NULL, "/proc", NULL, MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", PROC_FLAGS, NULL) == 0;
}

bool
jr_isolation_follow(int runner_fd)
{
	struct pollfd end = {.fd = runner_fd, .events = POLLIN};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return false;
	errno = ESRCH;
	return poll(&end, 1, 0) == 0;
}

/* All signals are blocked, and the kernel reaps for a process that ignores SIGCHLD. */
void
jr_isolation_init(int runner_fd)
{
	(void)signal(SIGCHLD, SIG_IGN);
	(void)prctl(PR_SET_NAME, "jobrun-init");
	if (!jr_isolation_follow(runner_fd) || chdir("/") < 0)
		_exit(1);
	jr_fd_close_range(0, UINT_MAX);
	for (;;)
		(void)pause();
}

bool
jr_isolation_is_over(int64_t group)
{
	pid_t pid;

	do
		pid = waitpid(-(pid_t)group, NULL, WNOHANG);
	while (pid > 0 || (pid < 0 && errno == EINTR));
	return pid < 0;
}

/* --- does this host allow it? --- */

/* In a child: say what could not be done, with what errno says, and exit. */
static JR_NORETURN void
give_up(int report_fd, const char *what)
{
	struct trouble trouble = {.what = what, .error = errno};
	ssize_t n = write(report_fd, &trouble, sizeof(trouble));

	(void)n; /* fails only if the parent is gone */
	_exit(1);
}

/* true: the child has reported trouble. Otherwise the pipe ends when it has executed or exited. */
static bool
read_trouble(int fd, struct trouble *trouble)
{
	ssize_t n;

	do
		n = read(fd, trouble, sizeof(*trouble));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*trouble);
}

/* Fork with every signal blocked: a signal handler of ours must not run in the child. */
static pid_t
fork_quietly(void)
{
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid != 0)
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static void
wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* In a child: live in a new user namespace until the pipe ends. */
static JR_NORETURN void
hold_user_namespace(int hold_fd, int report_fd)
{
	char name[] = "sh";
	char *argv[] = {name, NULL}, *envp[] = {NULL};

	if (unshare(CLONE_NEWUSER) < 0)
		give_up(report_fd, "a user namespace");
	if (dup2(hold_fd, STDIN_FILENO) >= 0)
		(void)execve(SHELL, argv, envp);
	give_up(report_fd, "a user namespace (" SHELL ")");
}

static bool
write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	bool ok;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* Are the numbers in /proc ours? After unshare(1) without --mount-proc we would write to somebody else's files. */
static bool
is_our_proc(void)
{
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	errno = ENOENT;
	return strtol(self, NULL, 10) == getpid();
}

/* Give our user and group their own numbers in the namespace of the child, and open it. -1: errno says why. */
static int
open_user_namespace(pid_t pid)
{
	char users[64], groups[64], path[64];

	(void)snprintf(users, sizeof(users), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
	(void)snprintf(groups, sizeof(groups), "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (!is_our_proc() || !write_proc(pid, "setgroups", "deny") || !write_proc(pid, "uid_map", users) ||
	    !write_proc(pid, "gid_map", groups))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The pipes are open. */
static bool
make_user_namespace(struct jr_isolation *isolation, int hold[2], int report[2], struct trouble *trouble)
{
	pid_t pid = fork_quietly();

	*trouble = (struct trouble){.what = "a user namespace", .error = errno};
	if (pid == 0)
		hold_user_namespace(hold[0], report[1]);
	jr_fd_close(report[1]);
	report[1] = -1;
	if (pid < 0)
		return false;
	if (!read_trouble(report[0], trouble)) {
		isolation->user_fd = open_user_namespace(pid);
		*trouble = (struct trouble){.what = "to number the accounts of a user namespace", .error = errno};
	}
	jr_fd_close(hold[1]);
	hold[1] = -1;
	wait_for(pid);
	return isolation->user_fd >= 0;
}

/* In a child: make the namespaces as for a handler. */
static JR_NORETURN void
try_out(const struct jr_isolation *isolation, int report_fd)
{
	pid_t pid;

	if (!jr_isolation_enter(isolation))
		give_up(report_fd, "a PID namespace");
	pid = fork();
	if (pid < 0)
		give_up(report_fd, "a process in a PID namespace");
	if (pid > 0) {
		wait_for(pid);
		_exit(0);
	}
	if (!jr_isolation_mount_proc())
		give_up(report_fd, "a /proc for a PID namespace");
	_exit(0);
}

static bool
is_allowed(const struct jr_isolation *isolation, int report[2], struct trouble *trouble)
{
	pid_t pid = fork_quietly();
	bool ok;

	*trouble = (struct trouble){.what = "a process more", .error = errno};
	if (pid == 0)
		try_out(isolation, report[1]);
	jr_fd_close(report[1]);
	report[1] = -1;
	if (pid < 0)
		return false;
	ok = !read_trouble(report[0], trouble);
	wait_for(pid);
	return ok;
}

static void
close_pipe(int ends[2])
{
	jr_fd_close(ends[0]);
	jr_fd_close(ends[1]);
}

static bool
open_user(struct jr_isolation *isolation, struct trouble *trouble)
{
	int hold[2] = {-1, -1}, report[2] = {-1, -1};
	bool ok = false;

	if (jr_fd_pipe(hold) && jr_fd_pipe(report))
		ok = make_user_namespace(isolation, hold, report, trouble);
	else
		*trouble = (struct trouble){.what = "a pipe", .error = errno};
	close_pipe(hold);
	close_pipe(report);
	return ok;
}

static bool
check(const struct jr_isolation *isolation, struct trouble *trouble)
{
	int report[2];
	bool ok;

	if (!jr_fd_pipe(report)) {
		*trouble = (struct trouble){.what = "a pipe", .error = errno};
		return false;
	}
	ok = is_allowed(isolation, report, trouble);
	close_pipe(report);
	return ok;
}

bool
jr_isolation_prepare(struct jr_isolation *isolation, struct jr_err *err)
{
	struct trouble trouble;

	if (isolation->prepared)
		return true;
	isolation->prepared = (geteuid() == 0 || open_user(isolation, &trouble)) && check(isolation, &trouble);
	if (isolation->prepared)
		return true;
	jr_fd_close(isolation->user_fd);
	isolation->user_fd = -1;
	return refuse(&trouble, err);
}

struct jr_isolation *
jr_isolation_open(struct jr_err *err)
{
	struct jr_isolation *isolation = jr_xcalloc(1, sizeof(*isolation));

	isolation->user_fd = -1;
	if (jr_isolation_prepare(isolation, err) || err->code == JR_E_TEMP)
		return isolation;
	jr_isolation_free(isolation);
	return NULL;
}

void
jr_isolation_free(struct jr_isolation *isolation)
{
	if (isolation != NULL)
		jr_fd_close(isolation->user_fd);
	free(isolation);
}
