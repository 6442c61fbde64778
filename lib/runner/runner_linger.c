/*
 * runner_linger: a runner that stays for a while and starts new runs at once (--for). See runner_parts.h.
 *
 * Nothing depends on a notification: the runner looks for work once a second in any case, and LISTEN only makes it look
 * sooner, or claim what the notification names (runner_look.h). LISTEN is sent on each new connection if the session is
 * this runner's own, and a look follows it, so that no commit is missed between the two. Behind a pooler in transaction
 * mode the runner only polls.
 *
 * Hand-over: when its time is over the runner goes on for up to JR_HANDOVER_MS, until another one of this host does its
 * work. lingers_until in its row includes that time, so that it is notified until the end. So a runner counts as a
 * successor if its lingers_until is more than JR_HANDOVER_MS away: its own hand-over does not count. lingers_until is
 * set to now (linger_end.sql) when the runner claims no more and still holds runs.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define LEAST_MS 1000       /* a successor stays at least so long */
#define HANDOVER_ASK_MS 200 /* how often it looks for one */

void
jr_linger_open(struct jr_runner *runner)
{
	runner->linger.until_ms = jr_clock_after(jr_clock_now_ms(), runner->opts->linger_ms);
}

int64_t
jr_linger_left_ms(const struct jr_runner *runner)
{
	int64_t now = jr_clock_now_ms();

	if (runner->opts->linger_ms == 0 || now >= runner->linger.until_ms)
		return 0;
	return runner->linger.until_ms + JR_HANDOVER_MS - now;
}

/* The first answer has come. If the time is over already, this is a tick without --for. */
void
jr_linger_begin(struct jr_runner *runner)
{
	int64_t left_ms = jr_linger_left_ms(runner);

	if (left_ms == 0)
		return;
	jr_runner_stay(runner, true);
	runner->linger.seen_at_ms = jr_clock_after(jr_clock_now_ms(), runner->opts->lease.heartbeat_ms);
	jr_log(JR_INFO, JR_EVENT_LINGER_START, JR_I("ms", left_ms - JR_HANDOVER_MS));
}

static void
end(struct jr_runner *runner, const char *reason)
{
	jr_log(JR_INFO, JR_EVENT_LINGER_END, JR_S("reason", reason));
	jr_runner_drain(runner);
}

void
jr_linger_connected(struct jr_runner *runner)
{
	runner->linger.session = JR_SESSION_UNKNOWN;
	runner->linger.listen_at_ms = 0;
}

/* Of new work: "TYPE PRIORITY QUEUE", or nothing. Only the first notification before a look is logged. */
void
jr_linger_notified(void *ctx, const char *payload)
{
	struct jr_runner *runner = ctx;

	if (strcmp(payload, "cancel") == 0) {
		if (jr_heartbeat_soon(runner))
			jr_log(JR_INFO, JR_EVENT_NOTIFIED, JR_S("reason", "cancel"));
	} else if (jr_start_stays(runner)) {
		if (jr_look_soon_for(runner, payload))
			jr_log(JR_INFO, JR_EVENT_NOTIFIED, JR_S("reason", "work"));
	}
}

/* --- listening --- */

static void
poll_only(struct jr_runner *runner, const char *why)
{
	runner->linger.session = JR_SESSION_POLLED;
	jr_log(JR_INFO, JR_EVENT_POLLING, JR_S("reason", why));
}

/* What may pass is tried again after a heartbeat; until then the runner polls. */
static void
take_refusal(struct jr_runner *runner, const struct jr_err *err)
{
	if (err->code != JR_E_TEMP) {
		poll_only(runner, err->msg);
		return;
	}
	runner->linger.listen_at_ms = jr_clock_after(jr_clock_now_ms(), runner->opts->lease.heartbeat_ms);
	jr_log(JR_INFO, JR_EVENT_POLLING, JR_S("reason", err->msg));
}

static void
on_backend(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		if (jr_queue_read_backend(reply->results[0]) == PQbackendPID(jr_pg_conn(runner->pg)))
			runner->linger.session = JR_SESSION_OWN;
		else
			poll_only(runner, "the session is a pooler's");
	} else if (reply->end == JR_PG_FAILED)
		take_refusal(runner, &reply->err);
}

/* A look finds what was committed before; from now on each commit is notified. */
static void
on_listen(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		runner->linger.session = JR_SESSION_LISTENING;
		jr_log(JR_INFO, JR_EVENT_LISTENING, JR_S("host", PQhost(jr_pg_conn(runner->pg))));
		(void)jr_look_soon(runner);
		(void)jr_heartbeat_soon(runner);
	} else if (reply->end == JR_PG_FAILED)
		take_refusal(runner, &reply->err);
}

static bool
try_listen(struct jr_runner *runner)
{
	bool own = runner->linger.session == JR_SESSION_OWN;
	struct jr_request *request;

	if (!own && runner->linger.session != JR_SESSION_UNKNOWN)
		return false;
	if (jr_clock_now_ms() < runner->linger.listen_at_ms) {
		jr_runner_wake_at(runner, runner->linger.listen_at_ms);
		return false;
	}
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), own ? on_listen : on_backend, runner);
	if (own)
		jr_queue_add_listen(request);
	else
		jr_queue_add_backend(request);
	jr_pg_submit(runner->pg, request);
	return true;
}

/* --- still here; and has a lease run out meanwhile? --- */

static void
on_seen(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_times_note(runner, reply);
	if (reply->end != JR_PG_DONE) {
		jr_log(JR_INFO, JR_EVENT_SEEN_FAILED, JR_S("error", reply->err.msg));
		return;
	}
	jr_runner_note_seen(runner, jr_queue_read_runner_seen(reply->results[0]));
	if (jr_queue_read_expired(reply->results[1]))
		jr_reclaim_begin(runner);
	else
		jr_reclaim_note_well(runner);
}

/*
 * A claim that brings nothing may mean that the row of this runner is gone. Then it does not wait for its time, but
 * once only: where a lock key is full each claim brings nothing.
 */
static bool
is_seen_early(const struct jr_runner *runner)
{
	return !runner->linger.seen_early && jr_claim_count_empty(runner) > runner->linger.empty;
}

static bool
try_seen(struct jr_runner *runner)
{
	struct jr_linger *linger = &runner->linger;
	struct jr_claim_list held = {0};
	struct jr_request *request;
	int64_t now = jr_clock_now_ms();

	if (now < linger->seen_at_ms && !is_seen_early(runner)) {
		jr_runner_wake_at(runner, linger->seen_at_ms);
		return false;
	}
	linger->seen_early = now < linger->seen_at_ms;
	linger->empty = jr_claim_count_empty(runner);
	if (!linger->seen_early)
		linger->seen_at_ms = jr_clock_after(now, runner->opts->lease.heartbeat_ms);
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_seen, runner);
	jr_queue_add_runner_seen(request, runner->facts.id);
	jr_held_name_all(runner, &held);
	jr_queue_add_expired(request, &held);
	jr_claim_list_release(&held);
	jr_pg_submit(runner->pg, request);
	return true;
}

/* --- the end --- */

static void
on_successor(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE && jr_queue_read_successor(reply->results[0]))
		end(runner, "another runner goes on");
}

static bool
try_successor(struct jr_runner *runner)
{
	struct jr_linger *linger = &runner->linger;
	int64_t now = jr_clock_now_ms(), at_ms = linger->until_ms;
	struct jr_request *request;

	if (linger->ask_at_ms > at_ms)
		at_ms = linger->ask_at_ms;
	if (now < at_ms) {
		jr_runner_wake_at(runner, at_ms);
		return false;
	}
	linger->ask_at_ms = jr_clock_after(now, HANDOVER_ASK_MS);
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_successor, runner);
	jr_queue_add_successor(request, runner->facts.id, LEAST_MS + JR_HANDOVER_MS);
	jr_pg_submit(runner->pg, request);
	return true;
}

static void
on_told_end(void *ctx, const struct jr_reply *reply)
{
	(void)ctx;
	(void)reply; /* if it was lost, the row's time is over soon anyway */
}

/* Nothing more is claimed, but the held runs may take long. */
static bool
try_tell_end(struct jr_runner *runner)
{
	struct jr_request *request;

	if (jr_held_count(runner) == 0)
		return false;
	jr_runner_stay(runner, false);
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_told_end, runner);
	jr_queue_add_linger_end(request, runner->facts.id);
	jr_pg_submit(runner->pg, request);
	return true;
}

bool
jr_linger_try(struct jr_runner *runner)
{
	struct jr_linger *linger = &runner->linger;

	if (!jr_runner_stays(runner))
		return false;
	if (jr_start_stays(runner) && jr_clock_now_ms() >= jr_clock_after(linger->until_ms, JR_HANDOVER_MS))
		end(runner, "the time is over");
	if (!jr_start_stays(runner))
		return try_tell_end(runner);
	return try_listen(runner) || try_successor(runner) || try_seen(runner);
}

/* Nothing is sent and nothing runs: the counts say that the runner waits. */
void
jr_linger_show(struct jr_runner *runner)
{
	bool waits = jr_start_stays(runner) && jr_look_is_drained(runner) && jr_held_count(runner) == 0;

	if (waits == runner->counts.waiting)
		return;
	runner->counts.waiting = waits;
	jr_runner_show_counts(runner);
}
