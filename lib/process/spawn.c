/*
 * spawn: see spawn.h.
 *
 * vfork is used because the fork of a runner with large buffers takes longer than many handlers. All signals are
 * blocked until the child has default dispositions: a signal handler of the parent must not run in the shared memory.
 * What must hold: the watchdog knows the group before the handler's program runs in it, and only 0 to 2 are open in
 * that program (unless as_is). And until the process that leads the announced group has been reaped, nothing else can
 * have its number, so it is reaped last: the maker of a namespace only after its init is there or has failed.
 */
#include "process/spawn.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/signals.h"
#include "process/isolate.h"
#include "process/rlimits.h"
#include "process/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 2000 /* deadline for a child of another account to execute */
#define SHELL "/bin/sh"
#define REPORT_FD 3 /* in the child, until it executes */

enum step {
	STEP_SESSION,
	STEP_WATCHDOG,
	STEP_NAMESPACE,
	STEP_PROC,
	STEP_NICE,
	STEP_ACCOUNT,
	STEP_CWD,
	STEP_PARENT,
	STEP_FDS,
	STEP_LIMITS, /* plus the enum jr_limit */
	STEP_EXEC = STEP_LIMITS + JR_LIMIT_COUNT
};

struct report {
	enum step step;
	int error;
};

/* What the child needs. */
struct plan {
	const struct jr_spawn *spawn;
	const sigset_t *signals; /* those that are ignored or caught */
	int watchdog_fd;
	int report_fd;
	pid_t parent;
	int runner_fd; /* set by a maker: a pidfd of the parent, since getppid does not see it from a namespace */
	volatile pid_t isolated; /* written for the maker, which shares our memory: the child proper; 0: none yet */
	char **script_argv; /* of the shell that runs a file without an interpreter; NULL: the file must have one */
};

/* In the child: report the failed step and exit. */
static JR_NORETURN void
give_up(int report_fd, enum step step)
{
	struct report report = {.step = step, .error = errno};
	ssize_t n = write(report_fd, &report, sizeof(report));

	(void)n; /* fails only if the parent is gone */
	_exit(127);
}

/* In the child: let the kernel kill it when the runner dies. false: the runner has died before, or it failed. */
static bool
follow_parent(const struct plan *plan)
{
	if (plan->spawn->isolation != NULL)
		return jr_isolation_follow(plan->runner_fd);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return false;
	errno = ESRCH;
	return getppid() == plan->parent;
}

/*
 * In the child: set 0 to 2 and REPORT_FD and close all others. The sources are above 2, so no dup2 overwrites one that
 * is still needed.
 */
static bool
set_descriptors(const struct plan *plan)
{
	const struct jr_spawn *spawn = plan->spawn;

	if (dup2(spawn->in_fd, STDIN_FILENO) < 0 || dup2(spawn->out_fd, STDOUT_FILENO) < 0 ||
	    dup2(spawn->err_fd, STDERR_FILENO) < 0)
		return false;
	if (spawn->as_is) /* our own descriptors are close-on-exec */
		return true;
	if (plan->report_fd != REPORT_FD && dup3(plan->report_fd, REPORT_FD, O_CLOEXEC) < 0)
		return false;
	jr_fd_close_range(REPORT_FD + 1, UINT_MAX);
	return true;
}

/* Was the signal ignored when jobrun was started? Of those that jobrun itself ignores nobody knows. */
static bool
is_ignored(int signo)
{
	struct sigaction action;

	return !jr_signals_has(signo) && sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* In the child: execve resets signal handlers, but keeps ignored signals and the mask. */
static void
reset_signals(const sigset_t *signals, bool as_is)
{
	struct sigaction action;
	sigset_t none;

	memset(&action, 0, sizeof(action));
	action.sa_handler = SIG_DFL;
	for (int signo = 1; signo < NSIG; signo++) {
		if (sigismember(signals, signo) == 1 && (!as_is || !is_ignored(signo)))
			(void)sigaction(signo, &action, NULL);
	}
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child: set the nice value and change the account. */
static void
become(int report_fd, const struct jr_limits *limits)
{
	if (!jr_limits_set_nice(limits))
		give_up(report_fd, STEP_NICE);
	jr_limits_raise(limits);
	if (!jr_limits_become(limits))
		give_up(report_fd, STEP_ACCOUNT);
}

/* In the child, as the last step: the steps before it need descriptors and stack. */
static void
set_limits(int report_fd, const struct jr_limits *limits)
{
	for (int which = 0; which < JR_LIMIT_COUNT; which++) {
		if (!jr_limits_set(limits, (enum jr_limit)which))
			give_up(report_fd, (enum step)(STEP_LIMITS + which));
	}
}

/* In the child: execute as execvp does. Returns on failure. */
static void
execute(const struct plan *plan)
{
	const struct jr_spawn *spawn = plan->spawn;

	(void)execve(spawn->path, spawn->argv, spawn->envp);
	if (errno != ENOEXEC || plan->script_argv == NULL)
		return;
	(void)execve(SHELL, plan->script_argv, spawn->envp);
	errno = ENOEXEC;
}

/* In the child, or in the maker of its namespace. */
static void
lead_group(const struct plan *plan)
{
	if (setsid() < 0)
		give_up(plan->report_fd, STEP_SESSION);
	if (!jr_watchdog_announce(plan->watchdog_fd, getpid(), plan->spawn->deadline_ms))
		give_up(plan->report_fd, STEP_WATCHDOG);
}

/* In a child that is in the namespace. */
static void
settle_in(const struct plan *plan)
{
	if (setsid() < 0)
		give_up(plan->report_fd, STEP_SESSION);
	if (!jr_isolation_mount_proc())
		give_up(plan->report_fd, STEP_PROC);
}

static JR_NORETURN void
run_child(const struct plan *plan)
{
	const struct jr_spawn *spawn = plan->spawn;
	int report_fd = spawn->as_is ? plan->report_fd : REPORT_FD;

	if (spawn->isolation == NULL)
		lead_group(plan);
	else
		settle_in(plan);
	if (spawn->limits != NULL)
		become(plan->report_fd, spawn->limits);
	if (spawn->cwd != NULL && chdir(spawn->cwd) < 0)
		give_up(plan->report_fd, STEP_CWD);
	if (!follow_parent(plan))
		give_up(plan->report_fd, STEP_PARENT);
	if (!set_descriptors(plan))
		give_up(plan->report_fd, STEP_FDS);
	reset_signals(plan->signals, spawn->as_is);
	if (spawn->limits != NULL)
		set_limits(report_fd, spawn->limits);
	execute(plan);
	give_up(report_fd, STEP_EXEC);
}

/* The maker of a namespace. Its pidfd is of the runner only if that is still its parent. */
static JR_NORETURN void
run_maker(struct plan *plan)
{
	int64_t init, child;

	lead_group(plan);
	plan->runner_fd = jr_fd_of_process(plan->parent);
	if (plan->runner_fd < 0)
		give_up(plan->report_fd, STEP_PARENT);
	errno = ESRCH;
	if (getppid() != plan->parent)
		give_up(plan->report_fd, STEP_PARENT);
	if (!jr_isolation_enter(plan->spawn->isolation))
		give_up(plan->report_fd, STEP_NAMESPACE);
	init = jr_isolation_fork(NULL);
	if (init == 0)
		jr_isolation_init(plan->runner_fd);
	child = init > 0 ? jr_isolation_fork(&plan->isolated) : -1;
	if (child == 0)
		run_child(plan);
	if (child < 0)
		give_up(plan->report_fd, STEP_NAMESPACE);
	_exit(0);
}

/* May the start succeed later? Not if the memory limit is too small for the program. */
static bool
is_passing(const struct jr_spawn *spawn, const struct report *report)
{
	int error = report->error;

	if (error == ENOMEM && spawn->limits != NULL && spawn->limits->memory >= 0)
		return false;
	return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE || error == ETXTBSY ||
	       error == ETIMEDOUT || (report->step == STEP_NAMESPACE && error == ENOSPC);
}

/* An explanation where the errno misleads: "No such file" although the file exists. */
static const char *
hint(const struct jr_spawn *spawn, const struct report *report)
{
	if (report->step != STEP_EXEC)
		return "";
	if (report->error == ENOENT && access(spawn->path, F_OK) == 0)
		return " (its interpreter, named in its first line, does not exist)";
	if (report->error == ENOEXEC)
		return " (a script must begin with a line such as #!/bin/sh)";
	if (report->error == EAGAIN && spawn->limits != NULL && spawn->limits->processes >= 0)
		return " (its account has more processes than the handler's limit allows)";
	return "";
}

static bool
fail(const struct jr_spawn *spawn, const struct report *report, struct jr_err *err)
{
	static const char *const words[] = {
	    [STEP_SESSION] = "new session: ",
	    [STEP_WATCHDOG] = "telling the watchdog: ",
	    [STEP_NAMESPACE] = "isolate: its PID namespace: ",
	    [STEP_PROC] = "isolate: its /proc: ",
	    [STEP_NICE] = "set nice value: ",
	    [STEP_ACCOUNT] = "change to its account: ",
	    [STEP_CWD] = "changing to its directory: ",
	    [STEP_PARENT] = "following the runner: ",
	    [STEP_FDS] = "its descriptors: ",
	    [STEP_LIMITS + JR_LIMIT_CPU] = "set cpu limit: ",
	    [STEP_LIMITS + JR_LIMIT_FILES] = "set files limit: ",
	    [STEP_LIMITS + JR_LIMIT_PROCESSES] = "set processes limit: ",
	    [STEP_LIMITS + JR_LIMIT_MEMORY] = "set memory limit: ",
	    [STEP_EXEC] = "",
	};
	bool passing = is_passing(spawn, report) || report->step == STEP_WATCHDOG;
	bool refused = !passing && (report->step == STEP_NAMESPACE || report->step == STEP_PROC);

	return jr_fail(err, passing ? JR_E_TEMP : JR_E_CONFIG, "%s start %s: %s%s%s%s%s",
	    passing ? "could not" : "cannot", spawn->path, words[report->step], strerror(report->error),
	    hint(spawn, report), refused ? "; " : "", refused ? jr_isolation_advice() : "");
}

static bool
is_other_account(const struct jr_spawn *spawn)
{
	return spawn->limits != NULL && spawn->limits->has_account;
}

/*
 * Another account could stop the child before it has executed, and with vfork that would stop us too, and we would lose
 * all leases. So a child of another account is forked. So is one in a namespace, by its maker.
 */
static pid_t
make_child(struct plan *plan)
{
	bool forked = is_other_account(plan->spawn) && plan->spawn->isolation == NULL;
	pid_t pid =
	    forked ? fork() : vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): see the head of the file */

	if (pid != 0)
		return pid;
	if (plan->spawn->isolation != NULL)
		run_maker(plan);
	run_child(plan);
}

/* false: the child has neither executed nor reported a failure in time, and was killed. */
static bool
has_reported(const struct jr_spawn *spawn, pid_t pid, int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};
	int found = 1;

	if (!is_other_account(spawn) && spawn->isolation == NULL)
		return true;
	do
		found = poll(&end, 1, START_MS);
	while (found < 0 && errno == EINTR);
	if (found != 0)
		return true;
	(void)kill(pid, SIGKILL);
	(void)kill(-pid, SIGKILL);
	return false;
}

/* true: the child reported a failure. When it has executed, the pipe ends without a report. */
static bool
read_report(int fd, struct report *report)
{
	ssize_t n;

	do
		n = read(fd, report, sizeof(*report));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*report);
}

static void
wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) > 0 || errno == EINTR)
		;
}

/*
 * The init and the maker are in the group `pid`, unless the maker was killed before it made one; the init can end only
 * after the child proper is reaped.
 */
static void
reap_failed(struct jr_watchdog *watchdog, const struct plan *plan, pid_t pid)
{
	if (plan->spawn->isolation != NULL)
		(void)kill(-pid, SIGKILL);
	jr_watchdog_forget(watchdog, pid);
	if (plan->isolated > 0)
		wait_for(plan->isolated);
	wait_for(pid);
	if (plan->spawn->isolation != NULL)
		wait_for(-pid);
}

/*
 * The argv of a shell that runs the file. Made before vfork, since the child may not allocate. Caller frees [1] and the
 * array.
 */
static char **
make_script_argv(const struct jr_spawn *spawn)
{
	size_t count = 0;
	char **argv;

	while (spawn->argv[count] != NULL)
		count++;
	argv = jr_xcalloc(count + 3, sizeof(*argv));
	argv[0] = spawn->argv[0];
	argv[1] = jr_xstrdup(spawn->path);
	for (size_t i = 1; i < count; i++)
		argv[i + 1] = spawn->argv[i];
	return argv;
}

/* Start the child with all signals blocked. -1: *report says why. */
static pid_t
start(struct plan *plan, struct report *report)
{
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = make_child(plan);
	if (pid < 0)
		report->error = errno;
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Has the child, or its maker, failed? Then *report says why. */
static bool
has_failed(const struct plan *plan, pid_t pid, int fd, struct report *report)
{
	if (!has_reported(plan->spawn, pid, fd)) {
		report->error = ETIMEDOUT;
		return true;
	}
	if (read_report(fd, report))
		return true;
	if (plan->spawn->isolation == NULL || plan->isolated > 0)
		return false;
	*report = (struct report){.step = STEP_NAMESPACE, .error = EAGAIN}; /* somebody has killed the maker */
	return true;
}

/* `ends` is the pipe for the report; ends[1] is closed here. */
static bool
start_and_wait(
    struct jr_watchdog *watchdog, struct plan *plan, int ends[2], struct jr_spawned *spawned, struct report *report)
{
	pid_t pid = start(plan, report);
	bool isolated = plan->spawn->isolation != NULL;

	(void)close(ends[1]);
	if (pid < 0)
		return false;
	if (has_failed(plan, pid, ends[0], report)) {
		reap_failed(watchdog, plan, pid);
		return false;
	}
	if (isolated)
		wait_for(pid);
	*spawned = (struct jr_spawned){.pid = isolated ? plan->isolated : pid, .group = pid};
	return true;
}

bool
jr_spawn(struct jr_watchdog *watchdog, const struct jr_spawn *spawn, struct jr_spawned *spawned, struct jr_err *err)
{
	struct plan plan = {.spawn = spawn,
	    .signals = jr_watchdog_signals(watchdog),
	    .watchdog_fd = jr_watchdog_fd(watchdog),
	    .parent = getpid()};
	struct report report = {.step = STEP_EXEC};
	int ends[2];
	bool started;

	if (!jr_fd_pipe(ends)) {
		report.error = errno;
		return fail(spawn, &report, err);
	}
	plan.report_fd = ends[1];
	if (spawn->as_is)
		plan.script_argv = make_script_argv(spawn);
	started = start_and_wait(watchdog, &plan, ends, spawned, &report);
	(void)close(ends[0]);
	if (plan.script_argv != NULL)
		free(plan.script_argv[1]);
	free(plan.script_argv);
	return started || fail(spawn, &report, err);
}
