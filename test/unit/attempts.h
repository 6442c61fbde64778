/*
 * attempts: an attempt with a handler kind that does nothing but remember what it was asked for.
 */
#ifndef JR_TEST_ATTEMPTS_H
#define JR_TEST_ATTEMPTS_H

#include "expected.h"
#include "processes.h"
#include "runner/attempt.h"

/* What the fake handler was asked for. */
struct fake {
	struct jr_work work; /* first */
	struct jr_owner owner;
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
	bool in_doubt;
	enum jr_outcome_kind doubt_kind;
	char doubt_error[256];
};

static struct fake fake;

static inline struct jr_work *
fake_start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	(void)host;
	(void)handler;
	(void)run;
	if (fake.refuse) {
		jr_fail(err, JR_E_CONFIG, "cannot start /h/x: Exec format error");
		return NULL;
	}
	fake.owner = *owner;
	fake.deadline_ms = deadline_ms;
	fake.run_deadline_ms = run_deadline_ms;
	return &fake.work;
}

static inline void
fake_stop(struct jr_work *work, bool kill)
{
	(void)work;
	fake.terms += !kill;
	fake.kills += kill;
}

static inline void
fake_move(struct jr_work *work, int64_t deadline_ms)
{
	(void)work;
	fake.moves++;
	fake.deadline_ms = deadline_ms;
}

static inline void
fake_free(struct jr_work *work)
{
	(void)work;
	fake.frees++;
}

static const struct jr_handler_kind fake_kind = {
    .name = "fake", .start = fake_start, .stop = fake_stop, .move = fake_move, .free = fake_free};

static inline void
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
	trial->in_doubt = outcome->doubt != NULL;
	if (outcome->doubt == NULL)
		return;
	trial->doubt_kind = outcome->doubt->kind;
	(void)snprintf(trial->doubt_error, sizeof(trial->doubt_error), "%s",
	    outcome->doubt->error != NULL ? outcome->doubt->error : "");
}

static inline int
set_up(void **state)
{
	struct trial *trial = jr_xcalloc(1, sizeof(*trial));
	struct jr_err err;

	fake = (struct fake){.work = {&fake_kind}};
	trial->host.loop = jr_loop_new(&err);
	trial->handler = (struct jr_handler){
	    .kind = &fake_kind,
	};
	jr_settings_init(&trial->handler.settings);
	trial->run = example_run();
	jr_random_seed(&trial->random, 1);
	*state = trial;
	return trial->host.loop != NULL ? 0 : -1;
}

static inline int
tear_down(void **state)
{
	struct trial *trial = *state;

	jr_attempt_free(trial->attempt);
	if (trial->host.outs != NULL)
		jr_handler_exec.close(&trial->host);
	jr_loop_free(trial->host.loop);
	free(trial);
	return 0;
}

static inline void
start(struct trial *trial, int64_t fence_at_ms, int64_t kill_ms)
{
	struct jr_attempt_setup setup = {.host = &trial->host,
	    .handler = &trial->handler,
	    .run = &trial->run,
	    .random = &trial->random,
	    .fence_at_ms = fence_at_ms,
	    .kill_ms = kill_ms,
	    .ended = on_ended,
	    .ctx = trial};

	trial->attempt = jr_attempt_start(&setup);
	assert_non_null(trial->attempt);
	assert_false(trial->ended);
}

static inline void
end_work(enum jr_verdict verdict)
{
	static const struct {
		int status;
		const char *code, *error;
	} ends[] = {
	    [JR_DONE] = {0, NULL, NULL},
	    [JR_LATER] = {75, "exit:75", "exit 75"},
	    [JR_GIVE_UP] = {65, "exit:65", "exit 65: bad"},
	    [JR_FAIL] = {1, "exit:1", "exit 1: no"},
	};
	struct jr_work_end end = {.verdict = verdict,
	    .has_exit = true,
	    .exit_status = ends[verdict].status,
	    .pid = 77,
	    .cpu_ms = 3,
	    .max_rss_kb = 4,
	    .output_dropped = 5,
	    .error_code = ends[verdict].code,
	    .error = ends[verdict].error,
	    .output = "one\ntwo\n"};

	fake.owner.ended(fake.owner.ctx, &end);
}

static inline void
reset(struct trial *trial)
{
	jr_attempt_free(trial->attempt);
	trial->attempt = NULL;
	trial->ended = trial->lost = false;
	trial->ends = 0;
	fake = (struct fake){.work = {&fake_kind}};
}

#endif
