/*
 * attempt: one claim of one run, from the start of its handler to exactly one outcome, or to none.
 *
 * Events come from the runner (cancel, shutdown, lost), from the handler (ended) and from three
 * timers of its own (the run's timeout, the fence of the lease, the patience after TERM). The
 * table says what each event does in each state; the judgement itself is a pure function. What
 * must hold: `ended` is called once, from the loop, and last of all, because it may free the
 * attempt.
 */
#include "runner/attempt.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "handler/handlers.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct jr_attempt {
	struct jr_attempt_setup setup;
	struct jr_run run;    /* a copy that owns nothing: with the timeout that is in force */
	struct jr_work *work; /* NULL: it could not be started */
	struct jr_err start_err;
	enum jr_attempt_state state;
	enum jr_attempt_event reason; /* JR_EV_ENDED: jobrun did not stop it */
	struct jr_timer timeout;      /* of the run; also reports a failed start */
	struct jr_timer fence;
	struct jr_timer overdue;
	const struct jr_work_end *end; /* during JR_EV_ENDED */
};

typedef void transition_fn(struct jr_attempt *attempt, enum jr_attempt_event event);

static void
set_timer(const struct jr_attempt *attempt, struct jr_timer *timer, int64_t at_ms)
{
	jr_timer_set(attempt->setup.host->loop, timer, at_ms);
}

static void
cancel_timers(struct jr_attempt *attempt)
{
	jr_timer_cancel(&attempt->timeout);
	jr_timer_cancel(&attempt->fence);
	jr_timer_cancel(&attempt->overdue);
}

/* A failed start has no work, and its end has been scheduled. */
static void
stop_work(const struct jr_attempt *attempt, bool kill)
{
	if (attempt->work != NULL)
		attempt->setup.handler->kind->stop(attempt->work, kill);
}

static int64_t
grace(const struct jr_attempt *attempt)
{
	if (attempt->run.grace_ms > 0)
		return attempt->run.grace_ms;
	return attempt->setup.handler->settings.grace_ms >= 0 ? attempt->setup.handler->settings.grace_ms : JR_GRACE_MS;
}

/* The time until KILL only gets shorter. */
static void
expect_end(struct jr_attempt *attempt, int64_t span_ms)
{
	int64_t at_ms = jr_clock_after(jr_clock_now_ms(), span_ms);

	if (at_ms < attempt->overdue.at_ms)
		set_timer(attempt, &attempt->overdue, at_ms);
}

static void
ignore(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	(void)attempt;
	(void)event;
}

/* Not in the header's table: a bug of the caller. */
static void
impossible(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	(void)attempt;
	(void)event;
	assert(attempt->state != JR_ST_ENDED);
}

/* Also called by a handler that writes the outcome itself. */
static bool
judge(void *ctx, const struct jr_work_end *end, struct jr_outcome *outcome)
{
	struct jr_attempt *attempt = ctx;

	return jr_attempt_judge(attempt->reason, end, &attempt->run, attempt->setup.random, outcome);
}

/* What a commit in doubt would have written. */
static struct jr_outcome *
take_written(const struct jr_work_end *end)
{
	struct jr_outcome *doubt = jr_xcalloc(1, sizeof(*doubt));

	*doubt = (struct jr_outcome){.kind = JR_OUT_SUCCEEDED, .settled = true};
	if (end->written != NULL) {
		*doubt = *end->written;
		*end->written = (struct jr_outcome){.settled = false};
	}
	return doubt;
}

static void
settle(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	const struct jr_work_end *end = attempt->end;
	struct jr_outcome *written = end->settled ? end->written : NULL, outcome = {.settled = false};
	bool counts = written != NULL || judge(attempt, end, &outcome);

	(void)event;
	if (end->in_doubt)
		outcome.doubt = take_written(end);
	attempt->state = JR_ST_ENDED;
	cancel_timers(attempt);
	attempt->setup.ended(attempt->setup.ctx, attempt, counts ? (written != NULL ? written : &outcome) : NULL);
	jr_outcome_release(&outcome);
}

static void
stop(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	attempt->reason = event;
	attempt->state = JR_ST_STOPPING;
	stop_work(attempt, false);
	expect_end(attempt, grace(attempt));
}

static void
stop_lost(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	attempt->reason = event;
	attempt->state = JR_ST_STOPPING;
	stop_work(attempt, false);
	expect_end(attempt, attempt->setup.kill_ms);
}

/*
 * TERM or KILL was sent before. From now on nothing will be written, and the time until KILL may
 * be shorter.
 */
static void
lost(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	attempt->reason = event;
	if (attempt->state == JR_ST_STOPPING)
		expect_end(attempt, attempt->setup.kill_ms);
}

static void
kill_work(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	(void)event;
	attempt->state = JR_ST_KILLING;
	stop_work(attempt, true);
}

/* clang-format off */
static transition_fn *const table[JR_ST_COUNT][JR_EV_COUNT] = {
	[JR_ST_RUNNING] = {
		[JR_EV_ENDED] = settle, [JR_EV_TIMEOUT] = stop, [JR_EV_CANCEL] = stop,
		[JR_EV_SHUTDOWN] = stop, [JR_EV_LOST] = stop_lost, [JR_EV_OVERDUE] = ignore,
	},
	[JR_ST_STOPPING] = {
		[JR_EV_ENDED] = settle, [JR_EV_TIMEOUT] = ignore, [JR_EV_CANCEL] = ignore,
		[JR_EV_SHUTDOWN] = ignore, [JR_EV_LOST] = lost, [JR_EV_OVERDUE] = kill_work,
	},
	[JR_ST_KILLING] = {
		[JR_EV_ENDED] = settle, [JR_EV_TIMEOUT] = ignore, [JR_EV_CANCEL] = ignore,
		[JR_EV_SHUTDOWN] = ignore, [JR_EV_LOST] = lost, [JR_EV_OVERDUE] = kill_work,
	},
	[JR_ST_ENDED] = {
		[JR_EV_ENDED] = impossible, [JR_EV_TIMEOUT] = impossible,
		[JR_EV_CANCEL] = impossible, [JR_EV_SHUTDOWN] = impossible,
		[JR_EV_LOST] = impossible, [JR_EV_OVERDUE] = impossible,
	},
};
/* clang-format on */

_Static_assert(JR_ST_COUNT == 4 && JR_EV_COUNT == 6, "the table above has a cell for each state and event");

void
jr_attempt_event(struct jr_attempt *attempt, enum jr_attempt_event event)
{
	assert(event != JR_EV_ENDED || attempt->end != NULL); /* only a handler says that it ended */
	table[attempt->state][event](attempt, event);
}

/*
 * The fence of the lease is at fence_at_ms, and every process must be gone kill_ms later. The
 * watchdog gets that deadline.
 */
static int64_t
gone_by(const struct jr_attempt *attempt, int64_t fence_at_ms)
{
	return jr_clock_after(fence_at_ms, attempt->setup.kill_ms);
}

/* By the watchdog, while this process stood still: that says nothing of the work. */
static bool
was_killed_at_fence(const struct jr_attempt *attempt, const struct jr_work_end *end)
{
	return attempt->reason == JR_EV_ENDED && end->has_exit && end->exit_status == 128 + SIGKILL &&
	       jr_clock_now_ms() >= gone_by(attempt, attempt->fence.at_ms);
}

static void
on_work_ended(void *ctx, const struct jr_work_end *end)
{
	struct jr_attempt *attempt = ctx;

	attempt->end = end;
	if (attempt->reason == JR_EV_TIMEOUT && end->by_itself)
		attempt->reason = JR_EV_ENDED;
	if (was_killed_at_fence(attempt, end))
		attempt->reason = JR_EV_LOST;
	jr_attempt_event(attempt, JR_EV_ENDED);
}

static void
on_timeout(void *ctx)
{
	jr_attempt_event(ctx, JR_EV_TIMEOUT);
}

static void
on_fence(void *ctx)
{
	jr_attempt_event(ctx, JR_EV_LOST);
}

static void
on_overdue(void *ctx)
{
	jr_attempt_event(ctx, JR_EV_OVERDUE);
}

static void
on_failed_start(void *ctx)
{
	struct jr_attempt *attempt = ctx;
	char *error = jr_text_clean(attempt->start_err.msg, strlen(attempt->start_err.msg), JR_ERROR_MAX);
	/* A shortage of descriptors, processes or memory costs no attempt. */
	bool passing = attempt->start_err.code == JR_E_TEMP;
	struct jr_work_end end = {
	    .verdict = passing ? JR_LATER : JR_FAIL, .error_code = "cannot-start", .error = error};

	on_work_ended(attempt, &end);
	free(error);
}

static void
start_work(struct jr_attempt *attempt)
{
	const struct jr_attempt_setup *setup = &attempt->setup;
	int64_t now_ms = jr_clock_now_ms();
	int64_t timeout_ms = attempt->run.timeout_ms;
	int64_t deadline_ms = timeout_ms > 0 ? jr_clock_after(now_ms, timeout_ms) : JR_NEVER;
	const struct jr_owner owner = {.ended = on_work_ended, .judge = judge, .ctx = attempt};

	attempt->work = setup->handler->kind->start(setup->host, setup->handler, setup->run,
	    gone_by(attempt, setup->fence_at_ms), deadline_ms, &owner, &attempt->start_err);
	if (attempt->work == NULL) {
		attempt->timeout.fn = on_failed_start;
		deadline_ms = now_ms;
	}
	set_timer(attempt, &attempt->timeout, deadline_ms);
	set_timer(attempt, &attempt->fence, setup->fence_at_ms);
}

/* The run's timeout, else that of NAME.json, at most its timeout_max; 0: none. */
static int64_t
timeout_in_force(const struct jr_settings *settings, int64_t asked_ms)
{
	int64_t timeout_ms = asked_ms < 0 ? settings->timeout_ms : asked_ms;

	if (settings->timeout_max_ms > 0 && (timeout_ms <= 0 || timeout_ms > settings->timeout_max_ms))
		return settings->timeout_max_ms;
	return timeout_ms;
}

struct jr_attempt *
jr_attempt_start(const struct jr_attempt_setup *setup)
{
	struct jr_attempt *attempt = jr_xcalloc(1, sizeof(*attempt));

	attempt->setup = *setup;
	attempt->run = *setup->run;
	attempt->run.timeout_ms = timeout_in_force(&setup->handler->settings, setup->run->timeout_ms);
	attempt->state = JR_ST_RUNNING;
	attempt->reason = JR_EV_ENDED;
	jr_timer_init(&attempt->timeout, on_timeout, attempt);
	jr_timer_init(&attempt->fence, on_fence, attempt);
	jr_timer_init(&attempt->overdue, on_overdue, attempt);
	start_work(attempt);
	return attempt;
}

void
jr_attempt_renew(struct jr_attempt *attempt, int64_t fence_at_ms)
{
	if (attempt->state == JR_ST_ENDED || attempt->reason == JR_EV_LOST)
		return; /* a lost attempt is never renewed */
	set_timer(attempt, &attempt->fence, fence_at_ms);
	if (attempt->work != NULL)
		attempt->setup.handler->kind->move(attempt->work, gone_by(attempt, fence_at_ms));
}

void
jr_attempt_progress(struct jr_attempt *attempt, struct jr_handler_progress *report)
{
	const struct jr_handler_kind *kind = attempt->setup.handler->kind;

	*report = (struct jr_handler_progress){.output_dropped = 0};
	if (attempt->work != NULL && attempt->state != JR_ST_ENDED && kind->progress != NULL)
		kind->progress(attempt->work, report);
}

const char *
jr_attempt_output(const struct jr_attempt *attempt)
{
	return attempt->end->output;
}

enum jr_attempt_state
jr_attempt_state(const struct jr_attempt *attempt)
{
	return attempt->state;
}

bool
jr_attempt_is_lost(const struct jr_attempt *attempt)
{
	return attempt->reason == JR_EV_LOST;
}

void
jr_attempt_free(struct jr_attempt *attempt)
{
	if (attempt == NULL)
		return;
	cancel_timers(attempt);
	if (attempt->work != NULL)
		attempt->setup.handler->kind->free(attempt->work);
	free(attempt);
}
