/*
 * handler_exec and handler_builtin: what comes back from real scripts in a handlers directory.
 */
#include "exec_works.h"

static void
the_exit_status_is_the_verdict(void **state)
{
	static const struct {
		const char *script;
		enum jr_verdict verdict;
		int status;
		const char *code, *error;
	} cases[] = {
	    {"exit 0", JR_DONE, 0, NULL, NULL},
	    {"exit 75", JR_LATER, 75, "exit:75", "exit 75"},
	    {"echo no such order; exit 65", JR_GIVE_UP, 65, "exit:65", "exit 65: no such order"},
	    {"exit 1", JR_FAIL, 1, "exit:1", "exit 1"},
	    {"echo first; echo last >&2; echo; exit 255", JR_FAIL, 255, "exit:255", "exit 255: last"},
	    {"kill -SEGV $$", JR_FAIL, 128 + SIGSEGV, "signal:SEGV", "killed by SIGSEGV"},
	    {"echo x; kill -KILL $$", JR_FAIL, 128 + SIGKILL, "signal:KILL", "killed by SIGKILL: x"},
	    {"kill -40 $$", JR_FAIL, 128 + 40, "signal:40", "killed by signal 40"},
	};

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		struct result result;

		run(*state, cases[i].script, &result);
		assert_int_equal(result.end.verdict, cases[i].verdict);
		assert_true(result.end.has_exit);
		assert_int_equal(result.end.exit_status, cases[i].status);
		assert_true(result.end.pid > 1);
		if (cases[i].code == NULL) {
			assert_null(result.code);
			assert_null(result.error);
		} else {
			assert_string_equal(result.code, cases[i].code);
			assert_string_equal(result.error, cases[i].error);
		}
		release(&result);
	}
}

static void
payload_environment_and_directory_are_there(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	char *expected =
	    jr_xasprintf("%s\n41 7 job default 1 5 k-41 - -\n%s\n0\n", example.payload, fixture->directory);

	run(fixture,
	    "cat; echo $JOBRUN_RUN_ID $JOBRUN_CLAIM $JOBRUN_TYPE $JOBRUN_QUEUE $JOBRUN_ATTEMPT $JOBRUN_MAX_ATTEMPTS $JOBRUN_KEY ${JOBRUN_SLOT--} ${JOBRUN_DEADLINE--}; pwd; echo $#",
	    &result);
	assert_string_equal(result.output, expected);
	free(expected);
	release(&result);
}

static void
the_deadline_is_told_in_unix_seconds(void **state)
{
	struct fixture *fixture = *state;
	int64_t first_s = jr_clock_wall_ms() / 1000 + 60, last_s, told_s;
	struct result result;
	struct jr_err err;
	struct jr_work *work =
	    start(fixture, "#!/bin/sh\necho $JOBRUN_DEADLINE\n", 0755, jr_clock_now_ms() + 60000, &result, &err);

	last_s = jr_clock_wall_ms() / 1000 + 60;
	assert_non_null(work);
	turn_until(fixture->host.loop, &result.ended);
	told_s = strtoll(result.output, NULL, 10);
	assert_in_range(told_s, first_s - 1, last_s + 2);
	work->kind->free(work);
	release(&result);
}

static void
output_is_clean_and_bounded(void **state)
{
	size_t max = JR_OUTPUT_HEAD + JR_OUTPUT_TAIL + 200;
	struct result result;

	run(*state, "printf 'a\\000b\\377c\\303\\251\\n'", &result);
	assert_string_equal(result.output, "a\xEF\xBF\xBD"
					   "b\xEF\xBF\xBD"
					   "c\xC3\xA9\n");
	release(&result);
	run(*state, "exit 0", &result);
	assert_null(result.output);
	release(&result);
	/* Each of these bytes becomes three; the end of the log is still the end. */
	run(*state, "head -c 3000000 /dev/zero | tr '\\0' '\\377'; echo; echo the reason; exit 1", &result);
	assert_true(strlen(result.output) <= max);
	assert_string_equal(result.output + strlen(result.output) - 12, "\nthe reason\n");
	assert_string_equal(result.error, "exit 1: the reason");
	assert_true(result.end.output_dropped > 2900000);
	assert_non_null(strstr(result.output, "bytes dropped"));
	release(&result);
}

static void
a_long_last_line_is_cut(void **state)
{
	struct result result;

	run(*state, "head -c 60000 /dev/zero | tr '\\0' x; exit 1", &result);
	assert_in_range(strlen(result.error), 1000, JR_ERROR_MAX);
	release(&result);
}

static void
expect_no_start(struct fixture *fixture, const char *script, mode_t mode, const char *text)
{
	struct result result;
	struct jr_err err = {0};

	assert_null(start(fixture, script, mode, JR_NEVER, &result, &err));
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
	turn_for(fixture->host.loop, 5);
	assert_false(result.ended);
}

static void
what_cannot_be_started_says_why(void **state)
{
	expect_no_start(*state, "#!/no/such/interpreter\n", 0755, "No such file or directory");
	expect_no_start(*state, "not a program\n", 0755, "must begin with a line such as #!/bin/sh");
	expect_no_start(*state, "\177ELF but no more", 0755, "Exec format error");
	expect_no_start(*state, "#!/bin/sh\n", 0644, "Permission denied");
	expect_no_start(*state, "#!/bin/sh\n", 0777, "chmod go-w");
}

static void
stop_asks_and_then_makes_it_end(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	struct jr_err err;
	struct jr_work *work =
	    start(fixture, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 300; done\n", 0755, JR_NEVER, &result, &err);

	assert_non_null(work);
	work->kind->move(work, JR_NEVER);
	work->kind->stop(work, false);
	turn_for(fixture->host.loop, 20);
	work->kind->stop(work, true);
	turn_until(fixture->host.loop, &result.ended);
	work->kind->free(work);
	release(&result);
	work = start(fixture, "#!/bin/sh\nsleep 300\n", 0755, JR_NEVER, &result, &err);
	assert_non_null(work);
	work->kind->free(work); /* before its end: at once, and nothing is said */
	assert_false(result.ended);
}

static void
noop_succeeds_from_the_loop(void **state)
{
	struct fixture *fixture = *state;
	struct jr_handler handler = {.job_type = (char *)(uintptr_t) "jobrun.noop", .kind = &jr_handler_builtin};
	struct result result = {0};
	const struct jr_owner owner = {.ended = on_ended, .ctx = &result};
	struct jr_err err;
	struct jr_work *work =
	    handler.kind->start(&fixture->host, &handler, &example, JR_NEVER, JR_NEVER, &owner, &err);

	assert_non_null(work);
	assert_false(result.ended);
	work->kind->stop(work, false);
	work->kind->move(work, JR_NEVER);
	turn_until(fixture->host.loop, &result.ended);
	assert_int_equal(result.end.verdict, JR_DONE);
	assert_false(result.end.has_exit);
	work->kind->free(work);
	result = (struct result){0};
	work = handler.kind->start(&fixture->host, &handler, &example, JR_NEVER, JR_NEVER, &owner, &err);
	work->kind->free(work);
	turn_for(fixture->host.loop, 5);
	assert_false(result.ended);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_exit_status_is_the_verdict),
	    cmocka_unit_test(payload_environment_and_directory_are_there),
	    cmocka_unit_test(the_deadline_is_told_in_unix_seconds),
	    cmocka_unit_test(output_is_clean_and_bounded),
	    cmocka_unit_test(a_long_last_line_is_cut),
	    cmocka_unit_test(what_cannot_be_started_says_why),
	    cmocka_unit_test(stop_asks_and_then_makes_it_end),
	    cmocka_unit_test(noop_succeeds_from_the_loop),
	};

	return cmocka_run_group_tests_name("exec", tests, set_up, tear_down);
}
