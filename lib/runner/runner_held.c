/*
 * runner_held: the claims that this runner holds, from the claim's answer to the end of the handler. See
 * runner_parts.h.
 *
 * While its handler runs, the attempt has the self-fence: start of the last answered claim or heartbeat + lease -
 * margin, moved by each heartbeat. Once the outcome is known a timer is the end of the offer: one further lease behind
 * the end of the last one known. The heartbeat of all that is held is one statement.
 *
 * What must hold: a run that is `lost` is neither heartbeaten nor settled, and one in doubt is not renewed; a handler
 * is started only inside its lease, and never beside an older handler of the same run in this process. Of what a
 * heartbeat says only "gone" stops a handler; a run whose row is locked is asked for again soon, and it costs the
 * others nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define BUSY_MS 1000 /* a run whose row somebody has locked is asked for again */
#define SOON_MS 100  /* between two heartbeats, however many cancels are asked for */

struct jr_held_list
jr_held_select(struct jr_runner *runner, bool (*want)(const struct jr_held *held))
{
	struct jr_held_list list = {.held = jr_xcalloc(runner->held_count + 1, sizeof(struct jr_held *)),
	    .runs = jr_xcalloc(runner->held_count + 1, sizeof(struct jr_run *))};

	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		if (want != NULL && !want(held))
			continue;
		list.held[list.count] = held;
		list.runs[list.count++] = held->run;
	}
	return list;
}

void
jr_held_list_release(struct jr_held_list *list)
{
	free(list->held);
	free(list->runs);
}

static struct jr_held **
bucket(struct jr_runner *runner, int64_t id)
{
	return &runner->held_by_id[(uint64_t)id % JR_HELD_BUCKETS];
}

static void
link_held(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	struct jr_held **head = bucket(runner, held->run->id);

	held->next = runner->held;
	held->prev = &runner->held;
	if (held->next != NULL)
		held->next->prev = &held->next;
	runner->held = held;
	held->alike = *head;
	held->alike_prev = head;
	if (held->alike != NULL)
		held->alike->alike_prev = &held->alike;
	*head = held;
	runner->held_count++;
}

static void
unlink_held(struct jr_held *held)
{
	*held->prev = held->next;
	if (held->next != NULL)
		held->next->prev = held->prev;
	*held->alike_prev = held->alike;
	if (held->alike != NULL)
		held->alike->alike_prev = held->alike_prev;
	held->runner->held_count--;
}

struct jr_held *
jr_held_find(struct jr_runner *runner, int64_t id, int64_t claim_seq)
{
	for (struct jr_held *held = *bucket(runner, id); held != NULL; held = held->alike) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list; seen as lost track of */
		if (held->run->id == id && held->run->claim_seq == claim_seq)
			return held;
	}
	return NULL;
}

static struct jr_held *
find_waiting(struct jr_runner *runner, int64_t id)
{
	for (struct jr_held *held = *bucket(runner, id); held != NULL; held = held->alike) {
		if (held->run->id == id && held->phase == JR_HELD_WAITING)
			return held;
	}
	return NULL;
}

/* An older claim of the same run whose handler is still there. */
static struct jr_held *
find_older(struct jr_runner *runner, const struct jr_held *newer)
{
	for (struct jr_held *held = *bucket(runner, newer->run->id); held != NULL; held = held->alike) {
		if (held != newer && held->run->id == newer->run->id && held->phase == JR_HELD_RUNNING)
			return held;
	}
	return NULL;
}

void
jr_held_name_all(const struct jr_runner *runner, struct jr_claim_list *list)
{
	for (const struct jr_held *held = runner->held; held != NULL; held = held->next)
		jr_claim_list_add(list, held->run->id, held->run->claim_seq);
}

static void
name_again(const struct jr_claim_list *from, struct jr_claim_list *list)
{
	for (size_t i = 0; i < from->count; i++)
		jr_claim_list_add(list, from->items[i].id, from->items[i].claim_seq);
}

void
jr_held_name_known(const struct jr_runner *runner, struct jr_claim_list *list)
{
	jr_held_name_all(runner, list);
	name_again(&runner->begun, list);
	name_again(&runner->offered, list);
}

/* What is dropped may still be running for the database; it must not come back as if it were new. */
static void
remember(const struct jr_held *held)
{
	struct jr_runner *runner = held->runner;

	if (held->accepted)
		return;
	if (held->begun)
		jr_claim_list_add(&runner->begun, held->run->id, held->run->claim_seq);
	else if (held->offered)
		jr_claim_list_add(&runner->offered, held->run->id, held->run->claim_seq);
}

static void
leave_permit(struct jr_held *held)
{
	if (held->permit != NULL)
		jr_permit_leave(held->runner, held->permit);
	held->permit = NULL;
}

void
jr_held_drop(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;

	unlink_held(held);
	remember(held);
	if (runner->held_count == 0)
		runner->beat_at_ms = JR_NEVER;
	jr_timer_cancel(&held->offer);
	if (held->attempt != NULL)
		jr_attempt_free(held->attempt);
	leave_permit(held);
	jr_progress_forget(held);
	jr_outcome_release(&held->outcome);
	jr_run_free(held->run);
	free(held);
}

static void
log_held(enum jr_level level, const char *event, const struct jr_held *held, const char *reason)
{
	if (held->runner->opts->exec != NULL)
		level = JR_INFO; /* who runs the command says it in words */
	jr_log(level, event, JR_I("run", held->run->id), JR_S("type", held->run->job_type),
	    JR_I("attempt", held->run->attempts), JR_I("claim", held->run->claim_seq), JR_S("reason", reason));
}

/* A permit is free, and what ran may have enqueued something. */
static void
look_now(struct jr_runner *runner)
{
	runner->drained = false;
	runner->stale = true;
	runner->claim_at_ms = 0;
}

/* The outcome is known: from now on it is offered, one lease longer than its own, which may be over already. */
static void
end_held(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	const struct jr_lease *lease = &runner->opts->lease;
	int64_t now = jr_clock_now_ms(), end_ms = held->fence_at_ms + lease->margin_ms;

	held->phase = JR_HELD_ENDED;
	jr_exec_judge(held);
	jr_timer_set(runner->loop, &held->offer, jr_clock_after(end_ms > now ? end_ms : now, lease->lease_ms));
}

static void
end_unstarted(struct jr_held *held, enum jr_outcome_kind kind, const char *code, const char *error)
{
	struct jr_runner *runner = held->runner;

	held->outcome = (struct jr_outcome){.kind = kind,
	    .error_code = jr_xstrdup(code),
	    .error = jr_xstrdup(error),
	    .delay_ms = jr_attempt_backoff(held->run, &runner->random)};
	leave_permit(held);
	look_now(runner);
	end_held(held);
}

/* It is lost, and nothing of it is there. */
void
jr_held_end_lost(struct jr_held *held)
{
	if (held->why_lost != NULL)
		log_held(JR_WARN, "lease_lost", held, held->why_lost);
	held->runner->counts.fenced++;
	jr_held_drop(held);
}

static void
take_outcome(struct jr_held *held, struct jr_outcome *outcome)
{
	if (outcome != NULL && outcome->settled) {
		jr_settle_report_settled(held, outcome);
		held->accepted = true;
		jr_held_drop(held);
	} else if (outcome == NULL || (held->lost && outcome->doubt == NULL)) {
		jr_held_end_lost(held);
	} else {
		held->in_doubt = held->unanswered = outcome->doubt != NULL;
		held->outcome = *outcome;
		*outcome = (struct jr_outcome){0};
		end_held(held);
	}
}

static void
on_attempt_ended(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome)
{
	struct jr_held *held = ctx, *waiting;
	struct jr_runner *runner = held->runner;
	int64_t id = held->run->id;

	jr_exec_note_end(held, outcome);
	if (jr_attempt_is_lost(attempt) && !held->lost) {
		held->lost = true;
		held->why_lost = "no heartbeat was answered in time";
	}
	held->attempt = NULL;
	jr_attempt_free(attempt);
	jr_progress_forget(held); /* the outcome says it all */
	leave_permit(held);
	look_now(runner);
	runner->counts.running--;
	take_outcome(held, outcome);
	waiting = find_waiting(runner, id);
	if (waiting != NULL)
		jr_held_start(waiting);
	jr_runner_show_counts(runner);
	jr_runner_wake_at(runner, 0); /* a batch ends all at once: one look for all of it */
}

/* The watchdog is forked before the first handler. Without one nothing is started, and nothing more is claimed. */
static bool
has_watchdog(struct jr_runner *runner)
{
	struct jr_err err;

	if (runner->watchdog == NULL) {
		runner->watchdog = jr_watchdog_start(&err);
		runner->host.watchdog = runner->watchdog;
		if (runner->watchdog != NULL)
			return true;
	} else if (jr_watchdog_is_alive(runner->watchdog))
		return true;
	else
		jr_fail(&err, JR_E_TEMP, "the watchdog process is gone: no more handlers are started");
	jr_runner_fail(runner, &err);
	return false;
}

static void
start_handler(struct jr_held *held, const struct jr_handler *handler)
{
	struct jr_runner *runner = held->runner;
	const struct jr_attempt_setup setup = {.host = &runner->host,
	    .handler = handler,
	    .run = held->run,
	    .random = &runner->random,
	    .fence_at_ms = jr_exec_fence(runner, held->fence_at_ms),
	    .kill_ms = runner->opts->lease.kill_ms,
	    .ended = on_attempt_ended,
	    .ctx = held};

	held->phase = JR_HELD_RUNNING;
	held->begun = true;
	runner->counts.running++;
	log_held(JR_INFO, "run_start", held, NULL);
	held->attempt = jr_attempt_start(&setup);
}

/* Nothing was tried, so nothing is counted: it waits as before. `why` is for jobrun exec, whose run cannot wait. */
static void
give_back(struct jr_held *held, const char *why)
{
	log_held(JR_INFO, "unstarted", held, why);
	jr_claim_count(held->runner, held->run, -1);
	jr_claim_fail_job(held->runner, why);
	end_unstarted(held, JR_OUT_UNSTARTED, "unstarted", why);
}

/* Start it, or say why not. */
void
jr_held_start(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	const struct jr_handler *handler = jr_exec_handler(runner, held->run->job_type);

	jr_exec_note_start(held);
	if (held->run->cancelled)
		end_unstarted(held, JR_OUT_CANCELLED, "cancelled", "cancelled before it started");
	else if (held->run->expired)
		end_unstarted(held, JR_OUT_DEAD, "expired", "expired before it could start");
	else if (runner->signalled || handler == NULL)
		give_back(held, "the runner was stopped before it started");
	else if (jr_clock_now_ms() >= held->fence_at_ms)
		give_back(held, "the claim was answered too late to start");
	else if (held->permit == NULL)
		give_back(held, "there was no permit for it");
	else if (!has_watchdog(runner))
		end_unstarted(held, JR_OUT_RELEASED, "released", "released: this host could not start handlers");
	else
		start_handler(held, handler);
}

/* The offer is over: its lease ended one lease ago. */
static void
on_offer_over(void *ctx)
{
	struct jr_held *held = ctx;
	struct jr_runner *runner = held->runner;
	struct jr_err err;

	if (held->on_wire) { /* the answer decides */
		jr_timer_set(
		    runner->loop, &held->offer, jr_clock_after(jr_clock_now_ms(), runner->opts->lease.deadline_ms));
		return;
	}
	if (held->lost)
		jr_fail(&err, JR_E_TEMP, "what became of run %lld could not be read in time", (long long)held->run->id);
	else
		jr_fail(&err, JR_E_TEMP, "the result of run %lld could not be written in time; it will be %s",
		    (long long)held->run->id, runner->opts->exec == NULL ? "run again" : "called lost");
	jr_runner_fail(runner, &err);
	runner->counts.given_up++;
	jr_held_drop(held);
	jr_runner_pump(runner);
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
jr_held_take(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit)
{
	struct jr_held *held = jr_xcalloc(1, sizeof(*held)), *older;

	held->runner = runner;
	held->run = run;
	run->claimed_ms = begun_ms;
	held->permit = permit;
	held->fence_at_ms = jr_lease_fence_at(&runner->opts->lease, begun_ms);
	jr_timer_init(&held->offer, on_offer_over, held);
	link_held(held);
	beat_by(runner, begun_ms + runner->opts->lease.heartbeat_ms);
	older = find_older(runner, held);
	if (older == NULL)
		jr_held_start(held);
	else
		jr_held_lose(older, "claimed again");
}

/* Does its handler end the run itself? The answer to its commit may still be on its way. */
static bool
settles_itself(const struct jr_held *held)
{
	const struct jr_handler *handler = jr_exec_handler(held->runner, held->run->job_type);

	return held->phase == JR_HELD_RUNNING && handler != NULL && handler->kind->settles_itself;
}

/*
 * The right to the run is gone: its handler is stopped and nothing is written. Of one that settles itself it is told
 * when the handler has ended, if its commit had not been the reason.
 */
void
jr_held_lose(struct jr_held *held, const char *why)
{
	if (held->lost)
		return;
	held->lost = true;
	if (settles_itself(held))
		held->why_lost = why;
	else
		log_held(JR_WARN, "lease_lost", held, why);
	if (held->phase != JR_HELD_RUNNING)
		jr_held_end_lost(held);
	else if (!jr_exec_goes_on(held->runner))
		jr_attempt_event(held->attempt, JR_EV_LOST);
}

void
jr_held_stop_all(struct jr_runner *runner, bool kill)
{
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		if (held->phase != JR_HELD_RUNNING)
			continue;
		jr_attempt_event(held->attempt, JR_EV_SHUTDOWN);
		if (kill)
			jr_attempt_event(held->attempt, JR_EV_OVERDUE);
	}
}

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

/* There is no harm in asking once more: if the claim is lost, the server lets nothing of it be committed. */
static bool
may_have_settled(struct jr_held *held)
{
	bool first = !held->missed;

	held->missed = true;
	return first && settles_itself(held);
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
		jr_progress_collect(runner);
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
	struct jr_request *request;
	int64_t now = jr_clock_now_ms();

	if (now < next_beat(runner)) {
		jr_runner_wake_at(runner, next_beat(runner));
		return false;
	}
	runner->beat_wanted = false;
	runner->beat_sent_ms = now;
	list = jr_held_select(runner, is_beaten);
	if (list.count > 0) {
		request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_beat, runner);
		jr_queue_add_heartbeat(request, runner->facts.id, list.runs, list.count, runner->opts->lease.lease_ms);
		jr_queue_add_runner_seen(request, runner->facts.id);
		jr_pg_submit(runner->pg, request);
	} else {
		runner->beat_at_ms = now + busy_ms(runner);
		jr_runner_wake_at(runner, runner->beat_at_ms);
	}
	jr_held_list_release(&list);
	return !jr_pg_is_idle(runner->pg);
}
