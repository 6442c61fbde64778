/*
 * runner_link: the runner's connection. See runner_parts.h.
 *
 * While nothing is held a failed connection is tried again for patience_ms, and then the exit status is 75. While runs
 * are held it is tried again until they are gone (the self-fence of each run decides) or a second INT comes.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define PATIENT_MS 10000 /* one try to connect, while nothing is held */
#define PAUSE_BASE_MS 100
#define PAUSE_CAP_MS 2000

static int64_t
min_ms(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* How long one try to connect may take: shorter while leases run. */
static int64_t
connect_ms(const struct jr_runner *runner)
{
	if (jr_held_count(runner) == 0)
		return PATIENT_MS;
	return min_ms(PATIENT_MS, runner->opts->lease.lease_ms / 4);
}

static void
remember_why(struct jr_runner *runner, const char *why)
{
	free(runner->link.why);
	runner->link.why = jr_xstrdup_or_null(why);
}

static void
on_tell(void *ctx)
{
	struct jr_runner *runner = ctx;
	struct jr_link *link = &runner->link;
	int64_t left_ms = 0;
	struct jr_err err;

	if (link->why == NULL)
		jr_pg_waits_for(runner->pg, &err);
	if (jr_held_count(runner) == 0)
		left_ms = link->tries == 0 ? PATIENT_MS + runner->opts->patience_ms
					   : link->patience_until_ms - jr_clock_now_ms();
	runner->opts->waits(runner->opts->ctx, link->why == NULL ? err.msg : link->why, left_ms);
}

/* Once for each time without a connection. */
static void
tell_later(struct jr_runner *runner)
{
	if (runner->opts->waits != NULL)
		jr_timer_set(runner->loop, &runner->link.tell, jr_clock_after(jr_clock_now_ms(), JR_PG_TELL_MS));
}

static void
on_reconnect(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_pg_open(runner->pg, connect_ms(runner), jr_held_count(runner) > 0);
}

static void
on_opened(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_timer_cancel(&runner->link.tell);
	remember_why(runner, NULL);
	if (runner->link.tries > 0)
		jr_log(JR_INFO, JR_EVENT_DB_BACK, JR_I("count", runner->link.tries));
	runner->link.learns = false;
	jr_held_beat_by(runner, 0);
	jr_linger_connected(runner);
}

void
jr_link_learn_addresses(struct jr_runner *runner)
{
	if (runner->link.learns || jr_held_count(runner) == 0)
		return;
	runner->link.learns = true;
	jr_pg_learn_addresses(runner->pg);
}

static bool
is_worth_another_try(struct jr_runner *runner, const struct jr_err *err, int64_t next_ms)
{
	if (jr_runner_phase(runner) == JR_PHASE_DONE)
		return false;
	if (jr_held_count(runner) > 0)
		return !jr_runner_is_hurried(runner);
	if (!jr_pg_is_temporary(err) || (jr_exec_is_decided(runner) && !jr_claim_is_in_doubt(runner)))
		return false;
	if (jr_runner_is_draining(runner) || jr_runner_phase(runner) == JR_PHASE_FINISH)
		return jr_claim_is_in_doubt(runner) &&
		       jr_runner_may_end_later(runner, next_ms); /* to give back what it took */
	return next_ms <= runner->link.patience_until_ms;
}

/*
 * An answer made no sense. Nothing more is claimed, and the runs that such a claim took are left to their leases. The
 * held runs go on over another connection.
 */
static void
take_nonsense(struct jr_runner *runner, const struct jr_err *err)
{
	jr_runner_fail(runner, err);
	runner->link.nonsense = true;
	jr_claim_resolve(runner);
}

static void
on_lost(void *ctx, const struct jr_err *err)
{
	struct jr_runner *runner = ctx;
	int64_t now = jr_clock_now_ms(), delay, cap = PAUSE_CAP_MS;

	jr_log(JR_INFO, JR_EVENT_DB_LOST, JR_S("error", err->msg));
	jr_settle_forget_repeats(runner);
	if (jr_pg_is_nonsense(err))
		take_nonsense(runner, err);
	if (jr_pg_has_answered(runner->pg)) /* a connection alone proves nothing */
		runner->link.tries = 0;
	if (runner->link.tries++ == 0)
		runner->link.patience_until_ms = jr_clock_after(now, runner->opts->patience_ms);
	if (jr_held_count(runner) > 0)
		cap = min_ms(cap, runner->opts->lease.lease_ms / 16);
	delay = jr_backoff_ms(&runner->random, runner->link.tries, min_ms(PAUSE_BASE_MS, cap), cap);
	if (is_worth_another_try(runner, err, now + delay)) {
		if (runner->link.why == NULL && runner->link.tell.at_ms == JR_NEVER)
			tell_later(runner);
		remember_why(runner, err->msg);
		jr_timer_set(runner->loop, &runner->link.reconnect, now + delay);
		return;
	}
	if (jr_runner_phase(runner) != JR_PHASE_DONE &&
	    (jr_runner_phase(runner) != JR_PHASE_FINISH || jr_claim_is_in_doubt(runner)))
		jr_runner_fail(runner, err);
	jr_runner_enter(runner, JR_PHASE_DONE);
}

bool
jr_link_open(struct jr_runner *runner, void (*idle)(void *runner), void (*warned)(void *runner, const char *text),
    struct jr_err *err)
{
	const struct jr_pg_events events = {.opened = on_opened,
	    .lost = on_lost,
	    .warned = warned,
	    .notified = jr_linger_notified,
	    .idle = idle,
	    .ctx = runner};

	jr_timer_init(&runner->link.reconnect, on_reconnect, runner);
	jr_timer_init(&runner->link.tell, on_tell, runner);
	runner->loop = jr_loop_new(err);
	if (runner->loop == NULL)
		return false;
	runner->pg = jr_pg_new(runner->loop, runner->opts->conninfo, &events);
	jr_pg_needs_grant(runner->pg, "run");
	return true;
}

void
jr_link_close(struct jr_runner *runner)
{
	jr_timer_cancel(&runner->link.reconnect);
	jr_timer_cancel(&runner->link.tell);
	remember_why(runner, NULL);
	jr_pg_free(runner->pg);
	if (runner->loop != NULL)
		jr_loop_free(runner->loop);
}

void
jr_link_connect(struct jr_runner *runner)
{
	runner->link.begun = true;
	tell_later(runner);
	jr_pg_open(runner->pg, PATIENT_MS, false);
}

/*
 * The runner is told to end before there was a connection. If it has waited for one, exit status 0 would say that the
 * database was asked. The command of exec was not started, and its exit status is that of the signal.
 */
void
jr_link_give_up(struct jr_runner *runner)
{
	struct jr_err err;

	if (runner->link.begun && runner->opts->exec == NULL) {
		if (runner->link.why != NULL)
			jr_fail(&err, JR_E_TEMP, "%s", runner->link.why);
		else
			jr_pg_waits_for(runner->pg, &err);
		jr_runner_fail(runner, &err);
	}
	jr_runner_enter(runner, JR_PHASE_DONE);
}

bool
jr_link_was_nonsense(const struct jr_runner *runner)
{
	return runner->link.nonsense;
}
