/*
 * handler_exec: what a handler says through its file, and what its settings change.
 */
#include "exec_works.h"

static void
what_is_said_in_the_file_comes_with_the_end(void **state)
{
	struct result result;

	run(*state,
	    "echo '{\"progress\": 1}' > $JOBRUN_OUT; echo '{\"result\": 1, \"retry_in\": \"5m\"}' >> $JOBRUN_OUT; echo '{\"checkpoint\": 7}' >> $JOBRUN_OUT; exit 75",
	    &result);
	assert_int_equal(result.end.verdict, JR_LATER);
	assert_string_equal(result.progress, "{\"progress\": 1}");
	assert_string_equal(result.checkpoint, "{\"checkpoint\": 7}");
	assert_string_equal(result.said, "{\"result\": 1, \"retry_in\": \"5m\"}");
	assert_int_equal(result.end.retry_in_ms, 300000);
	assert_null(result.output);
	release(&result);
	run(*state, "exit 0", &result);
	assert_null(result.progress);
	assert_null(result.checkpoint);
	assert_null(result.said);
	assert_int_equal(result.end.retry_in_ms, 0);
	release(&result);
}

static void
warnings_stand_behind_the_output(void **state)
{
	struct result result;

	run(*state, "printf 'the reason'; echo [] >> $JOBRUN_OUT; exit 1", &result);
	assert_string_equal(result.output,
	    "the reason\njobrun: line 1 of JOBRUN_OUT: not an object such as {\"progress\": {\"done\": 40}}\n");
	assert_string_equal(result.error, "exit 1: the reason");
	release(&result);
	run(*state, "echo [] >> $JOBRUN_OUT", &result);
	assert_int_equal(result.end.verdict, JR_DONE);
	assert_ptr_equal(strstr(result.output, "jobrun: line 1 of JOBRUN_OUT: "), result.output);
	release(&result);
}

/* Ask until there is something new; the caller frees report->output. */
static void
wait_for_report(struct fixture *fixture, struct jr_work *work, struct jr_handler_progress *report)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;

	do {
		assert_true(jr_clock_now_ms() < end_ms);
		turn_for(fixture->host.loop, 5);
		work->kind->progress(work, report);
	} while (report->output == NULL && report->progress == NULL && report->checkpoint == NULL);
}

static void
progress_comes_while_it_runs_and_once(void **state)
{
	struct fixture *fixture = *state;
	char *go = jr_xasprintf("%s/go", fixture->directory);
	char *script = jr_xasprintf("#!/bin/sh\necho '{\"progress\": 1}' >> $JOBRUN_OUT\n"
				    "until [ -e %s ]; do sleep 0.01; done\necho more\n"
				    "exec sleep 300\n",
	    go);
	struct result result;
	struct jr_handler_progress report;
	struct jr_err err;
	struct jr_work *work = start(fixture, script, 0755, JR_NEVER, &result, &err);

	assert_non_null(work);
	wait_for_report(fixture, work, &report);
	assert_string_equal(report.progress, "{\"progress\": 1}");
	assert_null(report.checkpoint);
	assert_null(report.output);
	work->kind->progress(work, &report);
	assert_null(report.progress);
	assert_null(report.output);
	free(make_file(fixture->directory, "go", "", 0600));
	wait_for_report(fixture, work, &report);
	assert_string_equal(report.output, "more\n");
	assert_null(report.progress);
	free(report.output);
	work->kind->progress(work, &report);
	assert_null(report.output);
	work->kind->free(work);
	release(&result);
	free(script);
	free(go);
}

static void
settings_change_command_environment_directory_and_lists(void **state)
{
	struct fixture *fixture = *state;
	struct jr_settings *settings = &fixture->handler.settings;
	char *argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
	    (char *)(uintptr_t) "echo \"$0 $1 $COLOUR $(pwd)\"; ulimit -n; exit 9", (char *)(uintptr_t) "zero",
	    (char *)(uintptr_t) "one  *", NULL};
	char *env[] = {(char *)(uintptr_t) "COLOUR=red", NULL};
	char *nine = (char *)(uintptr_t) "9";
	struct result result;

	settings->argv = argv;
	settings->env = env;
	settings->cwd = (char *)(uintptr_t) "/";
	settings->limits.files = 33;
	settings->rules = (struct jr_rules){.give_up_set = true, .give_up = {.items = &nine, .count = 1}};
	run(fixture, "echo not this one", &result);
	assert_string_equal(result.output, "zero one  * red /\n33\n");
	assert_int_equal(result.end.verdict, JR_GIVE_UP);
	release(&result);
	jr_settings_init(settings); /* nothing of it was owned */
}

static void
nothing_is_left_of_the_files(void **state)
{
	struct fixture *fixture = *state;
	struct result result;
	char *path;

	run(fixture, "echo $JOBRUN_OUT", &result);
	path = jr_xmemdup0(result.output, strcspn(result.output, "\n"));
	assert_int_equal(access(path, F_OK), -1);
	*strrchr(path, '/') = '\0';
	assert_int_equal(access(path, F_OK), 0);
	jr_handler_exec.close(&fixture->host);
	assert_int_equal(access(path, F_OK), -1);
	assert_null(fixture->host.outs);
	free(path);
	release(&result);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_said_in_the_file_comes_with_the_end),
	    cmocka_unit_test(warnings_stand_behind_the_output),
	    cmocka_unit_test(progress_comes_while_it_runs_and_once),
	    cmocka_unit_test(settings_change_command_environment_directory_and_lists),
	    cmocka_unit_test(nothing_is_left_of_the_files),
	};

	return cmocka_run_group_tests_name("exec_out", tests, set_up, tear_down);
}
