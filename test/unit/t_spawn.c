/*
 * spawn: in what state a child finds itself, and what is said when it cannot be started.
 */
#include "children.h"
#include "process/rlimits.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void
nothing_but_0_to_2_is_open(void **state)
{
	int extra = open("/dev/null", O_RDONLY); /* not close-on-exec, as a careless parent leaves it */
	struct result result;

	assert_true(extra > 2);
	assert_true(dup2(extra, 200) == 200);
	run(*state, "cd /proc/self/fd && for fd in *; do [ -e $fd ] && echo $fd; done; exit 0", NULL, 0, &result);
	/*
	 * A shell opens nothing of its own for this, but for the directory it lists, which is
	 * closed again by then.
	 */
	assert_string_equal(result.output.data, "0\n1\n2\n");
	(void)close(extra);
	(void)close(200);
	jr_buf_release(&result.output);
}

static void
signals_are_as_a_program_expects_them(void **state)
{
	sigset_t mask, before;
	struct result result;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, &before);
	/* 32 and 33 belong to the C library: nobody can reset them, and its posix_spawn ignores them. */
	run(*state, "exec sed -n '/^Sig[BI][lg][kn]/ s/180000000$/000000000/; /^Sig[BI][lg][kn]/ p' /proc/self/status",
	    NULL, 0, &result);
	assert_string_equal(result.output.data, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	jr_buf_release(&result.output);
}

static void
it_leads_a_session_of_its_own(void **state)
{
	struct result result;
	char *expected;
	int64_t pid = run(*state, "read -r line < /proc/self/stat; set -- $line; echo $1 $5 $6", NULL, 0, &result);

	expected = jr_xasprintf("%lld %lld %lld\n", (long long)pid, (long long)pid, (long long)pid);
	assert_string_equal(result.output.data, expected);
	free(expected);
	jr_buf_release(&result.output);
}

static void
expect_no_start(struct fixture *fixture, const char *path, const char *cwd, const char *text)
{
	char *argv[] = {(char *)(uintptr_t)path, NULL};
	struct jr_child_spec spec = {.path = path, .argv = argv, .envp = no_env, .cwd = cwd, .deadline_ms = JR_NEVER};
	struct result result = {0};
	struct jr_err err = {0};

	assert_null(jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, &result, &err));
	assert_non_null(strstr(err.msg, path));
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
	turn_for(fixture->loop, 5);
	assert_int_equal(result.times, 0);
	assert_true(waitpid(-1, NULL, WNOHANG) == 0); /* the watchdog is the only child */
}

static void
what_cannot_be_executed_says_why(void **state)
{
	struct fixture *fixture = *state;
	char *directory = make_directory();
	char *plain = make_file(directory, "plain", "echo no\n", 0755);
	char *lost = make_file(directory, "lost", "#!/no/such/interpreter\n", 0755);
	char *closed = make_file(directory, "closed", "#!/bin/sh\n", 0644);

	expect_no_start(fixture, "/no/such/file", NULL, "No such file or directory");
	expect_no_start(fixture, plain, NULL, "Exec format error");
	expect_no_start(fixture, plain, NULL, "#!/bin/sh");
	expect_no_start(fixture, lost, NULL, "No such file or directory");
	expect_no_start(fixture, lost, NULL, "its interpreter");
	expect_no_start(fixture, closed, NULL, "Permission denied");
	expect_no_start(fixture, "/bin/sh", "/no/such/directory", "its directory");
	free(plain);
	free(lost);
	free(closed);
	remove_directory(directory);
}

static const struct jr_limits no_limits = {.cpu_s = -1, .memory = -1, .files = -1, .processes = -1};

/* Run a script under limits to its end; false: it could not be started, and *err says why. */
static bool
run_limited(struct fixture *fixture, const struct jr_limits *limits, const char *script, struct result *result,
    struct jr_err *err)
{
	char *argv[] = {(char *)(uintptr_t) "bash", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script, NULL};
	struct jr_child_spec spec = {
	    .path = "/bin/bash", .argv = argv, .envp = no_env, .cwd = "/", .deadline_ms = JR_NEVER, .limits = limits};
	struct jr_child *child;

	*result = (struct result){0};
	child = jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, result, err);
	if (child == NULL)
		return false;
	turn_until(fixture->loop, &result->ended);
	jr_child_free(child);
	return true;
}

static void
expect_limited(struct fixture *fixture, const struct jr_limits *limits, const char *script, const char *output)
{
	struct result result;
	struct jr_err err = {0};

	if (!run_limited(fixture, limits, script, &result, &err)) {
		fail_msg("%s", err.msg);
		return;
	}
	assert_string_equal(result.output.data, output);
	jr_buf_release(&result.output);
}

static void
limits_are_set_soft_and_hard(void **state)
{
	struct jr_limits limits = no_limits;
	struct rlimit before, after;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limits.cpu_s = 30;
	expect_limited(*state, &limits, "ulimit -St; ulimit -Ht", "30\n31\n");
	limits = no_limits;
	limits.memory = 512 << 20;
	expect_limited(*state, &limits, "ulimit -Sv; ulimit -Hv", "524288\n524288\n");
	limits = no_limits;
	limits.files = 40;
	expect_limited(*state, &limits, "ulimit -Sn; ulimit -Hn", "40\n40\n");
	limits = no_limits;
	limits.processes = 5;
	expect_limited(*state, &limits, "ulimit -Su; ulimit -Hu", "5\n5\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
	assert_int_equal(before.rlim_cur, after.rlim_cur); /* ours are as they were */
}

static void
without_limits_nothing_changes(void **state)
{
	struct result result;

	expect_limited(*state, &no_limits, "exit 0", "");
	run(*state, "ulimit -a", NULL, 0, &result);
	expect_limited(*state, &no_limits, "exec sh -c 'ulimit -a'", result.output.data);
	jr_buf_release(&result.output);
}

static void
a_nice_value_is_the_value_itself(void **state)
{
	struct jr_limits limits = no_limits;

	limits.has_nice = true;
	limits.nice = 11;
	expect_limited(*state, &limits, "nice", "11\n");
}

static void
a_memory_limit_that_lets_nothing_start_is_no_passing_trouble(void **state)
{
	struct jr_limits limits = no_limits;
	struct result result;
	struct jr_err err = {0};

	limits.memory = 4096;
	if (run_limited(*state, &limits, "exit 0", &result, &err)) {
		assert_true(result.status != 0);
		jr_buf_release(&result.output);
	} else {
		assert_int_equal(err.code, JR_E_CONFIG);
	}
}

static void
another_account_has_its_groups_and_no_way_back(void **state)
{
	gid_t groups[] = {65534, 3, 7};
	struct jr_limits limits = no_limits;

	if (geteuid() != 0)
		skip();
	limits.has_account = true;
	limits.uid = 65534;
	limits.gid = 65534;
	limits.groups = groups;
	limits.group_count = JR_COUNT(groups);
	limits.files = 50;
	expect_limited(*state, &limits,
	    "set -- $(grep -E '^(Uid|Gid|Groups|CapEff|CapPrm):' /proc/self/status); echo $*; ulimit -n",
	    "Uid: 65534 65534 65534 65534 Gid: 65534 65534 65534 65534 Groups: 3 7 65534 CapPrm: 0000000000000000 CapEff: 0000000000000000\n50\n");
	assert_int_equal(geteuid(), 0);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
}

/*
 * A change of account clears the signal that comes when the parent dies, so it is to be set behind that. This program
 * is the child, to look at its own.
 */
static void
another_account_still_dies_with_its_parent(void **state)
{
	struct fixture *fixture = *state;
	char *argv[] = {(char *)(uintptr_t) "t_spawn", (char *)(uintptr_t) "death", NULL};
	char path[1024] = "";
	struct jr_limits limits = no_limits;
	struct jr_child_spec spec = {
	    .path = path, .argv = argv, .envp = no_env, .deadline_ms = JR_NEVER, .limits = &limits};
	struct result result = {0};
	struct jr_child *child;
	struct jr_err err;

	if (geteuid() != 0 || readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		skip();
	child = jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, &result, &err);
	if (child == NULL) /* somewhere where that account cannot go */
		skip();
	turn_until(fixture->loop, &result.ended);
	assert_true(WIFEXITED(result.status));
	assert_int_equal(WEXITSTATUS(result.status), SIGKILL);
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
only_root_starts_a_child_as_another(void **state)
{
	struct jr_limits limits = no_limits;
	struct jr_err err = {0};
	struct result result;

	if (geteuid() == 0)
		skip();
	limits.has_account = true;
	limits.uid = limits.gid = 65534;
	assert_false(run_limited(*state, &limits, "exit 0", &result, &err));
	assert_string_equal(err.msg, "cannot start /bin/bash: change to its account: Operation not permitted");
}

#define NOBODYS 4242424 /* an account that nothing else runs as */

/* A process of that account which stops all the others it has, for some seconds. */
static pid_t
start_stopper(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (setgid(NOBODYS) < 0 || setuid(NOBODYS) < 0)
		_exit(1);
	for (int64_t end_ms = jr_clock_now_ms() + 6000; jr_clock_now_ms() < end_ms;)
		(void)kill(-1, SIGSTOP);
	(void)kill(-1, SIGCONT);
	_exit(0);
}

/* As soon as the child is of the account it can be stopped by it, and must not hold us and our leases. */
static void
another_account_cannot_stop_the_runner(void **state)
{
	struct fixture *fixture = *state;
	char *argv[] = {(char *)(uintptr_t) "true", NULL};
	gid_t group = NOBODYS;
	struct jr_limits limits = no_limits;
	struct jr_child_spec spec = {
	    .path = "/bin/true", .argv = argv, .envp = no_env, .deadline_ms = JR_NEVER, .limits = &limits};
	int64_t took_ms = 0;
	pid_t stopper;

	if (geteuid() != 0)
		skip();
	limits.has_account = true;
	limits.uid = limits.gid = NOBODYS;
	limits.groups = &group;
	limits.group_count = 1;
	stopper = start_stopper();
	(void)poll(NULL, 0, 50);
	for (int i = 0; i < 20 && took_ms < 1000; i++) {
		int64_t begin_ms = jr_clock_now_ms();
		struct result result = {0};
		struct jr_err err = {0};
		struct jr_child *child =
		    jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, &result, &err);

		took_ms = jr_clock_now_ms() - begin_ms;
		if (child == NULL)
			assert_int_equal(err.code, JR_E_TEMP);
		jr_child_free(child);
	}
	(void)kill(stopper, SIGKILL);
	assert_int_equal(waitpid(stopper, NULL, 0), stopper);
	assert_true(took_ms < 3000);
	assert_true(waitpid(-1, NULL, WNOHANG) == 0); /* the watchdog is the only child */
}

static size_t
count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	(void)closedir(dir);
	return count;
}

static void
no_descriptor_is_left(void **state)
{
	size_t before = count_descriptors();
	struct result result;

	for (int i = 0; i < 5; i++) {
		run(*state, "echo x", "y", 1, &result);
		jr_buf_release(&result.output);
		expect_no_start(*state, "/no/such/file", NULL, "No such");
	}
	assert_int_equal(count_descriptors(), before);
}

static int
death_signal(void)
{
	int signo = 0;

	return prctl(PR_GET_PDEATHSIG, &signo) == 0 ? signo : 255;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_but_0_to_2_is_open),
	    cmocka_unit_test(signals_are_as_a_program_expects_them),
	    cmocka_unit_test(it_leads_a_session_of_its_own),
	    cmocka_unit_test(what_cannot_be_executed_says_why),
	    cmocka_unit_test(limits_are_set_soft_and_hard),
	    cmocka_unit_test(without_limits_nothing_changes),
	    cmocka_unit_test(a_nice_value_is_the_value_itself),
	    cmocka_unit_test(a_memory_limit_that_lets_nothing_start_is_no_passing_trouble),
	    cmocka_unit_test(another_account_has_its_groups_and_no_way_back),
	    cmocka_unit_test(another_account_still_dies_with_its_parent),
	    cmocka_unit_test(another_account_cannot_stop_the_runner),
	    cmocka_unit_test(only_root_starts_a_child_as_another),
	    cmocka_unit_test(no_descriptor_is_left),
	};

	if (argc > 1 && strcmp(argv[1], "death") == 0)
		return death_signal();
	(void)signal(SIGHUP, SIG_IGN); /* before the watchdog starts and notes which signals a child must reset */
	return cmocka_run_group_tests_name("spawn", tests, set_up, tear_down);
}
