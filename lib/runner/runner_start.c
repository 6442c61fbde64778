/*
 * runner_start: a held run from its claim to the end of its handler, and how long its outcome is offered. See
 * runner_parts.h.
 *
 * While its handler runs, the attempt has the self-fence: start of the last answered claim or heartbeat + lease -
 * margin, moved by each heartbeat. Once the outcome is known, a timer limits how long it is sent again: until one lease
 * after the lease ends, as known when the handler ended.
 *
 * To start a batch of a thousand runs takes half a millisecond. It starts after the next request has been sent, so that
 * the server works meanwhile.
 *
 * What must hold: a handler is started only inside its lease, and never beside an older handler of the same run in this
 * process. A run that is lost writes nothing: its handler is stopped. If the handler itself sent a COMMIT that was not
 * answered, the runner still reads whether it arrived.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#include <string.h>

static void
log_held(enum jr_level level, enum jr_event event, const struct jr_held *held, const char *reason)
{
	if (held->runner->opts->exec != NULL)
		level = JR_INFO; /* the command reports it in words */
	jr_log(level, event, JR_I("run", held->run->id), JR_S("type", held->run->job_type),
	    JR_I("attempt", held->run->attempts), JR_I("claim", held->run->claim_seq), JR_S("reason", reason));
}

/* Of those that --max-runs counts there is one more (1), or one less (-1). */
static void
count_claimed(const struct jr_held *held, int64_t change)
{
	if (strcmp(held->run->job_type, JR_PRUNE_TYPE) != 0)
		held->runner->start.counted += change;
}

static bool
is_ahead(const struct jr_held *held)
{
	return jr_held_phase(held) == JR_HELD_AHEAD;
}

static bool
is_gone(const struct jr_held *held)
{
	return jr_held_phase(held) == JR_HELD_GONE;
}

/* The timer is for the case that the connection is lost or busy: then no on_idle follows the answer. */
static void
put_ready(struct jr_held *held)
{
	struct jr_start *part = &held->runner->start;

	if (part->ready == NULL) {
		part->ready_end = &part->ready;
		jr_runner_wake_at(held->runner, 0);
	}
	held->start.ready_prev = part->ready_end;
	*part->ready_end = held;
	part->ready_end = &held->start.ready_next;
}

/* Harmless if it is not in the list. */
static void
remove_ready(struct jr_held *held)
{
	struct jr_held_start *start = &held->start;

	if (start->ready_prev == NULL)
		return;
	*start->ready_prev = start->ready_next;
	if (start->ready_next != NULL)
		start->ready_next->start.ready_prev = start->ready_prev;
	else
		held->runner->start.ready_end = start->ready_prev;
	start->ready_next = NULL;
	start->ready_prev = NULL;
}

static void
drop(struct jr_held *held)
{
	struct jr_held_start *start = &held->start;

	jr_timer_cancel(&start->offer);
	jr_ahead_remove(held);
	remove_ready(held);
	if (start->attempt != NULL)
		jr_attempt_free(start->attempt);
	jr_outcome_release(&start->outcome);
	jr_held_remove(held);
}

void
jr_start_finish(struct jr_held *held, enum jr_held_phase end)
{
	(void)!jr_held_move(held, end); /* also after an impossible change it is dropped */
	drop(held);
}

/*
 * The outcome is known. From now on it is sent until it is accepted, for at most one lease after its own lease ends, or
 * after now if that is over.
 */
static void
offer(struct jr_held *held, enum jr_held_phase phase)
{
	struct jr_runner *runner = held->runner;
	const struct jr_lease *lease = &runner->opts->lease;
	int64_t now = jr_clock_now_ms(), end_ms = jr_held_fence_at(held) + lease->margin_ms;

	if (!jr_held_move(held, phase))
		return;
	jr_exec_judge(runner, &held->start.outcome);
	jr_timer_set(runner->loop, &held->start.offer, jr_clock_after(end_ms > now ? end_ms : now, lease->lease_ms));
}

/* A permit is free, and a handler that ran may have enqueued something. */
static void
note_ended(struct jr_held *held)
{
	jr_held_leave_permit(held);
	held->runner->start.ended++;
}

static void
end_unstarted(struct jr_held *held, enum jr_outcome_kind kind, const char *code, const char *error)
{
	held->start.outcome = (struct jr_outcome){.kind = kind,
	    .error_code = jr_xstrdup(code),
	    .error = jr_xstrdup(error),
	    .delay_ms = jr_attempt_backoff(held->run, &held->runner->random)};
	note_ended(held);
	offer(held, JR_HELD_ENDED);
}

void
jr_start_end_lost(struct jr_held *held)
{
	if (held->start.why_lost != NULL)
		log_held(JR_WARN, JR_EVENT_LEASE_LOST, held, held->start.why_lost);
	held->runner->counts.fenced++;
	jr_start_finish(held, JR_HELD_GONE);
}

static void
take_outcome(struct jr_held *held, struct jr_outcome *outcome)
{
	bool in_doubt = outcome != NULL && outcome->doubt != NULL;

	if (is_gone(held)) { /* by an impossible change */
		drop(held);
	} else if (outcome != NULL && outcome->settled) {
		jr_report_committed(held->runner, held->run, outcome);
		jr_start_finish(held, JR_HELD_ACCEPTED);
	} else if (outcome == NULL || (held->start.lost && !in_doubt)) {
		jr_start_end_lost(held);
	} else {
		held->start.outcome = *outcome;
		*outcome = (struct jr_outcome){0};
		offer(held, in_doubt ? JR_HELD_IN_DOUBT : JR_HELD_ENDED);
	}
}

static void
note_unstarted(struct jr_held *held, const char *why)
{
	log_held(JR_INFO, JR_EVENT_UNSTARTED, held, why);
	count_claimed(held, -1);
	jr_runner_fail_job(held->runner, why);
}

/* If its files have gone between the last look at them and the start, it is as if that had found them gone. */
static void
judge_failed_start(struct jr_held *held, struct jr_outcome *outcome)
{
	const struct jr_handler *handler = jr_exec_handler(held->runner, held->run->job_type);
	struct jr_err err;

	if (outcome == NULL || outcome->kind != JR_OUT_FAILED || outcome->error_code == NULL ||
	    strcmp(outcome->error_code, "cannot-start") != 0 || jr_refused_may_start(held->runner, handler, &err))
		return;
	note_unstarted(held, err.msg);
	outcome->kind = JR_OUT_UNSTARTED;
}

static void start_or_end(struct jr_held *held);

void
jr_start_ahead(struct jr_runner *runner)
{
	struct jr_held *held;
	struct jr_permit *permit;

	while ((held = jr_ahead_first(runner)) != NULL) {
		permit = jr_permit_take_spare(runner, JR_POOL_EXEC);
		if (permit == NULL)
			return;
		jr_held_put_permit(held, permit);
		start_or_end(held);
	}
}

static void
on_attempt_ended(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome)
{
	struct jr_held *held = ctx, *waiting = jr_held_find_other(held, JR_HELD_CLAIMED);
	struct jr_runner *runner = held->runner;

	jr_exec_note_end(runner, outcome, jr_attempt_output(attempt));
	jr_ahead_note_end(held, jr_clock_now_ms() - held->start.begun_ms);
	if (jr_attempt_is_lost(attempt) && !held->start.lost) {
		held->start.lost = true;
		held->start.why_lost = "no heartbeat was answered in time";
	}
	held->start.attempt = NULL;
	jr_attempt_free(attempt);
	note_ended(held);
	runner->counts.running--;
	judge_failed_start(held, outcome);
	take_outcome(held, outcome);
	if (waiting != NULL)
		start_or_end(waiting);
	jr_start_ahead(runner);
	jr_runner_show_counts(runner);
	jr_runner_wake_at(runner, 0); /* a batch ends all at once: one look for all of it */
}

/*
 * The watchdog is forked before the first handler. Without one nothing is started, and nothing more is claimed. Of the
 * runs that start within a millisecond, which is a batch or what a claim brought, the first one looks for all.
 */
static bool
has_watchdog(struct jr_runner *runner)
{
	struct jr_start *part = &runner->start;
	int64_t now_ms = jr_clock_now_ms();
	struct jr_err err;

	if (part->watchdog == NULL) {
		part->watchdog = jr_watchdog_start(&err);
		part->host.watchdog = part->watchdog;
		if (part->watchdog != NULL)
			return true;
	} else if (part->alive_ms == now_ms || jr_watchdog_is_alive(part->watchdog)) {
		part->alive_ms = now_ms;
		return true;
	} else
		jr_fail(&err, JR_E_TEMP, "the watchdog process is gone: no more handlers are started");
	jr_runner_fail(runner, &err);
	return false;
}

static void
start_handler(struct jr_held *held, const struct jr_handler *handler)
{
	struct jr_runner *runner = held->runner;
	const struct jr_attempt_setup setup = {.host = &runner->start.host,
	    .handler = handler,
	    .run = held->run,
	    .random = &runner->random,
	    .fence_at_ms = jr_exec_fence(runner, jr_held_fence_at(held)),
	    .kill_ms = runner->opts->lease.kill_ms,
	    .ended = on_attempt_ended,
	    .ctx = held};

	if (!jr_held_move(held, JR_HELD_RUNNING))
		return;
	runner->counts.running++;
	log_held(JR_INFO, JR_EVENT_RUN_START, held, NULL);
	held->start.begun_ms = jr_clock_now_ms();
	held->start.attempt = jr_attempt_start(&setup);
	jr_ping_run_starts(runner, held->run->job_type);
}

/* It was not started, so it is not charged, and waits as before. `why` is for jobrun exec, whose run cannot wait. */
static void
give_back(struct jr_held *held, const char *why)
{
	note_unstarted(held, why);
	end_unstarted(held, JR_OUT_UNSTARTED, "unstarted", why);
}

/* Start it, or end it and say why not. */
static void
start_or_end(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	const struct jr_handler *handler = jr_exec_handler(runner, held->run->job_type);
	struct jr_err err;

	jr_exec_note_start(runner, held->run);
	jr_ahead_remove(held);
	remove_ready(held);
	if (held->run->cancelled)
		end_unstarted(held, JR_OUT_CANCELLED, "cancelled", "cancelled before it started");
	else if (held->run->expired)
		end_unstarted(held, JR_OUT_DEAD, "expired", "expired before it could start");
	else if (jr_runner_is_signalled(runner) || handler == NULL || (is_ahead(held) && jr_runner_is_draining(runner)))
		give_back(held, "the runner was stopped before it started");
	else if (jr_clock_now_ms() >= jr_held_fence_at(held))
		give_back(held, "the claim was answered too late to start");
	else if (is_ahead(held) && jr_ahead_is_late(held))
		give_back(held, "no permit was free in time");
	else if (jr_held_permit(held) == NULL)
		give_back(held, "there was no permit for it");
	else if (!jr_refused_may_start(runner, handler, &err))
		give_back(held, err.msg);
	else if (!has_watchdog(runner))
		give_back(held, "this host could not start handlers");
	else
		start_handler(held, handler);
}

/* The outcome was not accepted in time. */
static void
on_offer_over(void *ctx)
{
	struct jr_held *held = ctx;
	struct jr_runner *runner = held->runner;
	long long id = held->run->id;
	struct jr_err err;

	if (is_gone(held)) /* by an impossible change: jr_start_sweep drops it */
		return;
	if (jr_held_phase(held) == JR_HELD_SENT) { /* the answer decides */
		jr_timer_set(runner->loop, &held->start.offer,
		    jr_clock_after(jr_clock_now_ms(), runner->opts->lease.deadline_ms));
		return;
	}
	if (held->start.lost)
		jr_fail(&err, JR_E_TEMP, "what became of run %lld could not be read in time", id);
	else
		jr_fail(&err, JR_E_TEMP, "the result of run %lld could not be written in time; it will be %s", id,
		    runner->opts->exec == NULL ? "run again" : "called lost");
	jr_runner_fail(runner, &err);
	runner->counts.given_up++;
	jr_start_finish(held, JR_HELD_GONE);
	jr_runner_wake_at(runner, 0);
}

/* NULL: it waits until the handler of an older claim of the same run has ended. */
static struct jr_held *
take(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit)
{
	struct jr_held *held = jr_held_add(runner, run, begun_ms, permit);
	struct jr_held *older = jr_held_find_other(held, JR_HELD_RUNNING);
	const struct jr_held *gone = jr_held_find_other(held, JR_HELD_GONE);

	jr_timer_init(&held->start.offer, on_offer_over, held);
	count_claimed(held, 1);
	if (older != NULL)
		jr_start_lose(older, "claimed again");
	return older != NULL || (gone != NULL && gone->start.attempt != NULL) ? NULL : held;
}

void
jr_start_take(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit)
{
	struct jr_held *held = take(runner, run, begun_ms, permit);

	if (held != NULL)
		start_or_end(held);
}

void
jr_start_take_batched(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit)
{
	struct jr_held *held = take(runner, run, begun_ms, permit);

	if (held != NULL)
		put_ready(held);
}

void
jr_start_ready(struct jr_runner *runner)
{
	while (runner->start.ready != NULL)
		start_or_end(runner->start.ready);
}

void
jr_start_take_ahead(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms)
{
	struct jr_held *held = take(runner, run, begun_ms, NULL);

	if (held != NULL && jr_held_move(held, JR_HELD_AHEAD))
		jr_ahead_put(held);
}

void
jr_start_end_ahead(struct jr_runner *runner)
{
	struct jr_held *held;

	while ((held = jr_ahead_find_late(runner)) != NULL)
		start_or_end(held);
	while (jr_runner_is_draining(runner) && (held = jr_ahead_first(runner)) != NULL)
		start_or_end(held);
}

bool
jr_start_settles_itself(const struct jr_held *held)
{
	const struct jr_handler *handler = jr_exec_handler(held->runner, held->run->job_type);

	return jr_held_phase(held) == JR_HELD_RUNNING && handler != NULL && handler->kind->settles_itself;
}

/*
 * A handler that settles itself may have ended the claim by its own commit. Then the warning is written when the
 * handler has ended, and only if it had not committed.
 */
void
jr_start_lose(struct jr_held *held, const char *why)
{
	if (held->start.lost)
		return;
	if (jr_start_settles_itself(held))
		held->start.why_lost = why;
	else
		log_held(JR_WARN, JR_EVENT_LEASE_LOST, held, why);
	if (jr_held_phase(held) != JR_HELD_RUNNING) {
		jr_start_end_lost(held);
		return;
	}
	held->start.lost = true;
	if (!jr_exec_goes_on(held->runner))
		jr_attempt_event(held->start.attempt, JR_EV_LOST);
}

void
jr_start_stop_all(struct jr_runner *runner, bool kill)
{
	for (struct jr_held *held = jr_held_first(runner); held != NULL; held = jr_held_next(held)) {
		if (held->start.attempt == NULL)
			continue;
		jr_attempt_event(held->start.attempt, JR_EV_SHUTDOWN);
		if (kill)
			jr_attempt_event(held->start.attempt, JR_EV_OVERDUE);
	}
}

void
jr_start_sweep(struct jr_runner *runner)
{
	struct jr_held_list gone;

	if (jr_held_count_in(runner, JR_HELD_GONE) == 0)
		return;
	gone = jr_held_select(runner, is_gone);
	for (size_t i = 0; i < gone.count; i++) {
		if (gone.held[i]->start.attempt == NULL)
			drop(gone.held[i]);
		else if (!jr_exec_goes_on(runner))
			jr_attempt_event(gone.held[i]->start.attempt, JR_EV_LOST);
	}
	jr_held_list_release(&gone);
}

void
jr_start_cancel(struct jr_held *held)
{
	if (held->start.attempt != NULL)
		jr_attempt_event(held->start.attempt, JR_EV_CANCEL);
	else if (jr_held_phase(held) == JR_HELD_CLAIMED || is_ahead(held))
		held->run->cancelled = true; /* it waits, and ends instead of starting */
}

void
jr_start_renew(struct jr_held *held, int64_t sent_ms)
{
	jr_held_renew(held, sent_ms);
	if (held->start.attempt != NULL)
		jr_attempt_renew(held->start.attempt, jr_exec_fence(held->runner, jr_held_fence_at(held)));
}

void
jr_start_progress(struct jr_held *held, struct jr_handler_progress *report)
{
	jr_attempt_progress(held->start.attempt, report);
}

bool
jr_start_is_lost(const struct jr_held *held)
{
	return held->start.lost || (held->start.attempt != NULL && jr_attempt_is_lost(held->start.attempt));
}

struct jr_outcome *
jr_start_outcome(struct jr_held *held)
{
	return &held->start.outcome;
}

int64_t
jr_start_count_ended(const struct jr_runner *runner)
{
	return runner->start.ended;
}

int64_t
jr_start_left(const struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;

	if (opts->max_runs == 0)
		return INT64_MAX;
	return opts->max_runs > runner->start.counted ? opts->max_runs - runner->start.counted : 0;
}

bool
jr_start_stays(const struct jr_runner *runner)
{
	return jr_runner_stays(runner) && !jr_runner_is_draining(runner) &&
	       (jr_start_left(runner) > 0 || jr_ahead_count(runner) > 0); /* these may be given back */
}

void
jr_start_open(struct jr_runner *runner, void (*nonsense)(void *runner, const struct jr_err *err),
    void (*warned)(void *runner, const char *text))
{
	runner->start.host = (struct jr_host){.loop = runner->loop,
	    .conninfo = runner->opts->conninfo,
	    .beside = runner->pg,
	    .lease = &runner->opts->lease,
	    .nonsense = nonsense,
	    .warned = warned,
	    .ctx = runner,
	    .echo = runner->opts->echo,
	    .raw = runner->opts->raw};
}

void
jr_start_close(struct jr_runner *runner)
{
	while (jr_held_first(runner) != NULL)
		drop(jr_held_first(runner));
	jr_handlers_close_host(&runner->start.host);
	jr_watchdog_free(runner->start.watchdog);
}
