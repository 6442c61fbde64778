/*
 * isolate: children in PID namespaces of their own. Skipped where the machine does not allow them.
 */
#include "children.h"
#include "process/isolate.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int
set_up_isolated(void **state)
{
	struct fixture *fixture;
	struct jr_err err;

	if (set_up(state) < 0)
		return -1;
	fixture = *state;
	fixture->isolation = jr_isolation_open(&err);
	if (fixture->isolation == NULL)
		print_message("skipped: %s\n", err.msg);
	return 0;
}

static int
tear_down_isolated(void **state)
{
	jr_isolation_free(((struct fixture *)*state)->isolation);
	return tear_down(state);
}

static struct fixture *
fixture_of(void **state)
{
	struct fixture *fixture = *state;

	if (fixture->isolation == NULL)
		skip();
	return fixture;
}

/* The process whose name is `name`, 0 if there is none. */
static int64_t
find_named(const char *name)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int64_t found = 0;

	assert_non_null(dir);
	while (found == 0 && (entry = readdir(dir)) != NULL) {
		char *path = jr_xasprintf("/proc/%s/comm", entry->d_name), comm[32] = "";
		FILE *file = fopen(path, "r");

		if (file != NULL && fgets(comm, sizeof(comm), file) != NULL) {
			comm[strcspn(comm, "\n")] = '\0';
			found = strcmp(comm, name) == 0 ? strtoll(entry->d_name, NULL, 10) : 0;
		}
		if (file != NULL)
			(void)fclose(file);
		free(path);
	}
	(void)closedir(dir);
	return found;
}

/* The name of the process that escapes, at most 15 bytes. Tests of this file may run at the same time. */
static const char *
escaped(char name[16])
{
	(void)snprintf(name, 16, "esc-%d", (int)getpid());
	return name;
}

static bool
has_escaped(void)
{
	char name[16];

	return find_named(escaped(name)) > 0;
}

/* A script that starts a process which leaves the session and its parent, and then goes on. Caller frees. */
static char *
escape(const char *directory, const char *then)
{
	char name[16], *path = jr_xasprintf("%s/%s", directory, escaped(name));
	char *script = jr_xasprintf("cp \"$(command -v sleep)\" %s; (setsid %s 300 </dev/null >/dev/null 2>&1 &); "
				    "until grep -qs %s /proc/*/comm; do sleep 0.01; done; %s",
	    path, path, name, then);

	free(path);
	return script;
}

/* The init of the namespace has been reaped, too: with it the kernel has ended everything. */
static void
only_the_watchdog_is_left(void)
{
	assert_false(has_escaped());
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
}

static void
exit_statuses_and_signals_arrive(void **state)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGSEGV, SIGPIPE, SIGTERM};
	static const int statuses[] = {0, 1, 65, 75, 127, 255};
	struct fixture *fixture = fixture_of(state);
	struct result result;
	char script[64];

	for (size_t i = 0; i < JR_COUNT(statuses); i++) {
		(void)snprintf(script, sizeof(script), "cat; exit %d", statuses[i]);
		run(fixture, script, "payload", 7, &result);
		assert_true(WIFEXITED(result.status));
		assert_int_equal(WEXITSTATUS(result.status), statuses[i]);
		assert_string_equal(result.output.data, "payload");
		jr_buf_release(&result.output);
	}
	for (size_t i = 0; i < JR_COUNT(signals); i++) {
		(void)snprintf(script, sizeof(script), "ulimit -c 0; kill -%d $$; sleep 5", signals[i]);
		run(fixture, script, NULL, 0, &result);
		assert_true(WIFSIGNALED(result.status));
		assert_int_equal(WTERMSIG(result.status), signals[i]);
		jr_buf_release(&result.output);
	}
}

static void
it_is_not_process_1_and_leads_a_session(void **state)
{
	struct result result;

	run(fixture_of(state), "read -r line < /proc/self/stat; set -- $line; echo $1 $4 $5 $6; cat /proc/1/comm", NULL,
	    0, &result);
	assert_string_equal(result.output.data, "2 0 2 2\njobrun-init\n");
	jr_buf_release(&result.output);
}

static void
signals_and_descriptors_are_as_without(void **state)
{
	struct result result;

	run(fixture_of(state),
	    "cd /proc/self/fd && for fd in *; do [ -e $fd ] && echo $fd; done; "
	    "exec sed -n '/^Sig[BI][lg][kn]/ s/180000000$/000000000/; /^Sig[BI][lg][kn]/ p' /proc/self/status",
	    NULL, 0, &result);
	assert_string_equal(result.output.data, "0\n1\n2\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	jr_buf_release(&result.output);
}

static void
orphans_are_reaped(void **state)
{
	struct result result;

	run(fixture_of(state),
	    "i=0; while [ $i -lt 20 ]; do (sleep 0.01 &); i=$((i+1)); done; "
	    "until [ $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c sleep) = 0 ]; do sleep 0.01; done; echo none",
	    NULL, 0, &result);
	assert_string_equal(result.output.data, "none\n");
	jr_buf_release(&result.output);
}

static void
nothing_survives_its_end(void **state)
{
	struct fixture *fixture = fixture_of(state);
	char *directory = make_directory();
	char *script = escape(directory, "echo up; exit 3");
	struct result result;

	run(fixture, script, NULL, 0, &result);
	assert_string_equal(result.output.data, "up\n");
	assert_int_equal(WEXITSTATUS(result.status), 3);
	only_the_watchdog_is_left();
	jr_buf_release(&result.output);
	free(script);
	remove_directory(directory);
}

static void
nothing_survives_kill(void **state)
{
	struct fixture *fixture = fixture_of(state);
	char *directory = make_directory();
	char *script = escape(directory, "trap '' TERM; echo up; while :; do sleep 1; done");
	struct result result;
	struct jr_child *child = start(fixture, script, &result);

	wait_for_output(fixture, child, "up");
	assert_true(has_escaped());
	jr_child_signal(child, SIGTERM);
	turn_for(fixture->loop, 50);
	assert_false(result.ended);
	jr_child_signal(child, SIGKILL);
	turn_until(fixture->loop, &result.ended);
	assert_int_equal(WTERMSIG(result.status), SIGKILL);
	only_the_watchdog_is_left();
	jr_buf_release(&result.output);
	jr_child_free(child);
	free(script);
	remove_directory(directory);
}

static void
term_reaches_it(void **state)
{
	struct fixture *fixture = fixture_of(state);
	struct result result;
	struct jr_child *child =
	    start(fixture, "trap 'echo bye; exit 5' TERM; echo armed; while :; do sleep 0.02; done", &result);

	wait_for_output(fixture, child, "armed");
	jr_child_signal(child, SIGTERM);
	turn_until(fixture->loop, &result.ended);
	assert_true(WIFEXITED(result.status));
	assert_int_equal(WEXITSTATUS(result.status), 5);
	assert_non_null(strstr(result.output.data, "bye"));
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
what_is_printed_during_the_drain_is_kept(void **state)
{
	struct result result;

	run(fixture_of(state), "(sleep 0.1; echo late) & exit 0", NULL, 0, &result);
	assert_string_equal(result.output.data, "late\n");
	jr_buf_release(&result.output);
}

static void
freeing_one_that_runs_ends_its_namespace(void **state)
{
	struct fixture *fixture = fixture_of(state);
	char *directory = make_directory();
	char *script = escape(directory, "echo up; sleep 300");
	struct result result;
	struct jr_child *child = start(fixture, script, &result);

	wait_for_output(fixture, child, "up");
	jr_child_free(child);
	only_the_watchdog_is_left();
	assert_int_equal(result.times, 0);
	free(script);
	remove_directory(directory);
}

/* Many processes, so that it takes some time until all have ended. */
static void
freeing_one_on_its_way_out_ends_its_namespace(void **state)
{
	struct fixture *fixture = fixture_of(state);
	struct result result;
	struct jr_child *child = start(fixture,
	    "i=0; while [ $i -lt 100 ]; do setsid sleep 300 </dev/null >/dev/null 2>&1 & i=$((i+1)); done; echo up",
	    &result);
	pid_t pid = (pid_t)jr_child_pid(child);
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	struct jr_err err;

	while (kill(pid, 0) == 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		assert_true(jr_loop_turn(fixture->loop, &err));
	}
	jr_child_free(child);
	assert_int_equal(find_process(0, getpid(), 0, "jobrun-init"), 0);
	only_the_watchdog_is_left();
	jr_buf_release(&result.output); /* if all of them had ended before */
}

static void
the_watchdog_ends_the_namespace_at_the_deadline(void **state)
{
	struct fixture *fixture = fixture_of(state);
	char *directory = make_directory();
	char *script = escape(directory, "echo up; sleep 300");
	struct result result;
	struct jr_child *child = start(fixture, script, &result);

	wait_for_output(fixture, child, "up");
	jr_child_deadline(child, jr_clock_now_ms());
	turn_until(fixture->loop, &result.ended);
	assert_int_equal(WTERMSIG(result.status), SIGKILL);
	only_the_watchdog_is_left();
	jr_buf_release(&result.output);
	jr_child_free(child);
	free(script);
	remove_directory(directory);
}

static void
expect_no_start(struct fixture *fixture, const char *path, const char *text)
{
	char *argv[] = {(char *)(uintptr_t)path, NULL};
	struct jr_child_spec spec = {.path = path,
	    .argv = argv,
	    .envp = no_env,
	    .cwd = "/",
	    .deadline_ms = JR_NEVER,
	    .isolation = fixture->isolation};
	struct result result = {0};
	struct jr_err err = {0};

	assert_null(jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, &result, &err));
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
	only_the_watchdog_is_left();
}

static void
what_cannot_be_executed_says_why_and_leaves_nothing(void **state)
{
	expect_no_start(fixture_of(state), "/no/such/file", "cannot start /no/such/file: No such file or directory");
}

/* Take the right to make namespaces from this process, or give it back. */
static void
set_admin(bool on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint32_t bit = 1U << CAP_SYS_ADMIN;

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	data[0].effective = on ? data[0].effective | bit : data[0].effective & ~bit;
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

static void
it_never_starts_without_its_namespace(void **state)
{
	struct fixture *fixture = fixture_of(state);
	struct jr_isolation *isolation;
	struct jr_err err = {0};

	if (geteuid() != 0)
		skip(); /* another account has no right that it could lose */
	set_admin(false);
	expect_no_start(fixture, "/bin/true",
	    "cannot start /bin/true: isolate: its PID namespace: Operation not permitted; give jobrun");
	isolation = jr_isolation_open(&err);
	set_admin(true);
	assert_null(isolation);
	assert_string_equal(err.msg,
	    "isolate: this host does not allow a PID namespace: Operation not permitted; give jobrun the "
	    "capability CAP_SYS_ADMIN, or remove \"isolate\"; see ISOLATION in jobrun-handlers(7)");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exit_statuses_and_signals_arrive),
	    cmocka_unit_test(it_is_not_process_1_and_leads_a_session),
	    cmocka_unit_test(signals_and_descriptors_are_as_without),
	    cmocka_unit_test(orphans_are_reaped),
	    cmocka_unit_test(nothing_survives_its_end),
	    cmocka_unit_test(nothing_survives_kill),
	    cmocka_unit_test(term_reaches_it),
	    cmocka_unit_test(what_is_printed_during_the_drain_is_kept),
	    cmocka_unit_test(freeing_one_that_runs_ends_its_namespace),
	    cmocka_unit_test(freeing_one_on_its_way_out_ends_its_namespace),
	    cmocka_unit_test(the_watchdog_ends_the_namespace_at_the_deadline),
	    cmocka_unit_test(what_cannot_be_executed_says_why_and_leaves_nothing),
	    cmocka_unit_test(it_never_starts_without_its_namespace),
	};

	return cmocka_run_group_tests_name("isolate", tests, set_up_isolated, tear_down_isolated);
}
