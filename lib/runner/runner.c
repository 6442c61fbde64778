/*
 * runner: the life cycle of one tick, and what is sent next. See runner.h for what must hold, runner_parts.h for the
 * parts.
 *
 * Whatever happens (a reply, a handler's end, a timer, a signal), on_idle follows it when the connection is idle, and
 * sends the most urgent request: close what reclaim has open, heartbeat, resolve doubt, adopt, what a runner needs to
 * stay (runner_linger.c), reclaim, fire schedules, settle (with the next claim in the same transaction), progress,
 * claim, tell of runs without a handler, and when nothing is left, goodbye.
 */
#include "runner/runner.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define START_TRIES 5
#define START_PAUSE_MS 500
#define END_PAUSE_MS 200

static char *
counts_json(const struct jr_counts *c)
{
	json_t *doc = json_pack("{sI sI sI sI sI sI sI sI sI sI sI sI sI}", "claimed", c->claimed, "succeeded",
	    c->succeeded, "failed", c->failed, "dead", c->dead, "later", c->later, "released", c->released, "cancelled",
	    c->cancelled, "reclaimed", c->reclaimed, "fenced", c->fenced, "fired", c->fired, "claims", c->claims,
	    "claim_ms", c->claim_ms, "claims_locked", c->claims_locked);
	char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	return text;
}

/*
 * The first round trip: is this the schema that this program makes, here I am, what is there to do, and if there is
 * something, is this a copy? Where copies are refused nothing of it is kept. Another schema, or none, is looked at by a
 * second one, which begins with need.sql: in each tick that would cost the server a twelfth of its work. If there is
 * nothing to do it is the only one: the runner's row says that it has ended. It writes no other row, so its COMMIT does
 * not wait for the disk; a claim that follows makes the row durable with itself. The same holds for a goodbye without
 * claims.
 */
static void
take_started(struct jr_runner *runner, const PGresult *result, const struct jr_started *started)
{
	char *name = jr_xasprintf("%s/%s", started->install_id, started->database);
	struct jr_err err;

	if (runner->opts->idle_session != NULL)
		runner->opts->idle_session(runner->opts->ctx, started->idle_session_ms);
	if (runner->opts->copied != NULL && !started->over)
		runner->opts->copied(runner->opts->ctx, started->copied);
	jr_runner_enter(runner, started->over ? JR_PHASE_DONE : JR_PHASE_WORK);
	runner->counts.answered = true;
	if (started->expired)
		jr_reclaim_begin(runner);
	jr_linger_begin(runner);
	jr_look_take(runner, result, 0);
	jr_fire_take_look(runner, started->slot_due ? 0 : INT64_MAX, false);
	if (started->looks)
		jr_unhandled_want(runner);
	if (!jr_scopes_open(runner, name, &err)) /* an idle tick, too: it keeps the files from a cleaner of old ones */
		jr_runner_fail(runner, &err);
	free(name);
}

/* The first request has written nothing, so the one with need.sql may end the runner. */
static void
ask_need(struct jr_runner *runner)
{
	runner->tick.asks_need = true;
	runner->tick.start_sent = false;
}

static void
take_start(struct jr_runner *runner, const PGresult *result)
{
	struct jr_started started;
	struct jr_err err;

	if (jr_queue_read_runner_start(result, &started)) {
		take_started(runner, result, &started);
		return;
	}
	if (!runner->tick.asks_need) {
		ask_need(runner);
		return;
	}
	/* Another runner has the id. That happens once, if ever; several times in a row it is a bug. */
	jr_facts_draw_id(&runner->facts, &runner->random);
	if (++runner->tick.start_errors < START_TRIES)
		return;
	jr_fail(&err, JR_E_BUG, "runner_start gave no row %d times in a row: " JR_NONSENSE_HINT, START_TRIES);
	jr_runner_fail(runner, &err);
	jr_runner_enter(runner, JR_PHASE_DONE);
}

/* The schema, or what the statement names in it, is not there. A role without rights gets the same from need.sql. */
static bool
is_about_schema(const struct jr_err *err)
{
	return strncmp(err->sqlstate, "42", 2) == 0 || strncmp(err->sqlstate, "3F", 2) == 0;
}

static void
on_start(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_times_note(runner, reply);
	if (reply->end == JR_PG_DONE)
		take_start(runner, reply->results[runner->tick.asks_need ? 1 : 0]);
	else if (reply->end == JR_PG_FAILED && !runner->tick.asks_need && is_about_schema(&reply->err))
		ask_need(runner);
	else if (reply->end == JR_PG_FAILED && reply->err.code == JR_E_TEMP &&
		 ++runner->tick.start_errors < START_TRIES)
		runner->tick.send_at_ms = jr_clock_after(jr_clock_now_ms(), START_PAUSE_MS);
	else if (reply->end == JR_PG_FAILED) {
		jr_runner_fail(runner, &reply->err);
		jr_runner_enter(runner, JR_PHASE_DONE);
	}
}

/* May the first request end the runner, too? A runner that stays, or that is for one run, has more to do. */
static bool
may_be_over(const struct jr_runner *runner)
{
	return runner->facts.linger_ms == 0 && !jr_runner_is_single(runner) && !runner->tick.start_sent;
}

static void
send_start(struct jr_runner *runner)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_start, runner);
	char *counts;

	runner->facts.linger_ms = jr_linger_left_ms(runner);
	if (runner->facts.linger_ms == 0) /* without its row a runner claims nothing: one that stays must not lose it */
		jr_request_unflushed(request, jr_times_walk(runner));
	counts = may_be_over(runner) ? counts_json(&runner->counts) : NULL;
	runner->tick.start_sent = true;
	if (runner->tick.asks_need)
		jr_queue_add_need(request);
	jr_queue_add_runner_start(request, &runner->facts, JR_CANDIDATES_MAX, counts, runner->tick.asks_need);
	free(counts);
	jr_pg_submit(runner->pg, request);
}

/*
 * Runs of a claim without an answer were not started, and are not charged. Who has sent a signal knows that what was
 * claimed is given back: then such a claim is no failure. false: not all could be written.
 */
static bool
take_given_back(struct jr_runner *runner, const PGresult *result)
{
	bool all = true;

	for (size_t i = 0; i < jr_queue_count_given(result); i++) {
		struct jr_given_row row = jr_queue_read_given(result, i);

		all = all && row.settled;
		if (!row.settled)
			continue;
		runner->counts.unstarted++;
		jr_log(JR_INFO, JR_EVENT_UNSTARTED, JR_I("run", row.id), JR_I("claim", row.claim_seq),
		    JR_S("reason", "the claim was not answered"));
		if (jr_runner_is_signalled(runner))
			jr_unanswered_end(runner);
	}
	return all;
}

/* Runs that a claim in doubt may have taken are left to their leases: that is a failure. */
static void
fail_in_doubt(struct jr_runner *runner, const struct jr_reply *reply)
{
	struct jr_err err = reply->err;

	if (reply->end == JR_PG_DONE)
		jr_fail(&err, JR_E_TEMP,
		    "could not give back all runs of a claim that was not answered, since somebody has locked their rows: they stay running until their leases end, and are charged an attempt; look: jobrun list --status running");
	jr_runner_fail(runner, &err);
}

/*
 * A goodbye that did not arrive does no harm: last_seen_at shows the end. But runs that a claim may have taken are to
 * be given back, or they wait until their leases expire.
 */
static void
on_finish(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	int64_t again_ms = jr_clock_after(jr_clock_now_ms(), END_PAUSE_MS);
	bool done = reply->end == JR_PG_DONE && (reply->result_count < 2 || take_given_back(runner, reply->results[1]));
	bool in_vain = reply->end == JR_PG_FAILED && reply->err.code != JR_E_TEMP;

	jr_times_note(runner, reply);
	if (!done && !in_vain && jr_claim_number(runner) > 0 && jr_runner_may_end_later(runner, again_ms)) {
		runner->tick.send_at_ms = again_ms;
		return;
	}
	if (!done && jr_claim_is_in_doubt(runner))
		fail_in_doubt(runner, reply);
	jr_runner_enter(runner, JR_PHASE_DONE);
}

static void
send_finish(struct jr_runner *runner)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_finish, runner);
	char *counts = counts_json(&runner->counts);
	struct jr_outcome outcome = jr_exec_unstarted(runner);

	jr_runner_enter(runner, JR_PHASE_FINISH);
	if (jr_claim_number(runner) == 0)
		jr_request_unflushed(request, jr_times_walk(runner));
	jr_queue_add_runner_finish(request, runner->facts.id, counts, jr_claim_number(runner));
	/* Runs of an answer that made no sense are left to their leases. */
	if (jr_claim_number(runner) > 0 && !jr_link_was_nonsense(runner))
		jr_queue_add_give_back(request, runner->facts.id, jr_held_begun(runner), &outcome);
	jr_outcome_release(&outcome);
	free(counts);
	jr_pg_submit(runner->pg, request);
}

/* A draining runner leaves the doubt about a claim, and what it would reclaim after that, to the goodbye. */
static bool
has_nothing_left(struct jr_runner *runner)
{
	if (jr_held_count(runner) > 0 || jr_reclaim_is_open(runner))
		return false;
	if (jr_claim_is_in_doubt(runner))
		return jr_runner_is_draining(runner);
	return !jr_reclaim_is_wanted(runner) && jr_claim_is_over(runner);
}

/* While a claim is in doubt nothing is reclaimed: its runs may be adopted, and are not lost. */
static bool
try_reclaim(struct jr_runner *runner)
{
	return !jr_claim_is_in_doubt(runner) && jr_reclaim_try(runner);
}

/* The most urgent first. true: a request was submitted. */
static bool
send_work(struct jr_runner *runner)
{
	return jr_reclaim_try_close(runner) || jr_heartbeat_try(runner) || jr_settle_try_resolve(runner) ||
	       jr_adopt_try(runner) || jr_linger_try(runner) || try_reclaim(runner) || jr_fire_try_first(runner) ||
	       jr_settle_try(runner) || jr_progress_try(runner) || jr_claim_try(runner) || jr_fire_try(runner) ||
	       jr_unhandled_try(runner);
}

/* The first and the last request are repeated after a pause. */
static bool
is_too_early(struct jr_runner *runner)
{
	if (jr_clock_now_ms() >= runner->tick.send_at_ms)
		return false;
	jr_runner_wake_at(runner, runner->tick.send_at_ms);
	return true;
}

/* true: a request was submitted. */
static bool
send_next(struct jr_runner *runner)
{
	enum jr_phase phase = jr_runner_phase(runner);

	if (phase != JR_PHASE_WORK && is_too_early(runner))
		return false;
	if (phase == JR_PHASE_START) {
		send_start(runner);
		return true;
	}
	if (phase == JR_PHASE_WORK && send_work(runner))
		return true;
	if (phase == JR_PHASE_WORK && !has_nothing_left(runner)) {
		jr_linger_show(runner);
		return false;
	}
	send_finish(runner);
	return true;
}

/* The one place from which requests are sent. */
static void
send_if_idle(struct jr_runner *runner)
{
	if (!jr_pg_is_idle(runner->pg))
		return;
	jr_start_sweep(runner);
	jr_start_ahead(runner);
	jr_link_learn_addresses(runner);
	if (send_next(runner) && jr_pg_is_idle(runner->pg))
		jr_runner_wake_at(runner, 0);
}

/*
 * Something has happened. If the connection is idle, a request is sent. One that was answered without the server (its
 * transaction was gone) leaves it idle; then there is another look. Claimed runs of batches start after that, with a
 * connection or without.
 */
static void
on_idle(void *ctx)
{
	struct jr_runner *runner = ctx;

	if (jr_runner_phase(runner) == JR_PHASE_DONE)
		return;
	jr_start_end_ahead(runner); /* also while there is no connection */
	send_if_idle(runner);
	jr_start_ready(runner);
}

/* --grace is over. */
static void
on_grace(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_start_stop_all(runner, false);
}

static void
on_runtime(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_runner_drain(runner);
	on_idle(runner);
}

static void
on_splayed(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_linger_open(runner);
	jr_link_connect(runner);
	jr_ping_tick_starts(runner);
}

static void
hurry(struct jr_runner *runner)
{
	jr_runner_hurry(runner);
	jr_timer_cancel(&runner->tick.grace);
	jr_start_stop_all(runner, true);
}

/* TERM, HUP and the first INT drain; the second INT kills. */
static void
on_signal(void *ctx, int signo)
{
	struct jr_runner *runner = ctx;

	if (jr_exec_is_deaf(runner, signo))
		return;
	jr_log(JR_INFO, JR_EVENT_RUNNER_SIGNAL, JR_I("signal", signo));
	if (signo == SIGINT && ++runner->tick.interrupts == 2)
		hurry(runner);
	if (jr_runner_is_signalled(runner))
		return;
	jr_runner_signal(runner);
	if (runner->opts->stopping != NULL)
		runner->opts->stopping(runner->opts->ctx, signo, runner->counts.running);
	if (jr_runner_phase(runner) == JR_PHASE_START && !jr_pg_is_open(runner->pg)) {
		jr_link_give_up(runner);
		return;
	}
	jr_timer_set(runner->loop, &runner->tick.grace, jr_clock_after(jr_clock_now_ms(), runner->opts->grace_ms));
	on_idle(runner);
}

/* A part of the splay that is the same on each start, and differs between hosts. */
static int64_t
splay_of(const struct jr_runner *runner)
{
	struct jr_random random;
	uint64_t seed = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (const char *p = runner->texts.host; *p != '\0'; p++)
		seed = (seed ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	jr_random_seed(&random, seed);
	return (int64_t)jr_random_below(&random, (uint64_t)runner->opts->splay_ms + 1);
}

/* On a handler's connection. */
static void
on_nonsense(void *ctx, const struct jr_err *err)
{
	jr_runner_fail(ctx, err);
}

/* On any connection. */
static void
on_warned(void *ctx, const char *text)
{
	const struct jr_runner *runner = ctx;

	if (runner->opts->warned != NULL)
		runner->opts->warned(runner->opts->ctx, text);
}

static void
open_parts(struct jr_runner *runner, struct jr_err *err)
{
	jr_core_open(runner, err, on_idle);
	jr_held_open(runner);
	jr_scopes_make(runner);
	jr_fire_open(runner);
	jr_progress_open(runner);
	jr_claim_open(runner);
	jr_look_open(runner);
	jr_ahead_open(runner);
	jr_ping_open(runner);
	jr_timer_init(&runner->tick.splay, on_splayed, runner);
	jr_timer_init(&runner->tick.grace, on_grace, runner);
	jr_timer_init(&runner->tick.runtime, on_runtime, runner);
}

static bool
open_runner(struct jr_runner *runner, struct jr_err *err)
{
	int64_t now = jr_clock_now_ms();

	jr_times_open(runner);
	jr_random_seed_system(&runner->random);
	jr_facts_init(&runner->facts, &runner->texts, runner->opts, &runner->random);
	if (!jr_link_open(runner, on_idle, on_warned, err))
		return false;
	jr_start_open(runner, on_nonsense, on_warned);
	if (!jr_loop_signals(runner->loop, on_signal, runner, err))
		return false;
	if (runner->opts->max_runtime_ms > 0)
		jr_timer_set(runner->loop, &runner->tick.runtime, jr_clock_after(now, runner->opts->max_runtime_ms));
	jr_timer_set(runner->loop, &runner->tick.splay, jr_clock_after(now, splay_of(runner)));
	return true;
}

static void
close_runner(struct jr_runner *runner)
{
	jr_timer_cancel(&runner->tick.splay);
	jr_timer_cancel(&runner->tick.grace);
	jr_timer_cancel(&runner->tick.runtime);
	jr_core_close(runner);
	jr_reclaim_forget(runner);
	jr_start_close(runner);
	jr_ahead_close(runner);
	jr_held_close(runner);
	jr_ping_close(runner);
	jr_link_close(runner);
	jr_scopes_close(runner);
	jr_refused_close(runner);
	jr_look_close(runner);
	jr_facts_release(&runner->texts);
}

static void
turn(struct jr_runner *runner)
{
	struct jr_err err;

	while (jr_runner_phase(runner) != JR_PHASE_DONE) {
		if (!jr_loop_turn(runner->loop, &err)) {
			jr_runner_fail(runner, &err);
			return;
		}
	}
	jr_runner_fail_troubled(runner);
	jr_unanswered_fail(runner);
	jr_ping_finish(runner);
}

int
jr_runner_run(const struct jr_runner_opts *opts, struct jr_counts *counts, struct jr_err *err)
{
	struct jr_runner runner = {.opts = opts};
	struct jr_err failure;
	int status;

	open_parts(&runner, err);
	if (open_runner(&runner, &failure))
		turn(&runner);
	else
		jr_runner_fail(&runner, &failure);
	status = jr_runner_status(&runner);
	if (runner.counts.dead > 0)
		status = jr_worse_status(status, JR_E_NEWS);
	close_runner(&runner);
	*counts = runner.counts;
	counts->crowded = jr_claim_is_crowded(&runner);
	counts->tried = jr_claim_is_tried(&runner);
	return status;
}
