/*
 * runner_claim: what to claim, how much, and what to do when the answer is lost. See runner_parts.h.
 *
 * The combinations of (job type, queue, priority) that have a due run are read at most once a second and passed to the
 * claim with a cursor behind the last claimed run. Both are dropped after a second, after a heartbeat, when a claim
 * comes back empty, and before "nothing is due" is decided, so that an urgent run starts within two seconds in the
 * middle of a long drain.
 *
 * What must hold: a place is held for each run before it is claimed; places of runs that did not come are given back.
 */
#include <string.h>

#include "clock.h"
#include "log.h"
#include "runner_parts.h"

#define LOOK_MS 1000 /* how old the combinations may be; how often to look while handlers run */
#define ERRORS_MAX 5 /* failed claims in a row before the runner ends */

static int64_t
jittered(struct jr_runner *runner, int64_t ms)
{
	return ms * 4 / 5 + (int64_t)jr_random_below(&runner->random, (uint64_t)(ms * 2 / 5) + 1);
}

static void
look_again_later(struct jr_runner *runner)
{
	runner->claim_at_ms = jr_clock_after(jr_clock_now_ms(), jittered(runner, LOOK_MS));
	jr_runner_wake_at(runner, runner->claim_at_ms);
}

void
jr_claim_reset(struct jr_runner *runner)
{
	runner->combos_at_ms = -1;
	runner->cursor.set = false;
}

bool
jr_claim_is_over(const struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;

	return runner->draining || runner->drained || runner->crowded ||
	       (opts->job_id > 0 && runner->job_tried) ||
	       (opts->max_runs > 0 && runner->counts.claimed >= opts->max_runs);
}

bool
jr_claim_is_allowed(const struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;

	return runner->phase == JR_PHASE_WORK && !runner->draining && !runner->claim_in_doubt &&
	       !(opts->job_id > 0 && runner->job_tried) &&
	       !(opts->max_runs > 0 && runner->counts.claimed >= opts->max_runs);
}

/* Nothing is due. Final if nothing runs; otherwise look again in a second. */
static void
note_drained(struct jr_runner *runner)
{
	runner->drained = true;
	jr_claim_reset(runner);
	if (runner->held_count > 0)
		look_again_later(runner);
}

void
jr_claim_take_combos(struct jr_runner *runner, const PGresult *result)
{
	jr_queue_read_combos(result, &runner->combos);
	runner->combos_at_ms = jr_clock_now_ms();
	runner->cursor.set = false;
	runner->drained = false;
	if (runner->combos.count > 0)
		runner->claim_at_ms = 0;
	else if (runner->opts->job_id == 0)
		note_drained(runner);
}

/* How many more could be started, and places for them. */
static size_t
take_places(struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;
	int64_t wanted = opts->jobs - (int64_t)runner->places.held_count;

	if (opts->job_id > 0)
		wanted = wanted > 0 ? 1 : 0;
	if (opts->max_runs > 0 && wanted > opts->max_runs - runner->counts.claimed)
		wanted = opts->max_runs - runner->counts.claimed;
	return wanted <= 0 ? 0 : jr_places_take(&runner->places, (size_t)wanted);
}

static bool
has_fresh_combos(const struct jr_runner *runner)
{
	return runner->combos_at_ms >= 0 && runner->combos.count > 0 &&
	       jr_clock_now_ms() - runner->combos_at_ms < LOOK_MS;
}

size_t
jr_claim_add(struct jr_runner *runner, struct jr_batch *batch)
{
	const struct jr_runner_opts *opts = runner->opts;

	runner->claim_wanted = 0;
	if (!jr_claim_is_allowed(runner))
		return 0;
	if (opts->job_id == 0 && !has_fresh_combos(runner)) {
		jr_queue_add_combos(
		    batch, &runner->facts, runner->combos_whole ? INT64_MAX : JR_COMBOS_MAX);
		return 1;
	}
	runner->claim_wanted = take_places(runner);
	if (runner->claim_wanted == 0)
		return 0;
	if (opts->job_id > 0)
		jr_queue_add_claim_job(batch, &runner->facts, opts->job_id, opts->lease.lease_ms);
	else
		jr_queue_add_claim(batch, &runner->facts, &runner->combos, &runner->cursor,
		    runner->claim_wanted, opts->lease.lease_ms);
	return 1;
}

static void
give_back(struct jr_runner *runner, size_t taken)
{
	if (runner->claim_wanted > taken)
		jr_places_give(&runner->places, runner->claim_wanted - taken);
	runner->claim_wanted = 0;
}

/* More rows than asked for would be a bug of the claim. */
static void
report_surplus(struct jr_runner *runner, size_t rows)
{
	struct jr_err err;

	if (rows <= runner->claim_wanted)
		return;
	jr_fail(&err, JR_E_BUG,
	    "the claim returned %zu runs where %zu were asked for: please report this", rows,
	    runner->claim_wanted);
	jr_runner_fail(runner, &err);
}

/* What comes without a place (adoption may find more than one claim's runs) is given back, not started. */
static void
take_runs(
    struct jr_runner *runner, const PGresult *result, int64_t sent_ms, struct jr_cursor *cursor)
{
	size_t rows = jr_queue_count_runs(result), places = runner->claim_wanted;

	if (rows > places)
		places += jr_places_take(&runner->places, rows - places);
	runner->claim_wanted = places;
	give_back(runner, rows);
	runner->counts.claimed += (int64_t)rows;
	for (size_t i = 0; i < rows; i++)
		jr_held_take(runner, jr_queue_read_run(result, i, cursor), sent_ms, i < places);
}

/* An empty claim is the end only if it looked from the head. */
static void
take_claim(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	bool from_head = !runner->cursor.set;

	runner->claim_errors = 0;
	runner->job_tried = true;
	if (jr_queue_count_runs(result) > 0) {
		runner->drained = false;
		runner->combos_whole = false;
	} else if (from_head && runner->combos.count >= JR_COMBOS_MAX && !runner->combos_whole) {
		runner->combos_whole = true; /* what was cut may hold what can be claimed */
		jr_claim_reset(runner);
	} else if (from_head)
		note_drained(runner);
	else
		jr_claim_reset(runner);
	report_surplus(runner, jr_queue_count_runs(result));
	take_runs(runner, result, sent_ms, &runner->cursor);
}

static void
note_claim_failure(struct jr_runner *runner, const struct jr_err *err)
{
	jr_log(JR_INFO, "claim_failed", JR_S("error", err->msg));
	jr_claim_reset(runner);
	if (err->code != JR_E_TEMP || ++runner->claim_errors >= ERRORS_MAX)
		jr_runner_fail(runner, err);
	else
		look_again_later(runner);
}

/* `first`: which of the batch's results is the claim's; what stands before it failed or not together with it. */
void
jr_claim_reply(struct jr_runner *runner, const struct jr_reply *reply, size_t first)
{
	bool was_claim = runner->claim_wanted > 0;

	if (reply->end == JR_PG_DONE && was_claim)
		take_claim(runner, reply->results[first], reply->sent_ms);
	else if (reply->end == JR_PG_DONE)
		jr_claim_take_combos(runner, reply->results[first]);
	else if (reply->end == JR_PG_UNKNOWN && was_claim) {
		runner->claim_in_doubt = true; /* its places are kept until it is known */
		runner->claim_sent_ms = reply->sent_ms;
		jr_claim_reset(runner);
	} else {
		give_back(runner, 0);
		jr_claim_reset(runner);
		if (reply->end == JR_PG_FAILED && first == 0)
			note_claim_failure(runner, &reply->err);
	}
}

static void
on_claim(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_claim_reply(runner, reply, 0);
	jr_runner_pump(runner);
}

bool
jr_claim_try(struct jr_runner *runner)
{
	struct jr_batch *batch;

	if (!jr_claim_is_allowed(runner) || (runner->drained && runner->held_count == 0))
		return false;
	if (jr_clock_now_ms() < runner->claim_at_ms) {
		jr_runner_wake_at(runner, runner->claim_at_ms);
		return false;
	}
	if ((int64_t)runner->places.held_count >= runner->opts->jobs)
		return false;
	batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_claim, runner);
	if (jr_claim_add(runner, batch) > 0) {
		runner->claim_alone = false;
		jr_pg_submit(runner->pg, batch);
		return true;
	}
	jr_batch_free(batch);
	if (runner->held_count == 0)
		runner->crowded =
		    true; /* other runners of this host have every place, and go on claiming */
	else
		look_again_later(runner);
	return false;
}

/* The lease of the claim in doubt has ended: nothing of it is worth adopting. */
static bool
is_too_late(const struct jr_runner *runner)
{
	return jr_clock_now_ms() >=
	       jr_clock_after(runner->claim_sent_ms, runner->opts->lease.lease_ms);
}

/*
 * From when the leases of adopted runs count: the claim in doubt, or earlier if one of them is of an older claim that
 * was given up and executed late, as what is left of it tells.
 */
static int64_t
adopted_since(const struct jr_runner *runner, const struct jr_reply *reply)
{
	int64_t since_ms = runner->claim_sent_ms;

	for (size_t i = 0; i < jr_queue_count_runs(reply->results[0]); i++) {
		int64_t left_ms = jr_queue_read_lease_left(reply->results[0], i);
		int64_t begun_ms = reply->sent_ms + left_ms - runner->opts->lease.lease_ms;

		if (begun_ms < since_ms)
			since_ms = begun_ms;
	}
	return since_ms;
}

static void
on_adopt(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		runner->claim_in_doubt = false;
		runner->job_tried = jr_queue_count_runs(reply->results[0]) > 0;
		take_runs(runner, reply->results[0], adopted_since(runner, reply), NULL);
	} else if (reply->end == JR_PG_FAILED && reply->err.code == JR_E_TEMP &&
		   !is_too_late(runner))
		runner->adopt_at_ms =
		    jr_clock_after(jr_clock_now_ms(), runner->opts->lease.heartbeat_ms / 2);
	else if (reply->end == JR_PG_FAILED) {
		runner->claim_in_doubt = false; /* their leases run out, and a tick finds them */
		give_back(runner, 0);
		jr_runner_fail(runner, &reply->err);
	}
	jr_runner_pump(runner);
}

/* After a claim whose answer was lost: what runs under my name that I do not know? */
bool
jr_claim_try_adopt(struct jr_runner *runner)
{
	struct jr_batch *batch;
	struct jr_held_list all;

	if (!runner->claim_in_doubt)
		return false;
	if (jr_clock_now_ms() < runner->adopt_at_ms) {
		jr_runner_wake_at(runner, runner->adopt_at_ms);
		return false;
	}
	all = jr_held_select(runner, NULL);
	batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_adopt, runner);
	jr_queue_add_adopt(batch, runner->facts.id, all.runs, all.count);
	jr_held_list_release(&all);
	jr_pg_submit(runner->pg, batch);
	return true;
}
