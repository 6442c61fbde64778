/*
 * attempt: the table of states and events.
 */
#include "attempts.h"

/* Lead a new attempt into a state. */
static void
lead_to(struct trial *trial, enum jr_attempt_state state)
{
	start(trial, JR_NEVER, 1000);
	if (state == JR_ST_STOPPING || state == JR_ST_KILLING)
		jr_attempt_event(trial->attempt, JR_EV_CANCEL);
	if (state == JR_ST_KILLING)
		jr_attempt_event(trial->attempt, JR_EV_OVERDUE);
	assert_int_equal(jr_attempt_state(trial->attempt), state);
}

static void
each_state_knows_each_event(void **state)
{
	static const struct {
		enum jr_attempt_state from;
		enum jr_attempt_event event;
		enum jr_attempt_state to;
		int terms, kills;
	} cells[] = {
	    {JR_ST_RUNNING, JR_EV_TIMEOUT, JR_ST_STOPPING, 1, 0},
	    {JR_ST_RUNNING, JR_EV_CANCEL, JR_ST_STOPPING, 1, 0},
	    {JR_ST_RUNNING, JR_EV_SHUTDOWN, JR_ST_STOPPING, 1, 0},
	    {JR_ST_RUNNING, JR_EV_LOST, JR_ST_STOPPING, 1, 0},
	    {JR_ST_RUNNING, JR_EV_OVERDUE, JR_ST_RUNNING, 0, 0},
	    {JR_ST_STOPPING, JR_EV_TIMEOUT, JR_ST_STOPPING, 1, 0},
	    {JR_ST_STOPPING, JR_EV_CANCEL, JR_ST_STOPPING, 1, 0},
	    {JR_ST_STOPPING, JR_EV_SHUTDOWN, JR_ST_STOPPING, 1, 0},
	    {JR_ST_STOPPING, JR_EV_LOST, JR_ST_STOPPING, 1, 0},
	    {JR_ST_STOPPING, JR_EV_OVERDUE, JR_ST_KILLING, 1, 1},
	    {JR_ST_KILLING, JR_EV_TIMEOUT, JR_ST_KILLING, 1, 1},
	    {JR_ST_KILLING, JR_EV_CANCEL, JR_ST_KILLING, 1, 1},
	    {JR_ST_KILLING, JR_EV_SHUTDOWN, JR_ST_KILLING, 1, 1},
	    {JR_ST_KILLING, JR_EV_LOST, JR_ST_KILLING, 1, 1},
	    {JR_ST_KILLING, JR_EV_OVERDUE, JR_ST_KILLING, 1, 2},
	};
	struct trial *trial = *state;

	for (size_t i = 0; i < JR_COUNT(cells); i++) {
		lead_to(trial, cells[i].from);
		jr_attempt_event(trial->attempt, cells[i].event);
		assert_int_equal(jr_attempt_state(trial->attempt), cells[i].to);
		assert_int_equal(fake.terms, cells[i].terms);
		assert_int_equal(fake.kills, cells[i].kills);
		end_work(JR_FAIL);
		assert_int_equal(trial->ends, 1);
		assert_int_equal(trial->lost, cells[i].event == JR_EV_LOST);
		reset(trial);
	}
}

/*
 * Replay of the rules on the reason alone, beside the attempt: the first stays, lost replaces
 * every other.
 */
static void
random_events_give_one_outcome_or_none(void **state)
{
	static const enum jr_attempt_event events[] = {
	    JR_EV_TIMEOUT, JR_EV_CANCEL, JR_EV_SHUTDOWN, JR_EV_LOST, JR_EV_OVERDUE};
	struct trial *trial = *state;
	struct jr_random random;

	jr_random_seed(&random, 20261121);
	for (int i = 0; i < 10000; i++) {
		enum jr_verdict verdict = (enum jr_verdict)jr_random_below(&random, 4);
		enum jr_attempt_event reason = JR_EV_ENDED;
		uint64_t steps = jr_random_below(&random, 8);
		int kind;

		start(trial, JR_NEVER, 1000);
		for (uint64_t step = 0; step < steps; step++) {
			enum jr_attempt_event event = events[jr_random_below(&random, JR_COUNT(events))];

			jr_attempt_event(trial->attempt, event);
			if (event == JR_EV_LOST || (reason == JR_EV_ENDED && event != JR_EV_OVERDUE))
				reason = event;
			if (jr_random_below(&random, 4) == 0)
				jr_attempt_renew(trial->attempt, JR_NEVER);
		}
		assert_int_equal(trial->ends, 0);
		end_work(verdict);
		kind = expected_kind(reason, verdict);
		assert_int_equal(trial->ends, 1);
		assert_int_equal(trial->lost, kind < 0);
		if (kind >= 0)
			assert_int_equal(trial->outcome.kind, kind);
		assert_int_equal(fake.terms, reason == JR_EV_ENDED ? 0 : 1);
		reset(trial);
	}
}

static void
what_the_work_cost_is_in_the_outcome(void **state)
{
	struct trial *trial = *state;

	start(trial, JR_NEVER, 1000);
	end_work(JR_FAIL);
	assert_int_equal(trial->outcome.pid, 77);
	assert_int_equal(trial->outcome.cpu_ms, 3);
	assert_int_equal(trial->outcome.max_rss_kb, 4);
	assert_int_equal(trial->outcome.output_dropped, 5);
	assert_true(trial->outcome.has_exit);
	assert_string_equal(trial->code, "exit:1");
}

static void
a_handler_asks_what_its_end_comes_to(void **state)
{
	struct trial *trial = *state;
	struct jr_work_end end = {.verdict = JR_FAIL, .settled = true, .error_code = "exit:1", .error = "no"};
	struct jr_outcome outcome;

	start(trial, JR_NEVER, 10);
	for (int times = 0; times < 2; times++) { /* its transaction may have to be repeated */
		assert_true(fake.owner.judge(fake.owner.ctx, &end, &outcome));
		assert_int_equal(outcome.kind, JR_OUT_FAILED);
		assert_true(outcome.settled);
		assert_true(outcome.delay_ms > 0);
		jr_outcome_release(&outcome);
	}
	jr_attempt_event(trial->attempt, JR_EV_SHUTDOWN);
	assert_true(fake.owner.judge(fake.owner.ctx, &end, &outcome));
	assert_int_equal(outcome.kind, JR_OUT_RELEASED);
	jr_outcome_release(&outcome);
	jr_attempt_event(trial->attempt, JR_EV_LOST);
	assert_false(fake.owner.judge(fake.owner.ctx, &end, &outcome));
	assert_int_equal(trial->ends, 0);
	assert_int_equal(jr_attempt_state(trial->attempt), JR_ST_STOPPING);
}

/* Whatever has come in between: the server has it. */
static void
what_was_written_is_told_as_it_was(void **state)
{
	static const enum jr_attempt_event reasons[] = {JR_EV_TIMEOUT, JR_EV_CANCEL, JR_EV_SHUTDOWN, JR_EV_LOST};
	struct trial *trial = *state;

	for (size_t i = 0; i < JR_COUNT(reasons); i++) {
		struct jr_outcome written = {.settled = false};
		struct jr_work_end end = {.verdict = JR_FAIL, .settled = true, .error_code = "exit:1", .error = "no"};
		int64_t delay_ms;

		start(trial, JR_NEVER, 10);
		assert_true(fake.owner.judge(fake.owner.ctx, &end, &written));
		delay_ms = written.delay_ms;
		(void)snprintf(written.status, sizeof(written.status), "failed");
		jr_attempt_event(trial->attempt, reasons[i]);
		end.written = &written;
		fake.owner.ended(fake.owner.ctx, &end);
		assert_int_equal(trial->ends, 1);
		assert_false(trial->lost);
		assert_int_equal(trial->outcome.kind, JR_OUT_FAILED);
		assert_int_equal(trial->outcome.delay_ms, delay_ms);
		assert_string_equal(trial->outcome.status, "failed");
		assert_string_equal(trial->error, "no");
		jr_outcome_release(&written);
		reset(trial);
	}
}

/* Nobody knows: what it would have been goes along, also when the lease is lost. */
static void
what_may_have_been_written_is_told_with_the_outcome(void **state)
{
	static const enum jr_attempt_event reasons[] = {JR_EV_TIMEOUT, JR_EV_CANCEL, JR_EV_SHUTDOWN, JR_EV_LOST};
	struct trial *trial = *state;

	for (size_t i = 0; i < 2 * JR_COUNT(reasons); i++) {
		bool of_set = i >= JR_COUNT(reasons);
		struct jr_outcome written = {.settled = false};
		struct jr_work_end said = {.verdict = JR_FAIL, .settled = true, .error_code = "exit:1", .error = "no"};
		struct jr_work_end end = {
		    .verdict = JR_LATER, .in_doubt = true, .error_code = "sqlstate:08007", .error = "?"};

		start(trial, JR_NEVER, 10);
		assert_true(fake.owner.judge(fake.owner.ctx, &said, &written));
		jr_attempt_event(trial->attempt, reasons[i % JR_COUNT(reasons)]);
		end.written = of_set ? &written : NULL;
		fake.owner.ended(fake.owner.ctx, &end);
		assert_int_equal(trial->ends, 1);
		assert_false(trial->lost);
		assert_false(trial->outcome.settled);
		assert_true(trial->in_doubt);
		assert_int_equal(trial->doubt_kind, of_set ? JR_OUT_FAILED : JR_OUT_SUCCEEDED);
		assert_string_equal(trial->doubt_error, of_set ? "no" : "");
		jr_outcome_release(&written);
		reset(trial);
	}
}

static void
freeing_frees_the_work(void **state)
{
	struct trial *trial = *state;

	start(trial, JR_NEVER, 10);
	jr_attempt_free(trial->attempt);
	trial->attempt = NULL;
	assert_int_equal(fake.frees, 1);
	assert_false(trial->ended);
	jr_attempt_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(each_state_knows_each_event),
	    TEST(random_events_give_one_outcome_or_none),
	    TEST(what_the_work_cost_is_in_the_outcome),
	    TEST(a_handler_asks_what_its_end_comes_to),
	    TEST(what_was_written_is_told_as_it_was),
	    TEST(what_may_have_been_written_is_told_with_the_outcome),
	    TEST(freeing_frees_the_work),
	};

	return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
