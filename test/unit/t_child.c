/*
 * child: real processes of /bin/sh that behave as badly as handlers do.
 */
#include "children.h"

#include <sys/wait.h>

static void
output_and_exit_status_come_back(void **state)
{
	struct result result;

	run(*state, "cat; echo more >&2; exit 7", "payload\n", 8, &result);
	assert_true(WIFEXITED(result.status));
	assert_int_equal(WEXITSTATUS(result.status), 7);
	assert_string_equal(result.output.data, "payload\nmore\n");
	jr_buf_release(&result.output);
}

static void
a_megabyte_that_is_read_arrives_whole(void **state)
{
	char *payload = jr_xmalloc(1 << 20);
	struct result result;

	memset(payload, 'x', 1 << 20);
	run(*state, "wc -c", payload, 1 << 20, &result);
	assert_int_equal(strtol(result.output.data, NULL, 10), 1 << 20);
	jr_buf_release(&result.output);
	free(payload);
}

static void
a_megabyte_that_is_never_read_is_normal(void **state)
{
	static const char *const scripts[] = {"exit 0", "exec 0<&-; sleep 0.05; echo done", "head -c 10 >/dev/null"};
	char *payload = jr_xmalloc(1 << 20);
	struct result result;

	memset(payload, 'x', 1 << 20);
	for (size_t i = 0; i < JR_COUNT(scripts); i++) {
		run(*state, scripts[i], payload, 1 << 20, &result);
		assert_int_equal(result.status, 0);
		jr_buf_release(&result.output);
	}
	free(payload);
}

static void
closing_stdout_and_going_on_is_normal(void **state)
{
	struct result result;

	run(*state, "echo before; exec >&- 2>&-; sleep 0.1; exit 3", NULL, 0, &result);
	assert_int_equal(WEXITSTATUS(result.status), 3);
	assert_string_equal(result.output.data, "before\n");
	jr_buf_release(&result.output);
}

static void
a_hundred_that_exit_at_once_all_end(void **state)
{
	for (int i = 0; i < 100; i++) {
		struct result result;

		run(*state, "exit 0", NULL, 0, &result);
		assert_int_equal(result.status, 0);
		jr_buf_release(&result.output);
	}
}

static void
ten_megabytes_are_drained_and_kept_as_head_and_tail(void **state)
{
	struct result result;

	run(*state, "echo first; yes 123456789 | head -c 10000000; echo last", NULL, 0, &result);
	assert_int_equal(result.status, 0);
	assert_memory_equal(result.output.data, "first\n", 6);
	assert_string_equal(result.output.data + result.output.len - 5, "last\n");
	assert_true(result.dropped == 10000000 + 6 + 5 - JR_OUTPUT_HEAD - JR_OUTPUT_TAIL);
	jr_buf_release(&result.output);
}

static void
a_grandchild_that_keeps_the_pipe_is_killed_after_the_drain(void **state)
{
	int64_t start_ms = jr_clock_now_ms();
	struct result result;
	int64_t pid = run(*state, "sleep 300 & echo started", NULL, 0, &result);

	assert_int_equal(result.status, 0);
	assert_string_equal(result.output.data, "started\n");
	assert_true(jr_clock_now_ms() - start_ms >= JR_DRAIN_MS - 10);
	assert_int_equal(find_process(0, 0, pid, NULL), 0);
	jr_buf_release(&result.output);
}

static void
a_double_fork_does_not_leave_the_group(void **state)
{
	struct result result;
	int64_t pid =
	    run(*state, "( ( trap '' HUP TERM INT; sleep 300 ) >/dev/null 2>&1 & ) ; echo ok", NULL, 0, &result);

	assert_int_equal(find_process(0, 0, pid, NULL), 0);
	jr_buf_release(&result.output);
}

static void
a_session_of_its_own_survives(void **state)
{
	struct result result;
	int64_t escaped;

	run(*state,
	    "setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1 </dev/null'& "
	    "until grep -qs sleep /proc/$!/comm; do sleep 0.01; done",
	    NULL, 0, &result);
	escaped = strtol(result.output.data, NULL, 10);
	assert_true(escaped > 1);
	assert_int_equal(find_process(escaped, 0, 0, NULL), escaped);
	assert_int_equal(kill((pid_t)escaped, SIGKILL), 0);
	jr_buf_release(&result.output);
}

static void
term_ends_one_that_does_not_mind(void **state)
{
	struct result result;
	struct jr_child *child = start(*state, "sleep 300", &result);

	jr_child_signal(child, SIGTERM);
	turn_until(((struct fixture *)*state)->loop, &result.ended);
	assert_true(WIFSIGNALED(result.status));
	assert_int_equal(WTERMSIG(result.status), SIGTERM);
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
kill_ends_one_that_ignores_term(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child = start(fixture, "trap '' TERM; echo armed; while :; do sleep 300; done", &result);

	wait_for_output(fixture, child, "armed");
	jr_child_signal(child, SIGTERM);
	turn_for(fixture->loop, 50);
	assert_false(result.ended);
	jr_child_signal(child, SIGKILL);
	turn_until(fixture->loop, &result.ended);
	assert_int_equal(WTERMSIG(result.status), SIGKILL);
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
a_stopped_group_sees_term(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child =
	    start(fixture, "trap 'echo bye; exit 5' TERM; echo armed; while :; do sleep 0.02; done", &result);

	wait_for_output(fixture, child, "armed");
	assert_int_equal(kill((pid_t)-jr_child_pid(child), SIGSTOP), 0);
	jr_child_signal(child, SIGTERM);
	turn_until(fixture->loop, &result.ended);
	assert_true(WIFEXITED(result.status));
	assert_int_equal(WEXITSTATUS(result.status), 5);
	assert_non_null(strstr(result.output.data, "bye"));
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
its_cost_is_recorded(void **state)
{
	struct result result;

	run(*state, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", NULL, 0, &result);
	assert_true(result.usage.ru_maxrss > 100);
	assert_true(result.usage.ru_utime.tv_sec > 0 || result.usage.ru_utime.tv_usec > 1000);
	jr_buf_release(&result.output);
}

static void
freeing_one_that_runs_kills_its_group(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child = start(fixture, "sleep 300 & echo on; sleep 300", &result);
	int64_t pid = jr_child_pid(child);

	wait_for_output(fixture, child, "on");
	jr_child_free(child);
	wait_for_group_to_end(pid);
	assert_int_equal(result.times, 0);
	assert_true(waitpid((pid_t)pid, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* A child that was told to stop and has ended; the look for the rest of its session is still to come. */
static struct jr_child *
start_and_stop(struct fixture *fixture, struct result *result)
{
	struct jr_child *child = start(fixture, "echo on; exec sleep 300", result);
	struct jr_err err;

	wait_for_output(fixture, child, "on");
	jr_child_signal(child, SIGTERM);
	wait_for_process_to_end(jr_child_pid(child));
	assert_true(jr_loop_turn(fixture->loop, &err));
	assert_false(result->ended);
	return child;
}

/* Or KILL for its group would hit the process that gets the number. */
static void
its_number_is_taken_until_its_session_is_gone(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child = start_and_stop(fixture, &result);
	pid_t pid = (pid_t)jr_child_pid(child);

	assert_int_equal(kill(pid, 0), 0);
	turn_until(fixture->loop, &result.ended);
	assert_true(WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGTERM);
	assert_true(waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD);
	jr_buf_release(&result.output);
	jr_child_free(child);
}

static void
freeing_one_on_its_way_out_reaps_it(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child = start_and_stop(fixture, &result);
	pid_t pid = (pid_t)jr_child_pid(child);

	jr_child_free(child);
	assert_int_equal(result.times, 0);
	assert_true(waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* timeout(1) makes a group of its own, and what it has started ignores TERM. */
static void
freeing_one_on_its_way_out_kills_its_session(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_child *child = start(fixture,
	    "trap exit TERM; timeout 300 sh -c 'trap \"\" TERM; exec sleep 300' >/dev/null 2>&1 & echo on; wait",
	    &result);
	int64_t pid = jr_child_pid(child), end_ms = jr_clock_now_ms() + PATIENCE_MS, other = 0;
	struct jr_err err;

	wait_for_output(fixture, child, "on");
	while (other == 0 || find_process(0, other, other, "sleep") == 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		other = find_process(0, pid, 0, "timeout");
	}
	jr_child_signal(child, SIGTERM);
	assert_true(jr_loop_turn(fixture->loop, &err)); /* a look; the next one is not due for a while */
	wait_for_process_to_end(pid);
	assert_true(jr_loop_turn(fixture->loop, &err));
	assert_false(result.ended);
	jr_child_free(child);
	wait_for_group_to_end(other);
}

/* Frees the child inside `ended`, as an attempt may. */
static void
on_ended_free(void *ctx, const struct jr_child_end *end)
{
	struct jr_child **child = ctx;

	assert_int_equal(end->status, 0);
	jr_child_free(*child);
	*child = NULL;
}

static void
it_may_be_freed_when_it_has_ended(void **state)
{
	struct fixture *fixture = *state;
	char *argv[] = {(char *)(uintptr_t) "true", NULL};
	struct jr_child_spec spec = {.path = "/bin/true", .argv = argv, .envp = no_env, .deadline_ms = JR_NEVER};
	struct jr_child *child = NULL;
	struct jr_err err;
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;

	child = jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended_free, &child, &err);
	assert_non_null(child);
	while (child != NULL) {
		assert_true(jr_clock_now_ms() < end_ms);
		turn_for(fixture->loop, 5);
	}
}

static void
echo_copies_the_output_to_stderr(void **state)
{
	struct fixture *fixture = *state;
	char *argv[] = {(char *)(uintptr_t) "echo", (char *)(uintptr_t) "hello", NULL};
	struct jr_child_spec spec = {
	    .path = "/bin/echo", .argv = argv, .envp = no_env, .deadline_ms = JR_NEVER, .echo = true};
	struct result result = {0};
	struct jr_child *child;
	struct jr_err err;
	char seen[16] = "";
	int ends[2], saved = dup(STDERR_FILENO);

	assert_int_equal(pipe(ends), 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	child = jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, &result, &err);
	if (child != NULL)
		turn_until(fixture->loop, &result.ended);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	assert_non_null(child);
	assert_int_equal(read(ends[0], seen, sizeof(seen) - 1), 6);
	assert_string_equal(seen, "hello\n");
	assert_string_equal(result.output.data, "hello\n");
	(void)close(saved);
	(void)close(ends[0]);
	(void)close(ends[1]);
	jr_buf_release(&result.output);
	jr_child_free(child);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(output_and_exit_status_come_back),
	    cmocka_unit_test(a_megabyte_that_is_read_arrives_whole),
	    cmocka_unit_test(a_megabyte_that_is_never_read_is_normal),
	    cmocka_unit_test(closing_stdout_and_going_on_is_normal),
	    cmocka_unit_test(a_hundred_that_exit_at_once_all_end),
	    cmocka_unit_test(ten_megabytes_are_drained_and_kept_as_head_and_tail),
	    cmocka_unit_test(a_grandchild_that_keeps_the_pipe_is_killed_after_the_drain),
	    cmocka_unit_test(a_double_fork_does_not_leave_the_group),
	    cmocka_unit_test(a_session_of_its_own_survives),
	    cmocka_unit_test(term_ends_one_that_does_not_mind),
	    cmocka_unit_test(kill_ends_one_that_ignores_term),
	    cmocka_unit_test(a_stopped_group_sees_term),
	    cmocka_unit_test(its_cost_is_recorded),
	    cmocka_unit_test(freeing_one_that_runs_kills_its_group),
	    cmocka_unit_test(its_number_is_taken_until_its_session_is_gone),
	    cmocka_unit_test(freeing_one_on_its_way_out_reaps_it),
	    cmocka_unit_test(freeing_one_on_its_way_out_kills_its_session),
	    cmocka_unit_test(it_may_be_freed_when_it_has_ended),
	    cmocka_unit_test(echo_copies_the_output_to_stderr),
	};

	return cmocka_run_group_tests_name("child", tests, set_up, tear_down);
}
