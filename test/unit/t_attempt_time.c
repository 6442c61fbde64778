/*
 * attempt: its timers, and a start that fails.
 */
#include "attempts.h"
#include "handler/trust.h"

static void
a_failed_start_is_told_from_the_loop(void **state)
{
	struct trial *trial = *state;

	fake.refuse = true;
	start(trial, JR_NEVER, 1000);
	jr_attempt_renew(trial->attempt, JR_NEVER);
	turn_until(trial->host.loop, &trial->ended);
	assert_int_equal(trial->ends, 1);
	assert_int_equal(trial->outcome.kind, JR_OUT_FAILED);
	assert_string_equal(trial->code, "cannot-start");
	assert_string_equal(trial->error, "cannot start /h/x: Exec format error");
	assert_false(trial->outcome.has_exit);
	assert_true(trial->outcome.delay_ms > 0);
	reset(trial);
	fake.refuse = true;
	start(trial, JR_NEVER, 1000);
	jr_attempt_event(trial->attempt, JR_EV_SHUTDOWN);
	turn_until(trial->host.loop, &trial->ended);
	assert_int_equal(trial->outcome.kind, JR_OUT_RELEASED);
}

static void
timeout_then_term_then_kill(void **state)
{
	struct trial *trial = *state;
	bool killed = false;

	trial->run.timeout_ms = 20;
	trial->handler.settings.timeout_ms = 100000;
	trial->handler.settings.grace_ms = 30;
	start(trial, JR_NEVER, 1000);
	assert_true(fake.run_deadline_ms <= jr_clock_now_ms() + 20);
	for (int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS; !killed; killed = fake.kills > 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		turn_for(trial->host.loop, 5);
	}
	assert_int_equal(fake.terms, 1);
	end_work(JR_DONE);
	assert_int_equal(trial->outcome.kind, JR_OUT_FAILED);
	assert_string_equal(trial->code, "timeout");
	assert_string_equal(trial->error, "timed out after 20ms: two");
}

static void
no_timeout_is_longer_than_the_handlers_most(void **state)
{
	static const struct {
		int64_t run_ms, handler_ms, most_ms, in_force_ms;
	} cases[] = {{60000, -1, 9000, 9000}, {0, -1, 9000, 9000}, {-1, -1, 9000, 9000}, {-1, 60000, 9000, 9000},
	    {-1, 0, 9000, 9000}, {5000, 60000, 9000, 5000}, {-1, 5000, 9000, 5000}, {60000, 5000, -1, 60000}};
	struct trial *trial = *state;

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		int64_t before_ms = jr_clock_now_ms();

		trial->run.timeout_ms = cases[i].run_ms;
		trial->handler.settings.timeout_ms = cases[i].handler_ms;
		trial->handler.settings.timeout_max_ms = cases[i].most_ms;
		start(trial, JR_NEVER, 1000);
		assert_true(fake.run_deadline_ms >= before_ms + cases[i].in_force_ms);
		assert_true(fake.run_deadline_ms <= jr_clock_now_ms() + cases[i].in_force_ms);
		reset(trial);
	}
}

static void
no_timeout_means_none_and_the_handlers_is_second(void **state)
{
	struct trial *trial = *state;

	start(trial, JR_NEVER, 1000);
	assert_true(fake.run_deadline_ms == JR_NEVER);
	reset(trial);
	trial->handler.settings.timeout_ms = 5000;
	start(trial, JR_NEVER, 1000);
	assert_true(fake.run_deadline_ms <= jr_clock_now_ms() + 5000);
	jr_attempt_event(trial->attempt, JR_EV_TIMEOUT);
	end_work(JR_FAIL);
	assert_string_equal(trial->error, "timed out after 5s: two");
	reset(trial);
	trial->run.timeout_ms = 0; /* said to be none */
	start(trial, JR_NEVER, 1000);
	assert_true(fake.run_deadline_ms == JR_NEVER);
}

static void
the_fence_loses_the_attempt_unless_it_is_renewed(void **state)
{
	struct trial *trial = *state;
	int64_t fence_ms = jr_clock_now_ms() + 40;

	start(trial, fence_ms, 20);
	assert_true(fake.deadline_ms == fence_ms + 20);
	jr_attempt_renew(trial->attempt, fence_ms + 60);
	assert_int_equal(fake.moves, 1);
	assert_true(fake.deadline_ms == fence_ms + 80);
	for (int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS; fake.kills == 0;) {
		assert_true(jr_clock_now_ms() < end_ms);
		turn_for(trial->host.loop, 5);
	}
	assert_true(jr_clock_now_ms() >= fence_ms + 80);
	jr_attempt_renew(trial->attempt, JR_NEVER); /* too late: what is lost stays lost */
	assert_int_equal(fake.moves, 1);
	end_work(JR_DONE);
	assert_true(trial->ended && trial->lost);
}

static void
losing_the_lease_shortens_the_grace(void **state)
{
	struct trial *trial = *state;

	start(trial, JR_NEVER, 10);
	jr_attempt_event(trial->attempt, JR_EV_SHUTDOWN); /* 10 s */
	jr_attempt_event(trial->attempt, JR_EV_LOST);
	for (int64_t end_ms = jr_clock_now_ms() + 5000; fake.kills == 0;) {
		assert_true(jr_clock_now_ms() < end_ms);
		turn_for(trial->host.loop, 5);
	}
	end_work(JR_DONE);
	assert_true(trial->lost);
}

/* Frees the attempt inside `ended`, as the runner may. */
static void
on_ended_free(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome)
{
	bool *ended = ctx;

	assert_int_equal(outcome->kind, JR_OUT_FAILED);
	jr_attempt_free(attempt);
	assert_string_equal(outcome->error_code, "timeout");
	*ended = true;
}

static void
a_real_handler_that_ignores_term_times_out_and_is_freed_at_its_end(void **state)
{
	struct trial *trial = *state;
	struct jr_err err;
	char *directory = make_directory();
	struct jr_attempt_setup setup = {.host = &trial->host,
	    .handler = &trial->handler,
	    .run = &trial->run,
	    .random = &trial->random,
	    .fence_at_ms = JR_NEVER,
	    .kill_ms = 1000,
	    .ended = on_ended_free,
	    .ctx = &trial->ended};

	trial->host.watchdog = jr_watchdog_start(&err);
	assert_non_null(trial->host.watchdog);
	trial->handler.kind = &jr_handler_exec;
	trial->handler.directory = directory;
	trial->handler.trust = jr_trust_new();
	trial->handler.path =
	    make_file(directory, "job", "#!/bin/sh\ntrap '' TERM\nsleep 300 &\nwhile :; do sleep 300; done\n", 0755);
	trial->handler.settings.grace_ms = 50;
	trial->run.payload = (char *)(uintptr_t) "{}";
	trial->run.timeout_ms = 50;
	assert_non_null(jr_attempt_start(&setup));
	turn_until(trial->host.loop, &trial->ended);
	jr_watchdog_free(trial->host.watchdog);
	jr_trust_free(trial->handler.trust);
	free(trial->handler.path);
	remove_directory(directory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_failed_start_is_told_from_the_loop),
	    TEST(timeout_then_term_then_kill),
	    TEST(no_timeout_is_longer_than_the_handlers_most),
	    TEST(no_timeout_means_none_and_the_handlers_is_second),
	    TEST(the_fence_loses_the_attempt_unless_it_is_renewed),
	    TEST(losing_the_lease_shortens_the_grace),
	    TEST(a_real_handler_that_ignores_term_times_out_and_is_freed_at_its_end),
	};

	return cmocka_run_group_tests_name("attempt_time", tests, NULL, NULL);
}
