/*
 * judge: the outcome of every end after every reason. Pure.
 */
#include "base/mem.h"
#include "expected.h"
#include "runner/attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

struct trial {
	struct jr_run run;
	struct jr_random random;
};

static int
set_up(void **state)
{
	struct trial *trial = jr_xcalloc(1, sizeof(*trial));

	trial->run = example_run();
	jr_random_seed(&trial->random, 1);
	*state = trial;
	return 0;
}

static int
tear_down(void **state)
{
	free(*state);
	return 0;
}

static void
the_reason_decides_what_an_end_means(void **state)
{
	struct trial *trial = *state;

	for (int reason = 0; reason < JR_EV_COUNT; reason++) {
		for (int verdict = JR_DONE; verdict <= JR_FAIL; verdict++) {
			struct jr_work_end end = {.verdict = (enum jr_verdict)verdict,
			    .has_exit = true,
			    .exit_status = 9,
			    .pid = 77,
			    .error_code = verdict == JR_DONE ? NULL : "exit:9",
			    .error = verdict == JR_DONE ? NULL : "exit 9",
			    .output = "out",
			    .result = "{}"};
			int kind = expected_kind((enum jr_attempt_event)reason, (enum jr_verdict)verdict);
			struct jr_outcome outcome;

			assert_int_equal(jr_attempt_judge((enum jr_attempt_event)reason, &end, &trial->run,
					     &trial->random, &outcome),
			    kind >= 0);
			if (kind < 0)
				continue;
			assert_int_equal(outcome.kind, kind);
			assert_int_equal(outcome.exit_status, 9);
			assert_string_equal(outcome.output, "out");
			assert_string_equal(outcome.result, "{}");
			assert_int_equal(outcome.error_code == NULL, kind == JR_OUT_SUCCEEDED);
			assert_int_equal(outcome.error == NULL, kind == JR_OUT_SUCCEEDED);
			jr_outcome_release(&outcome);
		}
	}
}

static void
judge(struct trial *trial, enum jr_attempt_event reason, enum jr_verdict verdict, int64_t retry_in_ms,
    struct jr_outcome *outcome)
{
	struct jr_work_end end = {.verdict = verdict,
	    .error_code = "exit:1",
	    .error = "exit 1: no",
	    .output = "a\nlast\n",
	    .retry_in_ms = retry_in_ms};

	assert_true(jr_attempt_judge(reason, &end, &trial->run, &trial->random, outcome));
}

static void
codes_and_texts_follow_the_reason(void **state)
{
	struct trial *trial = *state;
	struct jr_outcome outcome;

	trial->run.timeout_ms = 30000;
	judge(trial, JR_EV_TIMEOUT, JR_DONE, 0, &outcome);
	assert_string_equal(outcome.error_code, "timeout");
	assert_string_equal(outcome.error, "timed out after 30s: last");
	jr_outcome_release(&outcome);
	judge(trial, JR_EV_CANCEL, JR_FAIL, 0, &outcome);
	assert_string_equal(outcome.error_code, "cancelled");
	jr_outcome_release(&outcome);
	judge(trial, JR_EV_SHUTDOWN, JR_FAIL, 0, &outcome);
	assert_string_equal(outcome.error, "released: the runner was stopped");
	jr_outcome_release(&outcome);
	judge(trial, JR_EV_SHUTDOWN, JR_GIVE_UP, 0, &outcome);
	assert_string_equal(outcome.error_code, "exit:1");
	jr_outcome_release(&outcome);
	judge(trial, JR_EV_ENDED, JR_FAIL, 0, &outcome);
	assert_string_equal(outcome.error, "exit 1: no");
	jr_outcome_release(&outcome);
}

static int64_t
delay_of(struct trial *trial, enum jr_verdict verdict, int64_t retry_in_ms)
{
	struct jr_outcome outcome;
	int64_t delay_ms;

	judge(trial, JR_EV_ENDED, verdict, retry_in_ms, &outcome);
	delay_ms = outcome.delay_ms;
	jr_outcome_release(&outcome);
	return delay_ms;
}

static void
delays_are_backoff_and_what_the_handler_asks_for(void **state)
{
	struct trial *trial = *state;

	assert_in_range(delay_of(trial, JR_FAIL, 0), JR_BACKOFF_BASE_MS / 2, JR_BACKOFF_BASE_MS);
	trial->run.attempts = 3;
	assert_in_range(delay_of(trial, JR_FAIL, 0), JR_BACKOFF_BASE_MS * 2, JR_BACKOFF_BASE_MS * 4);
	trial->run.attempts = INT64_MAX;
	assert_in_range(delay_of(trial, JR_FAIL, 0), JR_BACKOFF_CAP_MS / 2, JR_BACKOFF_CAP_MS);
	trial->run.backoff_base_ms = 0;
	trial->run.backoff_cap_ms = 0;
	assert_int_equal(delay_of(trial, JR_FAIL, 0), 0);
	assert_int_equal(delay_of(trial, JR_LATER, 7000), 7000);
	assert_int_equal(delay_of(trial, JR_LATER, INT64_MAX), 86400000);
	trial->run.backoff_base_ms = 1000;
	trial->run.backoff_cap_ms = 600000;
	trial->run.snoozes = 2;
	assert_in_range(delay_of(trial, JR_LATER, 1), 2000, 4000);
	trial->run.snoozes = INT64_MAX;
	assert_in_range(delay_of(trial, JR_LATER, 1), 300000, 600000);
	trial->run.backoff_cap_ms = INT64_MAX;
	assert_int_equal(delay_of(trial, JR_LATER, 1), 86400000);
	assert_int_equal(delay_of(trial, JR_DONE, 7000), 0);
	assert_int_equal(delay_of(trial, JR_GIVE_UP, 7000), 0);
}

static void
a_failure_may_ask_for_a_longer_pause_but_for_no_shorter_one(void **state)
{
	struct trial *trial = *state;

	assert_int_equal(delay_of(trial, JR_FAIL, 600000), 600000);
	assert_in_range(delay_of(trial, JR_FAIL, 1), JR_BACKOFF_BASE_MS / 2, JR_BACKOFF_BASE_MS);
	assert_int_equal(delay_of(trial, JR_FAIL, INT64_MAX), 86400000);
}

static void
what_was_committed_is_told_whatever_the_reason(void **state)
{
	struct trial *trial = *state;

	for (int reason = 0; reason < JR_EV_COUNT; reason++) {
		struct jr_work_end end = {.verdict = JR_DONE, .settled = true};
		struct jr_outcome outcome;

		assert_true(
		    jr_attempt_judge((enum jr_attempt_event)reason, &end, &trial->run, &trial->random, &outcome));
		assert_int_equal(outcome.kind, JR_OUT_SUCCEEDED);
		assert_true(outcome.settled);
		assert_null(outcome.error_code);
		jr_outcome_release(&outcome);
	}
}

static void
what_is_written_with_the_effect_follows_the_reason_unless_it_was_done(void **state)
{
	struct trial *trial = *state;

	for (int reason = 0; reason < JR_EV_COUNT; reason++) {
		for (int verdict = JR_LATER; verdict <= JR_FAIL; verdict++) {
			struct jr_work_end end = {.verdict = (enum jr_verdict)verdict,
			    .settled = true,
			    .error_code = "sqlstate:P0001",
			    .error = "no"};
			int kind = expected_kind((enum jr_attempt_event)reason, (enum jr_verdict)verdict);
			struct jr_outcome outcome;

			assert_int_equal(jr_attempt_judge((enum jr_attempt_event)reason, &end, &trial->run,
					     &trial->random, &outcome),
			    kind >= 0);
			if (kind < 0)
				continue;
			assert_int_equal(outcome.kind, kind);
			assert_true(outcome.settled);
			jr_outcome_release(&outcome);
		}
	}
}

/* Even of one that is lost: somebody has to read what became of it. */
static void
doubt_comes_to_something_whatever_the_reason(void **state)
{
	struct trial *trial = *state;
	struct jr_work_end end = {.verdict = JR_LATER, .in_doubt = true, .error_code = "sqlstate:08007", .error = "?"};

	for (int reason = 0; reason < JR_EV_COUNT; reason++) {
		struct jr_outcome outcome;

		assert_true(
		    jr_attempt_judge((enum jr_attempt_event)reason, &end, &trial->run, &trial->random, &outcome));
		assert_int_not_equal(outcome.kind, JR_OUT_SUCCEEDED);
		assert_false(outcome.settled);
		jr_outcome_release(&outcome);
	}
}

static void
what_the_handler_said_is_handed_on(void **state)
{
	struct trial *trial = *state;
	struct jr_work_end end = {.verdict = JR_LATER,
	    .error_code = "sqlstate:P0001",
	    .error = "no",
	    .progress = "{\"progress\": 1}",
	    .checkpoint = "{\"checkpoint\": 2}"};
	struct jr_outcome outcome;

	assert_true(jr_attempt_judge(JR_EV_ENDED, &end, &trial->run, &trial->random, &outcome));
	assert_int_equal(outcome.kind, JR_OUT_LATER);
	assert_false(outcome.settled);
	assert_string_equal(outcome.progress, end.progress);
	assert_string_equal(outcome.checkpoint, end.checkpoint);
	jr_outcome_release(&outcome);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_reason_decides_what_an_end_means),
	    TEST(codes_and_texts_follow_the_reason),
	    TEST(delays_are_backoff_and_what_the_handler_asks_for),
	    TEST(a_failure_may_ask_for_a_longer_pause_but_for_no_shorter_one),
	    TEST(what_was_committed_is_told_whatever_the_reason),
	    TEST(what_is_written_with_the_effect_follows_the_reason_unless_it_was_done),
	    TEST(doubt_comes_to_something_whatever_the_reason),
	    TEST(what_the_handler_said_is_handed_on),
	};

	return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}
