/*
 * spawn: in what state a child finds itself, and what is said when it cannot be started.
 */
#include "children.h"

#include <fcntl.h>
#include <sys/wait.h>

static void
nothing_but_0_to_2_is_open(void **state)
{
	int extra =
	    open("/dev/null", O_RDONLY); /* not close-on-exec, as a careless parent leaves it */
	struct result result;

	assert_true(extra > 2);
	assert_true(dup2(extra, 200) == 200);
	run(*state, "cd /proc/self/fd && for fd in *; do [ -e $fd ] && echo $fd; done; exit 0",
	    NULL, 0, &result);
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
	(void)signal(SIGHUP, SIG_IGN);
	/* 32 and 33 belong to the C library: nobody can reset them, and its posix_spawn ignores them. */
	run(*state,
	    "exec sed -n '/^Sig[BI][lg][kn]/ s/180000000$/000000000/; /^Sig[BI][lg][kn]/ p' "
	    "/proc/self/status",
	    NULL, 0, &result);
	assert_string_equal(
	    result.output.data, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	(void)signal(SIGHUP, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	jr_buf_release(&result.output);
}

static void
it_leads_a_session_of_its_own(void **state)
{
	struct result result;
	char *expected;
	int64_t pid = run(*state, "read -r line < /proc/self/stat; set -- $line; echo $1 $5 $6",
	    NULL, 0, &result);

	expected = jr_xasprintf("%lld %lld %lld\n", (long long)pid, (long long)pid, (long long)pid);
	assert_string_equal(result.output.data, expected);
	free(expected);
	jr_buf_release(&result.output);
}

static void
expect_no_start(struct fixture *fixture, const char *path, const char *cwd, const char *text)
{
	char *argv[] = {(char *)(uintptr_t)path, NULL};
	struct jr_child_spec spec = {
	    .path = path, .argv = argv, .envp = no_env, .cwd = cwd, .deadline_ms = JR_NEVER};
	struct result result = {0};
	struct jr_err err = {0};

	assert_null(jr_child_start(fixture->loop, fixture->keeper, &spec, on_ended, &result, &err));
	assert_non_null(strstr(err.msg, path));
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
	turn_for(fixture->loop, 5);
	assert_int_equal(result.times, 0);
	assert_true(waitpid(-1, NULL, WNOHANG) == 0); /* the keeper is the only child */
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_but_0_to_2_is_open),
	    cmocka_unit_test(signals_are_as_a_program_expects_them),
	    cmocka_unit_test(it_leads_a_session_of_its_own),
	    cmocka_unit_test(what_cannot_be_executed_says_why),
	    cmocka_unit_test(no_descriptor_is_left),
	};

	return cmocka_run_group_tests_name("spawn", tests, set_up, tear_down);
}
