/*
 * runner: the life cycle of one tick, and what is sent next. See runner.h for what must hold, runner_parts.h for the
 * parts.
 *
 * Everything that happens (a reply, a handler's end, a timer, a signal) ends in jr_runner_pump, which sends the most
 * urgent request if none is on the wire: close what reclaim has open, heartbeat, resolve doubt, adopt, reclaim, fire
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
#define END_MS 5000 /* how long a goodbye is repeated that may have to give something back */
#define END_PAUSE_MS 200
#define REPEATS_MAX 100 /* of one answer */

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
	runner->job_types = jr_scopes_types(opts);
	runner->queues = jr_scopes_queues(opts);
	runner->facts.host = runner->hostname;
	runner->facts.version = opts->version;
	runner->facts.job_types = runner->job_types;
	runner->facts.queues = runner->queues;
	runner->facts.pid = getpid();
	runner->facts.permits = opts->permits[JR_POOL_EXEC];
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

bool
jr_runner_repeats(struct jr_runner *runner, struct jr_repeat *repeat, const char *statement, const PGresult *result)
{
	uint64_t hash = jr_form_hash(result);
	bool same = PQntuples(result) > 0 && hash == repeat->hash;
	struct jr_err err;

	repeat->count = same ? repeat->count + 1 : 1;
	repeat->hash = hash;
	if (repeat->count < REPEATS_MAX)
		return false;
	jr_fail(&err, JR_E_BUG, "%s gave the same rows %d times in a row: " JR_NONSENSE_HINT, statement, REPEATS_MAX);
	jr_runner_fail(runner, &err);
	return true;
}

void
jr_runner_show_counts(struct jr_runner *runner)
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
	char *permit_name = NULL;
	int64_t idle_ms;

	if (!jr_queue_read_runner_start(reply->results[1], &permit_name, &idle_ms)) {
		set_id(runner); /* somebody else's; not again and again, of so many numbers */
		if (++runner->start_errors < START_TRIES)
			return;
		jr_fail(&err, JR_E_BUG, "runner_start gave no row %d times in a row: " JR_NONSENSE_HINT, START_TRIES);
		jr_runner_fail(runner, &err);
		runner->phase = JR_PHASE_DONE;
		return;
	}
	if (runner->opts->idle_session != NULL)
		runner->opts->idle_session(runner->opts->ctx, idle_ms);
	if (runner->opts->copied != NULL)
		runner->opts->copied(runner->opts->ctx, jr_queue_read_check_copy(reply->results[5]));
	runner->phase = JR_PHASE_WORK;
	runner->counts.answered = true;
	runner->reclaim_wanted = jr_queue_read_expired(reply->results[2]);
	jr_linger_begin(runner);
	jr_claim_take_candidates(runner, reply->results[3]);
	jr_fire_take_look(runner, reply->results[4]);
	if (!jr_scopes_open(runner, permit_name, &err))
		jr_runner_fail(runner, &err);
	free(permit_name);
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
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_start, runner);

	runner->facts.linger_ms = jr_linger_left_ms(runner);
	jr_queue_add_need(request);
	jr_queue_add_runner_start(request, &runner->facts);
	jr_queue_add_expired(request, &(struct jr_claim_list){0});
	jr_queue_add_candidates(request, &runner->facts, JR_CANDIDATES_MAX);
	jr_queue_add_fire_due(request);
	jr_queue_add_check_copy(request);
	jr_pg_submit(runner->pg, request);
}

/* What a claim took whose answer never came was not started, so it is not charged. false: not all could be written. */
static bool
take_given_back(const PGresult *result)
{
	bool all = true;

	for (size_t i = 0; i < jr_queue_count_given(result); i++) {
		struct jr_given_row row = jr_queue_read_given(result, i);

		all = all && row.settled;
		if (row.settled)
			jr_log(JR_INFO, "unstarted", JR_I("run", row.id), JR_I("claim", row.claim_seq),
			    JR_S("reason", "the claim was not answered"));
	}
	return all;
}

bool
jr_runner_may_end_later(struct jr_runner *runner, int64_t at_ms)
{
	if (runner->end_until_ms == 0)
		runner->end_until_ms = jr_clock_after(jr_clock_now_ms(), END_MS);
	return !runner->hurried && at_ms <= runner->end_until_ms;
}

/*
 * A goodbye that did not arrive harms nobody, last_seen_at tells; but what a claim may have taken is to be given back.
 * Else their leases run out.
 */
static void
on_finish(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	int64_t again_ms = jr_clock_after(jr_clock_now_ms(), END_PAUSE_MS);
	bool done = reply->end == JR_PG_DONE && (reply->result_count < 2 || take_given_back(reply->results[1]));
	bool in_vain = reply->end == JR_PG_FAILED && reply->err.code != JR_E_TEMP;

	if (!done && !in_vain && runner->claim_number > 0 && jr_runner_may_end_later(runner, again_ms)) {
		jr_runner_wake_at(runner, again_ms);
		return;
	}
	if (reply->end != JR_PG_DONE && runner->claim_in_doubt)
		jr_runner_fail(runner, &reply->err);
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
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_finish, runner);
	char *counts = counts_json(&runner->counts);
	struct jr_outcome outcome = jr_exec_unstarted(runner);

	runner->phase = JR_PHASE_FINISH;
	jr_queue_add_runner_finish(request, runner->facts.id, counts, runner->claim_number);
	/* What made no sense is left to its lease, too. */
	if (runner->claim_number > 0 && !runner->nonsense)
		jr_queue_add_give_back(request, runner->facts.id, &runner->begun, &outcome);
	jr_outcome_release(&outcome);
	free(counts);
	jr_pg_submit(runner->pg, request);
}

/* A runner that ends leaves doubt to the goodbye, and with it what it would reclaim. */
static bool
has_nothing_left(const struct jr_runner *runner)
{
	if (runner->held_count > 0 || runner->reclaim_open)
		return false;
	if (runner->claim_in_doubt)
		return runner->draining;
	return !runner->reclaim_wanted && jr_claim_is_over(runner);
}

void
jr_runner_pump(struct jr_runner *runner)
{
	if (runner->phase == JR_PHASE_DONE || !jr_pg_is_idle(runner->pg))
		return;
	if (runner->phase == JR_PHASE_START) {
		send_start(runner);
		return;
	}
	if (runner->phase == JR_PHASE_FINISH) {
		send_finish(runner);
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
	if (jr_settle_try(runner) || jr_progress_try(runner) || jr_claim_try(runner) || jr_fire_try(runner))
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

/* On a handler's connection. */
static void
on_nonsense(void *ctx, const struct jr_err *err)
{
	jr_runner_fail(ctx, err);
}

static bool
open_runner(struct jr_runner *runner, struct jr_err *err)
{
	int64_t now = jr_clock_now_ms();

	set_patience(runner);
	jr_random_seed_system(&runner->random);
	set_facts(runner);
	jr_scopes_make(runner);
	runner->beat_at_ms = JR_NEVER;
	runner->candidates_at_ms = -1;
	runner->fire_at_ms = JR_NEVER;
	runner->claim_most = JR_CLAIM_MOST;
	runner->reclaim_limit = JR_RECLAIM_MOST;
	jr_timer_init(&runner->splay, on_splayed, runner);
	jr_timer_init(&runner->grace, on_grace, runner);
	jr_timer_init(&runner->runtime, on_runtime, runner);
	jr_timer_init(&runner->wake, on_wake, runner);
	if (!jr_link_open(runner, err) || !jr_loop_signals(runner->loop, on_signal, runner, err))
		return false;
	runner->host = (struct jr_host){.loop = runner->loop,
	    .conninfo = runner->opts->conninfo,
	    .lease = &runner->opts->lease,
	    .nonsense = on_nonsense,
	    .ctx = runner,
	    .echo = runner->opts->echo,
	    .raw = runner->opts->raw};
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
	jr_scopes_close(runner);
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
	counts->tried = runner.job_tried;
	return runner.status;
}
