/*
 * runner_beat: the heartbeat of all that is held, in one statement. See runner_parts.h.
 *
 * What must hold: only "gone" stops a handler here; a run whose row is locked is asked for again soon, and it costs the
 * others nothing. A run that is lost or in doubt is not renewed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define BUSY_MS 1000 /* a run whose row somebody has locked is asked for again */
#define SOON_MS 100  /* between two heartbeats, however many cancels are asked for */

static bool
is_beaten(const struct jr_held *held)
{
	return !held->lost && !held->in_doubt && !(held->attempt != NULL && jr_attempt_is_lost(held->attempt));
}

static int64_t
busy_ms(const struct jr_runner *runner)
{
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	return half < BUSY_MS ? half : BUSY_MS;
}

static void
beat_by(struct jr_runner *runner, int64_t at_ms)
{
	if (runner->held_count == 0)
		return;
	if (at_ms < runner->beat_at_ms)
		runner->beat_at_ms = at_ms;
	jr_runner_wake_at(runner, runner->beat_at_ms);
}

void
jr_held_beat_soon(struct jr_runner *runner)
{
	if (runner->held_count > 0)
		runner->beat_wanted = true;
}

/* Set once and moved by each answer; a cancel that was asked for meanwhile does not wait for it. */
static int64_t
next_beat(const struct jr_runner *runner)
{
	int64_t soon_ms = runner->beat_sent_ms + SOON_MS;

	if (runner->held_count == 0)
		return JR_NEVER;
	return runner->beat_wanted && soon_ms < runner->beat_at_ms ? soon_ms : runner->beat_at_ms;
}

static void
renew(struct jr_held *held, int64_t sent_ms)
{
	const struct jr_lease *lease = &held->runner->opts->lease;

	held->fence_at_ms = jr_lease_fence_at(lease, sent_ms);
	if (held->phase == JR_HELD_RUNNING)
		jr_attempt_renew(held->attempt, jr_exec_fence(held->runner, held->fence_at_ms));
}

/*
 * A sql handler's commit ends its own run, and the answer to it may still be on its way. There is no harm in asking once
 * more: if the claim is lost, the server lets nothing of it be committed.
 */
static bool
may_have_settled(struct jr_held *held)
{
	bool first = !held->missed;

	held->missed = true;
	return first && held->phase == JR_HELD_RUNNING && held->seat != NULL && held->seat->pool == JR_POOL_SQL;
}

static void
take_beat(struct jr_runner *runner, const struct jr_beat_row *row, int64_t sent_ms)
{
	struct jr_held *held = jr_held_find(runner, row->id, row->claim_seq);

	if (held == NULL || held->lost)
		return;
	switch (row->beat) {
	case JR_BEAT_GONE:
		if (held->unanswered)
			held->in_doubt = true;
		else if (may_have_settled(held))
			beat_by(runner, jr_clock_now_ms() + busy_ms(runner));
		else
			jr_held_lose(held, "somebody else holds it");
		return;
	case JR_BEAT_BUSY:
		beat_by(runner, jr_clock_now_ms() + busy_ms(runner));
		break;
	case JR_BEAT_RENEWED:
		renew(held, sent_ms);
		break;
	}
	if (row->cancel && held->phase == JR_HELD_RUNNING)
		jr_attempt_event(held->attempt, JR_EV_CANCEL);
}

static void
on_beat(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	const struct jr_lease *lease = &runner->opts->lease;

	runner->beat_at_ms = JR_NEVER;
	if (reply->end == JR_PG_DONE) {
		beat_by(runner, reply->sent_ms + lease->heartbeat_ms);
		for (size_t i = 0; i < jr_queue_count_beats(reply->results[0]); i++) {
			struct jr_beat_row row = jr_queue_read_beat(reply->results[0], i);

			take_beat(runner, &row, reply->sent_ms);
		}
		jr_claim_reset(runner);
		jr_tell_collect(runner);
	} else {
		jr_log(JR_INFO, "heartbeat_failed", JR_S("error", reply->err.msg));
		beat_by(runner, jr_clock_now_ms() + busy_ms(runner));
	}
	jr_runner_pump(runner);
}

bool
jr_held_try_heartbeat(struct jr_runner *runner)
{
	struct jr_held_list list;
	struct jr_batch *batch;
	int64_t now = jr_clock_now_ms();

	if (now < next_beat(runner)) {
		jr_runner_wake_at(runner, next_beat(runner));
		return false;
	}
	runner->beat_wanted = false;
	runner->beat_sent_ms = now;
	list = jr_held_select(runner, is_beaten);
	if (list.count > 0) {
		batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_beat, runner);
		jr_queue_add_heartbeat(batch, runner->facts.id, list.runs, list.count, runner->opts->lease.lease_ms);
		jr_queue_add_runner_seen(batch, runner->facts.id);
		jr_pg_submit(runner->pg, batch);
	} else {
		runner->beat_at_ms = now + busy_ms(runner);
		jr_runner_wake_at(runner, runner->beat_at_ms);
	}
	jr_held_list_release(&list);
	return !jr_pg_is_idle(runner->pg);
}
