/*
 * runner_core: how far the runner is, how it will exit, and when it looks again for something to send. See
 * runner_parts.h.
 */
#include "base/clock.h"
#include "base/err.h"
#include "runner/runner_parts.h"

#include <string.h>

#define REPEATS_MAX 100 /* of one answer */
#define END_MS 5000     /* how long a goodbye is repeated if it may have to give runs back */

void
jr_core_open(struct jr_runner *runner, struct jr_err *err, void (*wake)(void *runner))
{
	runner->core.err = err;
	jr_timer_init(&runner->core.wake, wake, runner);
}

void
jr_core_close(struct jr_runner *runner)
{
	jr_timer_cancel(&runner->core.wake);
}

enum jr_phase
jr_runner_phase(const struct jr_runner *runner)
{
	return runner->core.phase;
}

void
jr_runner_enter(struct jr_runner *runner, enum jr_phase phase)
{
	runner->core.phase = phase;
}

int
jr_runner_status(const struct jr_runner *runner)
{
	return runner->core.status;
}

void
jr_runner_fail(struct jr_runner *runner, const struct jr_err *err)
{
	struct jr_core *core = &runner->core;
	int status = jr_worse_status(core->status, (int)err->code);

	if (core->err->msg[0] == '\0' || status != core->status)
		*core->err = *err;
	core->status = status;
	core->draining = true;
}

void
jr_runner_warn(struct jr_runner *runner, enum jr_trouble trouble, const struct jr_err *err)
{
	struct jr_err *last = &runner->core.troubles[trouble];
	bool known = strcmp(last->msg, err->msg) == 0;

	*last = *err;
	if (!known && jr_runner_stays(runner) && runner->opts->troubled != NULL)
		runner->opts->troubled(runner->opts->ctx, err);
}

void
jr_runner_heal(struct jr_runner *runner, enum jr_trouble trouble, const char *words)
{
	struct jr_err was = runner->core.troubles[trouble];

	if (was.msg[0] == '\0')
		return;
	runner->core.troubles[trouble].msg[0] = '\0';
	if (jr_runner_stays(runner) && runner->opts->healed != NULL)
		runner->opts->healed(runner->opts->ctx, &was, words);
}

void
jr_runner_fail_troubled(struct jr_runner *runner)
{
	for (size_t i = 0; i < JR_TROUBLE_COUNT; i++) {
		if (runner->core.troubles[i].msg[0] != '\0')
			jr_runner_fail(runner, &runner->core.troubles[i]);
	}
}

void
jr_runner_fail_gone(struct jr_runner *runner)
{
	struct jr_err err;

	jr_fail(&err, JR_E_TEMP, "somebody has deleted the row of this runner, or ended it");
	jr_runner_fail(runner, &err);
}

void
jr_runner_note_seen(struct jr_runner *runner, bool here)
{
	if (!here && !jr_runner_is_draining(runner) && !jr_runner_is_single(runner))
		jr_runner_fail_gone(runner);
}

void
jr_runner_fail_job(struct jr_runner *runner, const char *why)
{
	struct jr_err err;

	if (runner->opts->job_id == 0)
		return;
	jr_unstarted_fail(runner->opts->job_id, why, &err);
	jr_runner_fail(runner, &err);
}

bool
jr_runner_repeats(struct jr_runner *runner, struct jr_repeat *repeat, const char *statement, const PGresult *result)
{
	uint64_t hash = jr_form_hash(result);
	bool same = PQntuples(result) > 0 && hash == repeat->hash;
	struct jr_err err;

	repeat->count = same ? repeat->count + 1 : 1;
	repeat->hash = hash;
	if (repeat->count < REPEATS_MAX)
		return false;
	jr_fail(&err, JR_E_BUG, "%s gave the same rows %d times in a row: " JR_NONSENSE_HINT, statement, REPEATS_MAX);
	jr_runner_fail(runner, &err);
	return true;
}

void
jr_runner_drain(struct jr_runner *runner)
{
	runner->core.draining = true;
}

void
jr_runner_signal(struct jr_runner *runner)
{
	runner->core.signalled = true;
	runner->core.draining = true;
}

void
jr_runner_hurry(struct jr_runner *runner)
{
	runner->core.hurried = true;
	runner->core.status = 130;
}

bool
jr_runner_is_draining(const struct jr_runner *runner)
{
	return runner->core.draining;
}

bool
jr_runner_is_signalled(const struct jr_runner *runner)
{
	return runner->core.signalled;
}

bool
jr_runner_is_hurried(const struct jr_runner *runner)
{
	return runner->core.hurried;
}

void
jr_runner_stay(struct jr_runner *runner, bool stays)
{
	runner->core.stays = stays;
}

bool
jr_runner_stays(const struct jr_runner *runner)
{
	return runner->core.stays;
}

void
jr_runner_wake_at(struct jr_runner *runner, int64_t at_ms)
{
	if (at_ms < runner->core.wake.at_ms)
		jr_timer_set(runner->loop, &runner->core.wake, at_ms);
}

bool
jr_runner_may_end_later(struct jr_runner *runner, int64_t at_ms)
{
	struct jr_core *core = &runner->core;

	if (core->end_until_ms == 0)
		core->end_until_ms = jr_clock_after(jr_clock_now_ms(), END_MS);
	return !core->hurried && at_ms <= core->end_until_ms;
}

bool
jr_runner_is_single(const struct jr_runner *runner)
{
	return runner->opts->job_id > 0 || runner->opts->exec != NULL;
}

void
jr_runner_show_counts(struct jr_runner *runner)
{
	if (runner->opts->progress != NULL)
		runner->opts->progress(runner->opts->ctx, &runner->counts);
}
