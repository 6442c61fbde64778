/*
 * runner_heartbeat: one statement renews the leases of all that is held. See runner_parts.h.
 *
 * What must hold: a run that is lost or in doubt is not renewed, nor one whose handler has to stop now. Of the answers
 * only "gone" stops a handler; a run whose row another transaction has locked is asked for again soon, and it costs the
 * others nothing.
 */
#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define BUSY_MS 1000 /* a run whose row is locked is asked for again */
#define SOON_MS 100  /* between two heartbeats, however many cancels are asked for */

int64_t
jr_heartbeat_count(const struct jr_runner *runner)
{
	return runner->heartbeat.answered;
}

bool
jr_heartbeat_is_followed(const struct jr_held *held)
{
	return held->heartbeat.followed;
}

bool
jr_heartbeat_soon(struct jr_runner *runner)
{
	bool first = !runner->heartbeat.wanted;

	runner->heartbeat.wanted = jr_held_count(runner) > 0;
	return first;
}

static bool
is_renewed(const struct jr_held *held)
{
	enum jr_held_phase phase = jr_held_phase(held);

	return !jr_start_is_lost(held) && phase != JR_HELD_IN_DOUBT && phase != JR_HELD_GONE;
}

/* A handler whose fence has passed is about to be stopped: under a new lease nothing would work. */
static bool
is_worth_renewing(const struct jr_held *held)
{
	bool may_be_fenced = jr_held_phase(held) == JR_HELD_RUNNING && !jr_exec_goes_on(held->runner);

	return is_renewed(held) && !(may_be_fenced && jr_clock_now_ms() >= jr_held_fence_at(held));
}

static void
beat_again_soon(struct jr_runner *runner)
{
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	jr_held_beat_by(runner, jr_clock_now_ms() + (half < BUSY_MS ? half : BUSY_MS));
}

/* A cancel that was asked for does not wait for the next one. */
static int64_t
next_ms(const struct jr_runner *runner)
{
	int64_t at_ms = jr_held_beat_at(runner), soon_ms = runner->heartbeat.sent_ms + SOON_MS;

	if (jr_held_count(runner) == 0)
		return JR_NEVER;
	return runner->heartbeat.wanted && soon_ms < at_ms ? soon_ms : at_ms;
}

/*
 * A handler that settles itself may have committed already, and the answer is on its way. So the first `gone` is asked
 * again; if the claim is lost, the fence refuses the commit.
 */
static bool
may_have_settled(struct jr_held *held)
{
	bool first = !held->heartbeat.missed;

	held->heartbeat.missed = true;
	return first && jr_start_settles_itself(held);
}

/* If an earlier settle of the run was not answered, it may have been accepted: the row is read first. */
static void
take_gone(struct jr_held *held)
{
	if (jr_held_was_doubted(held))
		(void)!jr_held_move(held, JR_HELD_IN_DOUBT);
	else if (may_have_settled(held))
		beat_again_soon(held->runner);
	else
		jr_start_lose(held, "it is not held under this claim any more");
}

static void
take_row(struct jr_runner *runner, const struct jr_beat_row *row, int64_t sent_ms)
{
	struct jr_held *held = jr_held_find(runner, row->id, row->claim_seq);

	if (held == NULL || !is_renewed(held))
		return;
	held->heartbeat.followed = row->followed;
	if (row->beat == JR_BEAT_GONE) {
		take_gone(held);
		return;
	}
	if (row->beat == JR_BEAT_BUSY)
		beat_again_soon(runner);
	else
		jr_start_renew(held, sent_ms);
	if (row->cancel)
		jr_start_cancel(held);
}

static void
on_answer(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_held_forget_beat(runner);
	if (reply->end != JR_PG_DONE) {
		jr_log(JR_INFO, JR_EVENT_HEARTBEAT_FAILED, JR_S("error", reply->err.msg));
		beat_again_soon(runner);
		return;
	}
	jr_held_beat_by(runner, reply->sent_ms + runner->opts->lease.heartbeat_ms);
	jr_runner_note_seen(runner, jr_queue_read_runner_seen(reply->results[1]));
	for (size_t i = 0; i < jr_queue_count_beats(reply->results[0]); i++) {
		struct jr_beat_row row = jr_queue_read_beat(reply->results[0], i);

		take_row(runner, &row, reply->sent_ms);
	}
	runner->heartbeat.answered++;
}

static void
send(struct jr_runner *runner, const struct jr_held_list *list)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_answer, runner);

	jr_queue_add_heartbeat(request, runner->facts.id, list->runs, list->count, runner->opts->lease.lease_ms);
	jr_queue_add_runner_seen(request, runner->facts.id);
	jr_pg_submit(runner->pg, request);
}

bool
jr_heartbeat_try(struct jr_runner *runner)
{
	struct jr_held_list list;
	bool sends;

	if (jr_clock_now_ms() < next_ms(runner)) {
		jr_runner_wake_at(runner, next_ms(runner));
		return false;
	}
	runner->heartbeat.wanted = false;
	runner->heartbeat.sent_ms = jr_clock_now_ms();
	list = jr_held_select(runner, is_worth_renewing);
	sends = list.count > 0;
	if (sends) {
		send(runner, &list);
	} else {
		jr_held_forget_beat(runner);
		beat_again_soon(runner);
	}
	jr_held_list_release(&list);
	return sends;
}
