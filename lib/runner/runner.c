/*
 * runner: the life cycle of one tick, and what is sent next. See runner.h for what must hold, runner_parts.h for the
 * parts.
 *
 * Everything that happens (a reply, a handler's end, a timer, a signal) ends in jr_runner_pump, which sends the most
 * urgent batch if none is on the wire: close what reclaim has open, heartbeat, resolve doubt, adopt, reclaim, fire
 * schedules, settle (with the next claim in the same transaction), claim, and when nothing is left, goodbye. What a
 * runner needs to stay (runner_linger.c) is seldom and goes before the claims.
 */
#include "runner/runner.h"

#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

#define RUNNER_ID_BITS 53
#define PATIENT_MS 5000
#define START_TRIES 5
#define START_PAUSE_MS 500

static void
set_id(struct jr_runner *runner)
{
	runner->facts.id = (int64_t)jr_random_below(&runner->random, (UINT64_C(1) << RUNNER_ID_BITS) - 1) + 1;
}

static void
set_facts(struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;

	if (gethostname(runner->hostname, sizeof(runner->hostname) - 1) != 0 || runner->hostname[0] == '\0')
		memcpy(runner->hostname, "localhost", sizeof("localhost"));
	runner->job_types = jr_lanes_types(opts);
	runner->queues = jr_lanes_queues(opts);
	runner->facts.host = runner->hostname;
	runner->facts.version = opts->version;
	runner->facts.job_types = runner->job_types;
	runner->facts.queues = runner->queues;
	runner->facts.pid = getpid();
	runner->facts.places = opts->places[JR_POOL_EXEC];
	set_id(runner);
}

void
jr_runner_fail(struct jr_runner *runner, const struct jr_err *err)
{
	int status = jr_worse_status(runner->status, (int)err->code);

	if (runner->err->msg[0] == '\0' || status != runner->status)
		*runner->err = *err;
	runner->status = status;
	runner->draining = true;
}

void
jr_runner_progress(struct jr_runner *runner)
{
	if (runner->opts->progress != NULL)
		runner->opts->progress(runner->opts->ctx, &runner->counts);
}

void
jr_runner_wake_at(struct jr_runner *runner, int64_t at_ms)
{
	if (at_ms < runner->wake.at_ms)
		jr_timer_set(runner->loop, &runner->wake, at_ms);
}

/* Only while runs are held does a lease depend on quick answers; a claim that is answered too late is given back. */
const struct jr_lease *
jr_runner_times(const struct jr_runner *runner)
{
	return runner->held_count == 0 ? &runner->patient : &runner->opts->lease;
}

static void
on_wake(void *ctx)
{
	jr_runner_pump(ctx);
}

/*
 * The first round trip: does the schema fit, here I am, has anything expired, what is due, when is the next slot, and
 * is this a copy? Where copies are refused nothing of it is kept.
 */
static void
take_start(struct jr_runner *runner, const struct jr_reply *reply)
{
	struct jr_err err;
	char *place_name = NULL;

	if (!jr_queue_read_runner_start(reply->results[1], &place_name)) {
		set_id(runner);
		return;
	}
	if (runner->opts->copied != NULL)
		runner->opts->copied(runner->opts->ctx, jr_queue_read_check_copy(reply->results[5]));
	runner->phase = JR_PHASE_WORK;
	runner->counts.answered = true;
	runner->reclaim_wanted = jr_queue_read_expired(reply->results[2]);
	jr_linger_begin(runner);
	jr_claim_take_combos(runner, reply->results[3]);
	jr_fire_take_look(runner, reply->results[4]);
	if (!jr_lanes_open(runner, place_name, &err))
		jr_runner_fail(runner, &err);
	free(place_name);
}

static void
on_start(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		take_start(runner, reply);
		jr_runner_pump(runner);
	} else if (reply->end == JR_PG_FAILED && reply->err.code == JR_E_TEMP && ++runner->start_errors < START_TRIES)
		jr_runner_wake_at(runner, jr_clock_after(jr_clock_now_ms(), START_PAUSE_MS));
	else if (reply->end == JR_PG_FAILED) {
		jr_runner_fail(runner, &reply->err);
		runner->phase = JR_PHASE_DONE;
	}
}

static void
send_start(struct jr_runner *runner)
{
	struct jr_batch *batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_start, runner);

	runner->facts.linger_ms = jr_linger_left_ms(runner);
	jr_queue_add_need(batch);
	jr_queue_add_runner_start(batch, &runner->facts);
	jr_queue_add_expired(batch, &(struct jr_claim_list){0});
	jr_queue_add_combos(batch, &runner->facts, JR_COMBOS_MAX);
	jr_queue_add_fire_due(batch);
	jr_queue_add_check_copy(batch);
	jr_pg_submit(runner->pg, batch);
}

static void
on_given_back(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	(void)reply; /* else their leases run out */
	runner->phase = JR_PHASE_DONE;
}

/* What a claim took whose answer never came: it was not started, so it is not to be charged. */
static void
give_back(struct jr_runner *runner, const PGresult *result)
{
	struct jr_batch *batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_given_back, runner);
	size_t count = jr_queue_count_runs(result);
	struct jr_settlement *settlements = jr_xcalloc(count, sizeof(*settlements));
	struct jr_outcome outcome = jr_exec_unstarted(runner);

	for (size_t i = 0; i < count; i++) {
		struct jr_run *run = jr_queue_read_run(result, i, NULL);

		settlements[i] = (struct jr_settlement){
		    .id = run->id, .claim_seq = run->claim_seq, .runner_id = runner->facts.id, .outcome = &outcome};
		jr_log(JR_INFO, "unstarted", JR_I("run", run->id), JR_S("type", run->job_type),
		    JR_I("claim", run->claim_seq), JR_S("reason", "the claim was not answered"));
		jr_run_free(run);
	}
	jr_queue_add_settle(batch, settlements, count);
	free(settlements);
	jr_outcome_release(&outcome);
	jr_pg_submit(runner->pg, batch);
}

/* A goodbye that did not arrive harms nobody: last_seen_at tells. */
static void
on_finish(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE && reply->result_count > 1 && jr_queue_count_runs(reply->results[1]) > 0)
		give_back(runner, reply->results[1]);
	else
		runner->phase = JR_PHASE_DONE;
}

static char *
counts_json(const struct jr_counts *c)
{
	json_t *doc = json_pack("{sI sI sI sI sI sI sI sI sI sI}", "claimed", c->claimed, "succeeded", c->succeeded,
	    "failed", c->failed, "dead", c->dead, "later", c->later, "released", c->released, "cancelled", c->cancelled,
	    "reclaimed", c->reclaimed, "fenced", c->fenced, "fired", c->fired);
	char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	return text;
}

static void
send_finish(struct jr_runner *runner)
{
	struct jr_batch *batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_finish, runner);
	char *counts = counts_json(&runner->counts);

	runner->phase = JR_PHASE_FINISH;
	jr_queue_add_runner_finish(batch, runner->facts.id, counts, runner->claim_number);
	if (runner->claim_number > 0) /* what was started is left to its lease: it might do the same again, uncharged */
		jr_queue_add_adopt(batch, runner->facts.id, &runner->begun, runner->adopt_most);
	free(counts);
	jr_pg_submit(runner->pg, batch);
}

static bool
has_nothing_left(const struct jr_runner *runner)
{
	return runner->held_count == 0 && !runner->claim_in_doubt && !runner->reclaim_wanted && !runner->reclaim_open &&
	       jr_claim_is_over(runner);
}

void
jr_runner_pump(struct jr_runner *runner)
{
	if (runner->phase == JR_PHASE_DONE || runner->phase == JR_PHASE_FINISH || !jr_pg_is_idle(runner->pg))
		return;
	if (runner->phase == JR_PHASE_START) {
		send_start(runner);
		return;
	}
	if (runner->reclaim_open && jr_reclaim_try(runner))
		return;
	if (jr_held_try_heartbeat(runner) || jr_settle_try_resolve(runner) || jr_claim_try_adopt(runner) ||
	    jr_linger_try(runner))
		return;
	if (jr_reclaim_try(runner) || (!runner->fired_last && jr_fire_try(runner)))
		return;
	runner->fired_last = false;
	if (jr_settle_try(runner) || jr_tell_try(runner) || jr_claim_try(runner) || jr_fire_try(runner))
		return;
	if (has_nothing_left(runner))
		send_finish(runner);
	else
		jr_linger_show(runner);
}

/* The time that people gave running handlers is over. */
static void
on_grace(void *ctx)
{
	struct jr_runner *runner = ctx;

	jr_held_stop_all(runner, false);
}

static void
on_runtime(void *ctx)
{
	struct jr_runner *runner = ctx;

	runner->draining = true;
	jr_runner_pump(runner);
}

static void
on_splayed(void *ctx)
{
	struct jr_runner *runner = ctx;

	runner->linger.until_ms = jr_clock_after(jr_clock_now_ms(), runner->opts->linger_ms);
	jr_pg_open(runner->pg, JR_LINK_PATIENT_MS, false);
}

static void
hurry(struct jr_runner *runner)
{
	runner->hurried = true;
	runner->status = 130;
	jr_timer_cancel(&runner->grace);
	jr_held_stop_all(runner, true);
}

/* TERM, HUP and the first INT drain; the second INT kills. */
static void
on_signal(void *ctx, int signo)
{
	struct jr_runner *runner = ctx;

	if (jr_exec_is_deaf(runner, signo))
		return;
	jr_log(JR_INFO, "runner_signal", JR_I("signal", signo));
	if (signo == SIGINT && ++runner->interrupts == 2)
		hurry(runner);
	if (runner->signalled)
		return;
	runner->signalled = true;
	runner->draining = true;
	if (runner->phase == JR_PHASE_START && !jr_pg_is_open(runner->pg)) {
		runner->phase = JR_PHASE_DONE;
		return;
	}
	jr_timer_set(runner->loop, &runner->grace, jr_clock_after(jr_clock_now_ms(), runner->opts->grace_ms));
	jr_runner_pump(runner);
}

/* The same part of the splay on each start of a host, another one on each host. */
static int64_t
splay_of(const struct jr_runner *runner)
{
	struct jr_random random;
	uint64_t seed = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (const char *p = runner->hostname; *p != '\0'; p++)
		seed = (seed ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	jr_random_seed(&random, seed);
	return (int64_t)jr_random_below(&random, (uint64_t)runner->opts->splay_ms + 1);
}

/* Deadlines while nothing is held: a claim must still be worth something when its answer comes. */
static void
set_patience(struct jr_runner *runner)
{
	const struct jr_lease *lease = &runner->opts->lease;
	int64_t half = (lease->lease_ms - lease->margin_ms) / 2;

	runner->patient = *lease;
	runner->patient.deadline_ms = half < PATIENT_MS ? half : PATIENT_MS;
	runner->patient.statement_ms = runner->patient.deadline_ms * 3 / 5;
	runner->patient.lock_ms = runner->patient.deadline_ms / 5;
}

static bool
open_runner(struct jr_runner *runner, struct jr_err *err)
{
	int64_t now = jr_clock_now_ms();

	set_patience(runner);
	jr_random_seed_system(&runner->random);
	set_facts(runner);
	jr_lanes_make(runner);
	runner->beat_at_ms = JR_NEVER;
	runner->combos_at_ms = -1;
	runner->fire_at_ms = JR_NEVER;
	runner->claim_most = JR_CLAIM_MOST;
	runner->adopt_most = JR_CLAIM_MOST;
	runner->reclaim_limit = JR_RECLAIM_BATCH;
	jr_timer_init(&runner->splay, on_splayed, runner);
	jr_timer_init(&runner->grace, on_grace, runner);
	jr_timer_init(&runner->runtime, on_runtime, runner);
	jr_timer_init(&runner->wake, on_wake, runner);
	if (!jr_link_open(runner, err) || !jr_loop_signals(runner->loop, on_signal, runner, err))
		return false;
	runner->host = (struct jr_host){.loop = runner->loop,
	    .conninfo = runner->opts->conninfo,
	    .lease = &runner->opts->lease,
	    .echo = runner->opts->echo};
	if (runner->opts->max_runtime_ms > 0)
		jr_timer_set(runner->loop, &runner->runtime, jr_clock_after(now, runner->opts->max_runtime_ms));
	jr_timer_set(runner->loop, &runner->splay, jr_clock_after(now, splay_of(runner)));
	return true;
}

static void
close_runner(struct jr_runner *runner)
{
	jr_timer_cancel(&runner->splay);
	jr_timer_cancel(&runner->grace);
	jr_timer_cancel(&runner->runtime);
	jr_timer_cancel(&runner->wake);
	while (runner->held != NULL)
		jr_held_drop(runner->held);
	jr_claim_list_release(&runner->begun);
	jr_claim_list_release(&runner->offered);
	jr_reclaim_forget(runner);
	jr_handlers_close_host(&runner->host);
	jr_watchdog_free(runner->watchdog);
	jr_link_close(runner);
	jr_lanes_close(runner);
	free(runner->job_types);
	free(runner->queues);
}

int
jr_runner_run(const struct jr_runner_opts *opts, struct jr_counts *counts, struct jr_err *err)
{
	struct jr_runner runner = {.opts = opts, .err = err};
	struct jr_err failure;

	if (!open_runner(&runner, &failure))
		jr_runner_fail(&runner, &failure);
	else
		while (runner.phase != JR_PHASE_DONE) {
			if (!jr_loop_turn(runner.loop, &failure)) {
				jr_runner_fail(&runner, &failure);
				break;
			}
		}
	if (runner.counts.dead > 0)
		runner.status = jr_worse_status(runner.status, JR_E_NEWS);
	close_runner(&runner);
	*counts = runner.counts;
	counts->crowded = runner.crowded;
	return runner.status;
}
