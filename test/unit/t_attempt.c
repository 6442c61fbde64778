/*
 * attempt: the table of states and events with a handler kind that does nothing, and the judgement of every end.
 */
#include "attempt.h"
#include "processes.h"

#include <sys/wait.h>

/* What the fake handler was asked for. */
struct fake {
	struct jr_work work; /* first */
	jr_work_fn *ended;
	void *ctx;
	int terms, kills, moves, frees;
	int64_t deadline_ms, run_deadline_ms;
	bool refuse;
};

/* One attempt under test and what came out of it. */
struct trial {
	struct jr_host host;
	struct jr_handler handler;
	struct jr_run run;
	struct jr_random random;
	struct jr_attempt *attempt;
	bool ended;
	int ends;
	bool lost;
	struct jr_outcome outcome; /* borrowed strings are copied to these */
	char code[64], error[256];
};

static struct fake fake;

static struct jr_work *
fake_start(const struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, jr_work_fn *ended, void *ctx, struct jr_err *err)
{
	(void)host;
	(void)handler;
	(void)run;
	if (fake.refuse) {
		jr_fail(err, JR_E_CONFIG, "cannot start /h/x: Exec format error");
		return NULL;
	}
	fake.ended = ended;
	fake.ctx = ctx;
	fake.deadline_ms = deadline_ms;
	fake.run_deadline_ms = run_deadline_ms;
	return &fake.work;
}

static void
fake_stop(struct jr_work *work, bool kill)
{
	(void)work;
	fake.terms += !kill;
	fake.kills += kill;
}

static void
fake_move(struct jr_work *work, int64_t deadline_ms)
{
	(void)work;
	fake.moves++;
	fake.deadline_ms = deadline_ms;
}

static void
fake_free(struct jr_work *work)
{
	(void)work;
	fake.frees++;
}

static const struct jr_handler_kind fake_kind = { "fake", fake_start, fake_stop, fake_move, fake_free };

static void
on_ended(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome)
{
	struct trial *trial = ctx;

	assert_ptr_equal(attempt, trial->attempt);
	assert_int_equal(jr_attempt_state(attempt), JR_ST_ENDED);
	trial->ended = true;
	trial->ends++;
	trial->lost = outcome == NULL;
	if (outcome == NULL)
		return;
	trial->outcome = *outcome;
	(void)snprintf(trial->code, sizeof(trial->code), "%s", outcome->error_code != NULL ? outcome->error_code : "");
	(void)snprintf(trial->error, sizeof(trial->error), "%s", outcome->error != NULL ? outcome->error : "");
}

static struct jr_run
example_run(void)
{
	return (struct jr_run){ .id = 1, .attempts = 1, .max_attempts = 5, .timeout_ms = -1, .grace_ms = -1,
		.backoff_base_ms = -1, .backoff_cap_ms = -1 };
}

static int
set_up(void **state)
{
	struct trial *trial = jr_xcalloc(1, sizeof(*trial));
	struct jr_err err;

	fake = (struct fake){ .work = { &fake_kind } };
	trial->host.loop = jr_loop_new(&err);
	trial->handler = (struct jr_handler){ .kind = &fake_kind, .timeout_ms = -1, .grace_ms = -1 };
	trial->run = example_run();
	jr_random_seed(&trial->random, 1);
	*state = trial;
	return trial->host.loop != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	struct trial *trial = *state;

	jr_attempt_free(trial->attempt);
	jr_loop_free(trial->host.loop);
	free(trial);
	return 0;
}

static void
start(struct trial *trial, int64_t fence_at_ms, int64_t kill_ms)
{
	struct jr_attempt_setup setup = { .host = &trial->host, .handler = &trial->handler, .run = &trial->run,
		.random = &trial->random, .fence_at_ms = fence_at_ms, .kill_ms = kill_ms, .ended = on_ended, .ctx = trial };

	trial->attempt = jr_attempt_start(&setup);
	assert_non_null(trial->attempt);
	assert_false(trial->ended);
}

static void
end_work(enum jr_verdict verdict)
{
	static const struct {
		int status;
		const char *code, *error;
	} ends[] = {
		[JR_DONE] = { 0, NULL, NULL },
		[JR_LATER] = { 75, "exit:75", "exit 75" },
		[JR_GIVE_UP] = { 65, "exit:65", "exit 65: bad" },
		[JR_FAIL] = { 1, "exit:1", "exit 1: no" },
	};
	struct jr_work_end end = { .verdict = verdict, .has_exit = true, .exit_status = ends[verdict].status, .pid = 77,
		.cpu_ms = 3, .max_rss_kb = 4, .output_dropped = 5, .error_code = ends[verdict].code,
		.error = ends[verdict].error, .output = "one\ntwo\n" };

	fake.ended(fake.ctx, &end);
}

/* What the header's table says of an end after `reason`; -1: nothing is written. */
static int
expected_kind(enum jr_attempt_event reason, enum jr_verdict verdict)
{
	switch (reason) {
	case JR_EV_LOST:
		return -1;
	case JR_EV_TIMEOUT:
		return JR_OUT_FAILED;
	case JR_EV_CANCEL:
		return verdict == JR_DONE ? JR_OUT_SUCCEEDED : JR_OUT_CANCELLED;
	case JR_EV_SHUTDOWN:
		if (verdict == JR_DONE)
			return JR_OUT_SUCCEEDED;
		return verdict == JR_GIVE_UP ? JR_OUT_DEAD : JR_OUT_RELEASED;
	case JR_EV_ENDED:
	case JR_EV_OVERDUE:
	case JR_EV_COUNT:
	default:
		break;
	}
	if (verdict == JR_DONE)
		return JR_OUT_SUCCEEDED;
	if (verdict == JR_LATER)
		return JR_OUT_LATER;
	return verdict == JR_GIVE_UP ? JR_OUT_DEAD : JR_OUT_FAILED;
}

static void
the_reason_decides_what_an_end_means(void **state)
{
	struct trial *trial = *state;

	for (int reason = 0; reason < JR_EV_COUNT; reason++) {
		for (int verdict = JR_DONE; verdict <= JR_FAIL; verdict++) {
			struct jr_work_end end = { .verdict = (enum jr_verdict)verdict, .has_exit = true, .exit_status = 9,
				.pid = 77, .error_code = verdict == JR_DONE ? NULL : "exit:9",
				.error = verdict == JR_DONE ? NULL : "exit 9", .output = "out", .result = "{}" };
			int kind = expected_kind((enum jr_attempt_event)reason, (enum jr_verdict)verdict);
			struct jr_outcome outcome;

			assert_int_equal(jr_attempt_judge((enum jr_attempt_event)reason, &end, &trial->run, &trial->random,
					     &outcome),
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
	struct jr_work_end end = { .verdict = verdict, .error_code = "exit:1", .error = "exit 1: no", .output = "a\nlast\n",
		.retry_in_ms = retry_in_ms };

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
reset(struct trial *trial)
{
	jr_attempt_free(trial->attempt);
	trial->attempt = NULL;
	trial->ended = trial->lost = false;
	trial->ends = 0;
	fake = (struct fake){ .work = { &fake_kind } };
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
		{ JR_ST_RUNNING, JR_EV_TIMEOUT, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_RUNNING, JR_EV_CANCEL, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_RUNNING, JR_EV_SHUTDOWN, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_RUNNING, JR_EV_LOST, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_RUNNING, JR_EV_OVERDUE, JR_ST_RUNNING, 0, 0 },
		{ JR_ST_STOPPING, JR_EV_TIMEOUT, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_STOPPING, JR_EV_CANCEL, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_STOPPING, JR_EV_SHUTDOWN, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_STOPPING, JR_EV_LOST, JR_ST_STOPPING, 1, 0 },
		{ JR_ST_STOPPING, JR_EV_OVERDUE, JR_ST_KILLING, 1, 1 },
		{ JR_ST_KILLING, JR_EV_TIMEOUT, JR_ST_KILLING, 1, 1 },
		{ JR_ST_KILLING, JR_EV_CANCEL, JR_ST_KILLING, 1, 1 },
		{ JR_ST_KILLING, JR_EV_SHUTDOWN, JR_ST_KILLING, 1, 1 },
		{ JR_ST_KILLING, JR_EV_LOST, JR_ST_KILLING, 1, 1 },
		{ JR_ST_KILLING, JR_EV_OVERDUE, JR_ST_KILLING, 1, 2 },
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

/* Replay of the rules on the reason alone, beside the attempt: the first stays, lost replaces every other. */
static void
random_events_give_one_outcome_or_none(void **state)
{
	static const enum jr_attempt_event events[] = { JR_EV_TIMEOUT, JR_EV_CANCEL, JR_EV_SHUTDOWN, JR_EV_LOST,
		JR_EV_OVERDUE };
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
	trial->handler.timeout_ms = 100000;
	trial->handler.grace_ms = 30;
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
no_timeout_means_none_and_the_handlers_is_second(void **state)
{
	struct trial *trial = *state;

	start(trial, JR_NEVER, 1000);
	assert_true(fake.run_deadline_ms == JR_NEVER);
	reset(trial);
	trial->handler.timeout_ms = 5000;
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
	struct jr_attempt_setup setup = { .host = &trial->host, .handler = &trial->handler, .run = &trial->run,
		.random = &trial->random, .fence_at_ms = JR_NEVER, .kill_ms = 1000, .ended = on_ended_free,
		.ctx = &trial->ended };

	trial->host.keeper = jr_keeper_start(&err);
	trial->handler.kind = &jr_handler_exec;
	trial->handler.directory = directory;
	trial->handler.path = make_file(directory, "job", "#!/bin/sh\ntrap '' TERM\nsleep 300 &\nwhile :; do sleep 300; done\n",
	    0755);
	trial->handler.grace_ms = 50;
	trial->run.payload = (char *)(uintptr_t)"{}";
	trial->run.timeout_ms = 50;
	assert_non_null(jr_attempt_start(&setup));
	turn_until(trial->host.loop, &trial->ended);
	jr_keeper_free(trial->host.keeper);
	free(trial->handler.path);
	remove_directory(directory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_reason_decides_what_an_end_means),
		TEST(codes_and_texts_follow_the_reason),
		TEST(delays_are_backoff_and_what_the_handler_asks_for),
		TEST(each_state_knows_each_event),
		TEST(random_events_give_one_outcome_or_none),
		TEST(what_the_work_cost_is_in_the_outcome),
		TEST(a_failed_start_is_told_from_the_loop),
		TEST(timeout_then_term_then_kill),
		TEST(no_timeout_means_none_and_the_handlers_is_second),
		TEST(the_fence_loses_the_attempt_unless_it_is_renewed),
		TEST(losing_the_lease_shortens_the_grace),
		TEST(freeing_frees_the_work),
		TEST(a_real_handler_that_ignores_term_times_out_and_is_freed_at_its_end),
	};

	return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
