/*
 * watchdog: a runner that is killed or stopped, played by a process of the test, and a watchdog that
 * is.
 */
#include "base/log.h"
#include "process/child.h"
#include "process/watchdog.h"
#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static void
on_ended(void *ctx, const struct jr_child_end *end)
{
	bool *ended = ctx;

	(void)end;
	*ended = true;
}

static struct jr_child *
start(struct jr_loop *loop, struct jr_watchdog *watchdog, const char *script, int64_t deadline_ms, bool *ended,
    struct jr_err *err)
{
	char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script, NULL};
	char *env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
	struct jr_child_spec spec = {.path = "/bin/sh", .argv = argv, .envp = env, .deadline_ms = deadline_ms};

	return jr_child_start(loop, watchdog, &spec, on_ended, ended, err);
}

static bool
has_printed(const struct jr_child *child)
{
	return !jr_capture_is_empty(jr_child_output(child));
}

/* A process of the runner that has everything the runner has, its end of the watchdog's pipe too. */
static void
fork_helper(void)
{
	if (fork() == 0) {
		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			(void)close(fd);
		(void)alarm(5);
		for (;;)
			(void)pause();
	}
}

/*
 * The life of a runner with one handler; tells its group once the handler is at work. Never
 * returns.
 */
static JR_NORETURN void
be_runner(int tell_fd, int64_t deadline_span_ms)
{
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	struct jr_watchdog *watchdog = jr_watchdog_start(&err);
	int64_t deadline_ms = jr_clock_after(jr_clock_now_ms(), deadline_span_ms);
	struct jr_timer tick;
	struct jr_child *child;
	bool ended = false;
	int64_t group;

	if (loop == NULL || watchdog == NULL)
		_exit(1);
	fork_helper();
	child = start(loop, watchdog,
	    "trap '' TERM HUP INT; sleep 300 & ( sleep 300 & ); echo on; while :; do sleep 300; done", deadline_ms,
	    &ended, &err);
	if (child == NULL)
		_exit(1);
	group = jr_child_pid(child);
	jr_timer_init(&tick, on_tick, NULL);
	for (bool told = false;;) {
		jr_timer_set(loop, &tick, jr_clock_now_ms() + 20);
		if (!jr_loop_turn(loop, &err))
			_exit(1);
		if (!told && has_printed(child))
			told = write(tell_fd, &group, sizeof(group)) == (ssize_t)sizeof(group);
	}
}

/* Start a runner and wait until its handler works. */
static pid_t
start_runner(int64_t deadline_span_ms, int64_t *group)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
		(void)close(ends[0]);
		be_runner(ends[1], deadline_span_ms);
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], group, sizeof(*group)), sizeof(*group));
	(void)close(ends[0]);
	while (find_process(0, 0, *group, "sleep") == 0)
		assert_true(jr_clock_now_ms() < end_ms);
	return pid;
}

static void
a_killed_runner_takes_its_handlers_along(void **state)
{
	int64_t group, watchdog;
	pid_t runner = start_runner(JR_NEVER, &group);

	(void)state;
	watchdog = find_process(0, runner, 0, "jobrun-watchdog");
	assert_true(watchdog != 0);
	assert_int_equal(kill(runner, SIGKILL), 0);
	wait_for_group_to_end(group);
	wait_for_process_to_end(watchdog);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
}

static void
a_stopped_runner_cannot_hold_a_handler_past_its_deadline(void **state)
{
	int64_t group;
	pid_t runner = start_runner(1000, &group);

	(void)state;
	assert_int_equal(kill(runner, SIGSTOP), 0);
	wait_for_group_to_end(group);
	assert_int_equal(find_process(runner, 0, 0, NULL), runner);
	assert_int_equal(kill(runner, SIGKILL), 0);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
}

static void
signals_to_the_watchdog_change_nothing(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1};
	int64_t group, watchdog;
	pid_t runner = start_runner(JR_NEVER, &group);

	(void)state;
	watchdog = find_process(0, runner, 0, "jobrun-watchdog");
	for (size_t i = 0; i < JR_COUNT(signals); i++)
		assert_int_equal(kill((pid_t)watchdog, signals[i]), 0);
	nap();
	assert_int_equal(find_process(watchdog, 0, 0, NULL), watchdog);
	assert_int_equal(getpgid((pid_t)watchdog), watchdog);
	assert_int_equal(kill(runner, SIGKILL), 0);
	wait_for_group_to_end(group);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
}

/* A process that leads a group and waits to be killed. */
static pid_t
start_group(void)
{
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
		(void)setpgid(0, 0);
		(void)close(ends[0]);
		(void)close(ends[1]);
		for (;;)
			(void)pause();
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* the end of file says that it leads its group */
	(void)close(ends[0]);
	return pid;
}

static struct jr_watchdog *
start_watchdog(void)
{
	struct jr_err err = {0};
	struct jr_watchdog *watchdog = jr_watchdog_start(&err);

	assert_non_null(watchdog);
	assert_true(jr_watchdog_is_alive(watchdog));
	return watchdog;
}

static void
expect_killed(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void
a_deadline_is_moved_and_then_kept(void **state)
{
	int64_t first_ms, moved_ms;
	bool in_time = false;

	(void)state;
	/* Again if the test was stopped past the first deadline: that shows nothing. */
	for (int tries = 0; tries < 20 && !in_time; tries++) {
		pid_t group = start_group(); /* before, so that it has no end of the pipe */
		struct jr_watchdog *watchdog = start_watchdog();

		first_ms = jr_clock_now_ms() + 120;
		moved_ms = first_ms + 130;
		assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), group, first_ms));
		jr_watchdog_move(watchdog, group, moved_ms);
		in_time = jr_clock_now_ms() < first_ms;
		expect_killed(group);
		assert_true(!in_time || jr_clock_now_ms() >= moved_ms);
		jr_watchdog_free(watchdog);
	}
	assert_true(in_time);
}

static int64_t
find_watchdog(void)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	int64_t pid;

	while ((pid = find_process(0, getpid(), 0, "jobrun-watchdog")) == 0) /* it takes its name after the fork */
		assert_true(jr_clock_now_ms() < end_ms);
	return pid;
}

/* As a runner does that goes on while its watchdog does not; what it says last is what counts. */
static void
a_watchdog_that_was_stopped_reads_everything_before_it_acts(void **state)
{
	enum {
		HEALTHY = 20,
		HEARTBEATS = 20
	};
	pid_t healthy[HEALTHY], overdue = start_group(); /* before, so that they have no end of the pipe */
	struct jr_watchdog *watchdog;
	int64_t pid, old_ms;

	(void)state;
	for (size_t i = 0; i < HEALTHY; i++)
		healthy[i] = start_group();
	watchdog = start_watchdog();
	pid = find_watchdog();
	old_ms = jr_clock_now_ms() + 600; /* time enough to stop it */
	for (size_t i = 0; i < HEALTHY; i++)
		assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), healthy[i], old_ms));
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), overdue, old_ms));
	for (int n = 1; n <= HEARTBEATS; n++) {
		for (size_t i = 0; i < HEALTHY; i++)
			jr_watchdog_move(watchdog, healthy[i], n < HEARTBEATS ? old_ms + n : old_ms + 1000000);
	}
	while (jr_clock_now_ms() <= old_ms + HEARTBEATS)
		nap();
	assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
	expect_killed(overdue);
	for (size_t i = 0; i < HEALTHY; i++) {
		assert_int_equal(waitpid(healthy[i], NULL, WNOHANG), 0);
		jr_watchdog_move(watchdog, healthy[i], 1);
		expect_killed(healthy[i]);
	}
	jr_watchdog_free(watchdog);
}

static void
a_forgotten_group_is_left_alone(void **state)
{
	pid_t forgotten = start_group(), kept = start_group();
	struct jr_watchdog *watchdog = start_watchdog();

	(void)state;
	assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), forgotten, jr_clock_now_ms() + 10000));
	assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), kept, JR_NEVER));
	jr_watchdog_forget(watchdog, forgotten);
	jr_watchdog_free(watchdog); /* the end of the pipe: what is on the list dies */
	expect_killed(kept);
	assert_int_equal(waitpid(forgotten, NULL, WNOHANG), 0);
	assert_int_equal(kill(forgotten, SIGKILL), 0);
	expect_killed(forgotten);
}

/*
 * A runner that has one handler, and has said these deadlines of its own. It exits when `live_ms` are over; 0: it
 * stops.
 */
static pid_t
start_guarded(pid_t group, const int64_t spans_ms[2], int64_t live_ms)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct jr_err err;
		struct jr_watchdog *watchdog;
		int64_t start_ms;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
		watchdog = jr_watchdog_start(&err);
		if (watchdog == NULL || !jr_watchdog_announce(jr_watchdog_fd(watchdog), group, JR_NEVER))
			_exit(1);
		start_ms = jr_clock_now_ms();
		for (int i = 0; i < 2; i++)
			jr_watchdog_guard(watchdog, jr_clock_after(start_ms, spans_ms[i]));
		if (live_ms == 0)
			(void)raise(SIGSTOP);
		while (jr_clock_now_ms() < start_ms + live_ms)
			nap();
		jr_watchdog_free(watchdog); /* what it guards ends in order */
		_exit(0);
	}
	return pid;
}

static void
a_runner_that_does_not_move_its_own_deadline_is_killed(void **state)
{
	static const int64_t spans_ms[] = {600, 750};
	int64_t start_ms = jr_clock_now_ms();
	pid_t group = start_group();
	pid_t runner = start_guarded(group, spans_ms, 0);

	(void)state;
	expect_killed(runner);
	assert_true(jr_clock_now_ms() >= start_ms + spans_ms[1]);
	expect_killed(group);
}

static void
a_runner_whose_deadline_was_moved_or_forgotten_is_left_alone(void **state)
{
	static const int64_t moved_ms[] = {600, 60000}, forgotten_ms[] = {600, JR_NEVER};
	pid_t groups[] = {start_group(), start_group()};
	pid_t runners[] = {start_guarded(groups[0], moved_ms, 750), start_guarded(groups[1], forgotten_ms, 750)};
	int status;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(runners); i++) {
		assert_int_equal(waitpid(runners[i], &status, 0), runners[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		expect_killed(groups[i]);
	}
}

static void
groups_that_would_be_everybody_are_refused(void **state)
{
	struct jr_watchdog *watchdog = start_watchdog();

	(void)state;
	for (int64_t group = -1; group <= 1; group++)
		assert_true(jr_watchdog_announce(jr_watchdog_fd(watchdog), group, 1));
	jr_watchdog_free(watchdog);
	assert_int_equal(kill(getpid(), 0), 0); /* we are still here */
}

static void
a_group_beyond_the_limit_is_killed(void **state)
{
	pid_t group = start_group(); /* before, so that it has no end of the pipe */
	struct jr_watchdog *watchdog = start_watchdog();

	(void)state;
	for (int64_t i = 0; i < INT64_C(2) * JR_PERMITS_MAX;) {
		/* Numbers that no process has; the pipe may be full for a moment. */
		if (jr_watchdog_announce(jr_watchdog_fd(watchdog), 100000000 + i, JR_NEVER))
			i++;
		else
			assert_int_equal(errno, EAGAIN);
	}
	while (!jr_watchdog_announce(jr_watchdog_fd(watchdog), group, JR_NEVER))
		assert_int_equal(errno, EAGAIN);
	expect_killed(group);
	jr_watchdog_free(watchdog);
}

static void
without_a_watchdog_nothing_is_started(void **state)
{
	struct jr_err err = {0};
	struct jr_watchdog *watchdog = start_watchdog();
	struct jr_loop *loop = jr_loop_new(&err);
	int64_t pid = find_watchdog();
	bool ended = false;
	struct jr_child *child = start(loop, watchdog, "echo on; sleep 300", JR_NEVER, &ended, &err);

	(void)state;
	assert_non_null(child);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	wait_for_process_to_end(pid);
	assert_false(jr_watchdog_is_alive(watchdog));
	assert_null(start(loop, watchdog, "exit 0", JR_NEVER, &ended, &err));
	assert_non_null(strstr(err.msg, "watchdog"));
	assert_int_equal(err.code, JR_E_TEMP);
	/* What runs already goes on and ends as ever. */
	jr_child_deadline(child, JR_NEVER);
	assert_false(ended);
	jr_child_signal(child, SIGKILL);
	turn_until(loop, &ended);
	jr_child_free(child);
	jr_watchdog_free(watchdog);
	jr_loop_free(loop);
}

static void
a_watchdog_that_does_not_listen_is_killed(void **state)
{
	struct jr_watchdog *watchdog = start_watchdog();
	int64_t pid = find_watchdog();

	(void)state;
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	for (int i = 0; i < 10000 && jr_watchdog_is_alive(watchdog); i++)
		jr_watchdog_move(watchdog, 100000000, JR_NEVER);
	assert_false(jr_watchdog_is_alive(watchdog));
	wait_for_process_to_end(pid);
	jr_watchdog_free(watchdog);
}

static void
it_holds_nothing_of_the_runner(void **state)
{
	int lock = open("/dev/null", O_RDONLY);
	struct jr_watchdog *watchdog = start_watchdog();
	char *path = jr_xasprintf("/proc/%lld/fd", (long long)find_watchdog());
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	size_t count;

	(void)state;
	do { /* it is at it since the fork */
		DIR *dir = opendir(path);

		assert_non_null(dir);
		for (count = 0; readdir(dir) != NULL;)
			count++;
		(void)closedir(dir);
		assert_true(jr_clock_now_ms() < end_ms);
	} while (count > 2 + 6); /* . and .., 0 to 2, the pipe, the timer, the runner */
	(void)close(lock);
	free(path);
	jr_watchdog_free(watchdog);
}

/* How often it has gone to sleep. */
static long long
count_sleeps(pid_t pid)
{
	static const char name[] = "voluntary_ctxt_switches:";
	char path[64], line[256];
	long long count = -1;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, name, strlen(name)) == 0)
			count = strtoll(line + strlen(name), NULL, 10);
	}
	(void)fclose(file);
	assert_true(count >= 0);
	return count;
}

static void
many_records_wake_it_seldom(void **state)
{
	const struct timespec pause = {.tv_nsec = 20000};
	struct jr_watchdog *watchdog = start_watchdog();
	pid_t pid = (pid_t)find_watchdog();
	long long sleeps = count_sleeps(pid);
	int64_t begun_ms = jr_clock_now_ms();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		jr_watchdog_move(watchdog, 12345, JR_NEVER); /* it does not know this group */
		(void)nanosleep(&pause, NULL);
	}
	sleeps = count_sleeps(pid) - sleeps;
	assert_true(sleeps > 0);
	assert_true(sleeps < 2 * (jr_clock_now_ms() - begun_ms) / 3 + 20); /* it rests for 3 ms */
	assert_true(jr_watchdog_is_alive(watchdog));
	jr_watchdog_free(watchdog);
}

/* As an old kernel, or the seccomp filter of an old container engine. false: this machine does not allow a filter. */
static bool
take_away(unsigned number, unsigned error)
{
	struct sock_filter rules[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {.len = JR_COUNT(rules), .filter = rules};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void
without_pidfds_it_says_what_is_missing(void **state)
{
	static const int errors[] = {ENOSYS, EPERM};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(errors); i++) {
		pid_t pid = fork();
		struct jr_err err;
		int status;

		if (pid == 0) {
			if (!take_away(SYS_pidfd_open, (unsigned)errors[i]))
				_exit(77);
			_exit(jr_watchdog_start(&err) == NULL && err.code == JR_E_CONFIG &&
				      strstr(err.msg, "pidfd_open(2)") != NULL
				  ? 0
				  : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			skip();
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_killed_runner_takes_its_handlers_along),
	    cmocka_unit_test(a_stopped_runner_cannot_hold_a_handler_past_its_deadline),
	    cmocka_unit_test(signals_to_the_watchdog_change_nothing),
	    cmocka_unit_test(a_deadline_is_moved_and_then_kept),
	    cmocka_unit_test(a_watchdog_that_was_stopped_reads_everything_before_it_acts),
	    cmocka_unit_test(a_forgotten_group_is_left_alone),
	    cmocka_unit_test(a_runner_that_does_not_move_its_own_deadline_is_killed),
	    cmocka_unit_test(a_runner_whose_deadline_was_moved_or_forgotten_is_left_alone),
	    cmocka_unit_test(groups_that_would_be_everybody_are_refused),
	    cmocka_unit_test(a_group_beyond_the_limit_is_killed),
	    cmocka_unit_test(without_a_watchdog_nothing_is_started),
	    cmocka_unit_test(a_watchdog_that_does_not_listen_is_killed),
	    cmocka_unit_test(it_holds_nothing_of_the_runner),
	    cmocka_unit_test(many_records_wake_it_seldom),
	    cmocka_unit_test(without_pidfds_it_says_what_is_missing),
	};
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	jr_log_init(JR_WARN, JR_LOG_TEXT, null_fd); /* losing a watchdog is reported; here it is the purpose */
	return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
