/*
 * rehearse: one attempt of a handler, here and now. See rehearse.h.
 *
 * The lease never ends, so nothing stops the handler but its timeout and signals. What must hold: everything that was
 * started is gone when jr_rehearse returns, also when the loop fails: freeing an attempt ends its handler.
 */
#include "runner/rehearse.h"

#include <signal.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "runner/attempt.h"

struct rehearsing {
	struct jr_host host;
	struct jr_random random;
	const struct jr_run *run;
	struct jr_attempt *attempt;
	struct jr_rehearsed *rehearsed;
	int64_t interrupts;
	bool ended;
};

static void
on_signal(void *ctx, int signo)
{
	struct rehearsing *rehearsing = ctx;

	if (rehearsing->ended)
		return;
	jr_attempt_event(rehearsing->attempt, JR_EV_SHUTDOWN);
	if (signo != SIGINT || ++rehearsing->interrupts < 2)
		return;
	rehearsing->rehearsed->killed = true;
	jr_attempt_event(rehearsing->attempt, JR_EV_OVERDUE);
}

/* The bounds of the pause that a runner would draw; if the handler asked for a longer pause, that pause. */
static void
note_pause(struct jr_rehearsed *rehearsed, const struct jr_run *run)
{
	const struct jr_outcome *outcome = &rehearsed->outcome;
	int64_t n = outcome->kind == JR_OUT_LATER ? run->snoozes + 1 : run->attempts;

	jr_backoff_range(n, JR_BACKOFF_BASE_MS, JR_BACKOFF_CAP_MS, &rehearsed->pause_min_ms, &rehearsed->pause_max_ms);
	if (outcome->delay_ms > rehearsed->pause_max_ms)
		rehearsed->pause_min_ms = rehearsed->pause_max_ms = outcome->delay_ms;
}

static void
on_ended(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome)
{
	struct rehearsing *rehearsing = ctx;
	struct jr_rehearsed *rehearsed = rehearsing->rehearsed;

	(void)attempt;
	rehearsed->outcome = *outcome; /* never NULL: there is no lease to lose */
	*outcome = (struct jr_outcome){0};
	rehearsed->took_ms = jr_clock_now_ms() - rehearsing->run->claimed_ms;
	note_pause(rehearsed, rehearsing->run);
	rehearsing->ended = true;
}

/* Caller frees. */
static struct jr_run *
make_run(const struct jr_rehearsal *rehearsal)
{
	struct jr_run *run = jr_xcalloc(1, sizeof(*run));

	*run = (struct jr_run){
	    .id = JR_REHEARSAL_RUN,
	    .claim_seq = JR_REHEARSAL_RUN,
	    .attempts = rehearsal->attempt,
	    .max_attempts = rehearsal->max_attempts,
	    .timeout_ms = rehearsal->timeout_ms,
	    .grace_ms = -1,
	    .backoff_base_ms = -1,
	    .backoff_cap_ms = -1,
	    .started_ms = jr_clock_wall_ms(),
	    .claimed_ms = jr_clock_now_ms(),
	    .job_type = jr_xstrdup(rehearsal->handler->job_type),
	    .queue = jr_xstrdup("default"),
	    .payload = jr_xstrdup(rehearsal->payload),
	    .key = jr_xstrdup(rehearsal->key),
	    .checkpoint = jr_xstrdup_or_null(rehearsal->checkpoint),
	};
	return run;
}

/* Only a process needs a watchdog that ends it when jobrun is killed. */
static bool
open_host(struct rehearsing *rehearsing, const struct jr_rehearsal *rehearsal, struct jr_err *err)
{
	struct jr_host *host = &rehearsing->host;

	*host =
	    (struct jr_host){.conninfo = rehearsal->conninfo, .echo = true, .raw = rehearsal->raw, .rehearsal = true};
	if (rehearsal->handler->kind->pool == JR_POOL_EXEC) {
		host->watchdog = jr_watchdog_start(err);
		if (host->watchdog == NULL)
			return false;
	}
	host->loop = jr_loop_new(err);
	return host->loop != NULL && jr_loop_signals(host->loop, on_signal, rehearsing, err);
}

static void
close_host(struct jr_host *host)
{
	jr_handlers_close_host(host);
	jr_watchdog_free(host->watchdog);
	if (host->loop != NULL)
		jr_loop_free(host->loop);
}

static bool
go_through(struct rehearsing *rehearsing, const struct jr_rehearsal *rehearsal, struct jr_err *err)
{
	struct jr_run *run = make_run(rehearsal);
	const struct jr_attempt_setup setup = {
	    .host = &rehearsing->host,
	    .handler = rehearsal->handler,
	    .run = run,
	    .random = &rehearsing->random,
	    .fence_at_ms = JR_NEVER,
	    .ended = on_ended,
	    .ctx = rehearsing,
	};
	bool ok = true;

	rehearsing->run = run;
	rehearsing->attempt = jr_attempt_start(&setup);
	while (ok && !rehearsing->ended)
		ok = jr_loop_turn(rehearsing->host.loop, err);
	jr_attempt_free(rehearsing->attempt);
	jr_run_free(run);
	return ok;
}

bool
jr_rehearse(const struct jr_rehearsal *rehearsal, struct jr_rehearsed *rehearsed, struct jr_err *err)
{
	struct rehearsing rehearsing = {.rehearsed = rehearsed};
	bool ok;

	*rehearsed = (struct jr_rehearsed){.killed = false};
	jr_random_seed_system(&rehearsing.random);
	ok = open_host(&rehearsing, rehearsal, err) && go_through(&rehearsing, rehearsal, err);
	close_host(&rehearsing.host);
	return ok;
}

void
jr_rehearsed_release(struct jr_rehearsed *rehearsed)
{
	jr_outcome_release(&rehearsed->outcome);
}
