/*
 * runner_claim: what to claim, how much, from which lane. See runner_parts.h.
 *
 * The combinations of (job type, queue, priority) that have a due run are read at most once a second and passed to the
 * claim with a cursor behind the last claimed run. Both are dropped after a second, after a heartbeat, when a claim
 * comes back empty, and before "nothing is due" is decided, so that an urgent run starts within two seconds in the
 * middle of a long drain.
 *
 * What must hold: a place is held for each run before it is claimed; places of runs that did not come are given back.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "pg_array.h"
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
	for (size_t i = 0; i < runner->lane_count; i++)
		runner->lanes[i].cursor.set = false;
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

/*
 * Nothing was due. Final if nothing runs; otherwise look again in a second. What a sql handler has committed on its own
 * connection since the look was sent was not seen by it.
 */
static void
note_drained(struct jr_runner *runner)
{
	jr_claim_reset(runner);
	if (runner->stale)
		return;
	runner->drained = true;
	if (runner->held_count > 0)
		look_again_later(runner);
}

struct filter {
	struct jr_runner *runner;
	const struct jr_lane *lane;
};

static bool
is_of_lane(void *ctx, const char *job_type)
{
	const struct filter *filter = ctx;
	const struct jr_handler *handler =
	    jr_handlers_find(filter->runner->opts->handlers, job_type);

	return handler != NULL && jr_lanes_find(filter->runner, handler) == filter->lane;
}

void
jr_claim_take_combos(struct jr_runner *runner, const PGresult *result)
{
	bool missing = false;

	runner->combos_count = (size_t)PQntuples(result);
	runner->combos_at_ms = jr_clock_now_ms();
	for (size_t i = 0; i < runner->lane_count; i++) {
		struct jr_lane *lane = &runner->lanes[i];
		struct filter filter = {runner, lane};

		jr_queue_read_combos(result, &lane->combos, is_of_lane, &filter);
		lane->cursor.set = false;
		lane->drained = lane->combos.count == 0;
		missing = missing || lane->drained;
	}
	runner->drained = false;
	if (runner->combos_count > 0)
		runner->claim_at_ms = 0;
	else if (runner->opts->job_id == 0)
		note_drained(runner);
	if (missing && runner->combos_count >= JR_COMBOS_MAX && !runner->combos_whole) {
		runner->combos_whole =
		    true; /* what was cut may be all of a lane's, whose places are free */
		jr_claim_reset(runner);
	}
}

static size_t
cap(const struct jr_runner *runner, size_t wanted)
{
	const struct jr_runner_opts *opts = runner->opts;
	int64_t left = opts->max_runs - runner->counts.claimed;

	if (wanted > runner->claim_most)
		wanted = runner->claim_most;
	if (opts->max_runs > 0 && (int64_t)wanted > left)
		return left > 0 ? (size_t)left : 0;
	return wanted;
}

static size_t
set_size(const struct jr_lane *lane)
{
	size_t batch = (size_t)lane->set->settings.batch;

	return batch < lane->most ? batch : lane->most;
}

/* How many more of the lane could be started, and places for them. */
static size_t
take_places(struct jr_runner *runner, const struct jr_lane *lane)
{
	struct jr_places *places = &runner->places[lane->pool];
	size_t free_count = (size_t)runner->opts->places[lane->pool] - places->held_count;
	size_t taken;

	if (jr_lanes_is_full(runner, lane))
		return 0;
	taken = jr_places_take(places, lane->set != NULL ? 1 : cap(runner, free_count));
	runner->claim_places[lane->pool] = taken;
	if (lane->set != NULL && taken > 0)
		return cap(runner, set_size(lane));
	return taken;
}

static bool
has_fresh_combos(const struct jr_runner *runner)
{
	return runner->combos_at_ms >= 0 && runner->combos_count > 0 &&
	       jr_clock_now_ms() - runner->combos_at_ms < LOOK_MS;
}

/* The priority of what the lane would give next, or better than that. */
static int64_t
rank(const struct jr_lane *lane)
{
	return lane->cursor.set ? lane->cursor.priority : lane->combos.best;
}

/* Has another lane, that wants the same places, more urgent work? */
static bool
must_wait(const struct jr_runner *runner, const struct jr_lane *lane)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		const struct jr_lane *other = &runner->lanes[i];

		if (other->pool == lane->pool && !other->drained && rank(other) < rank(lane))
			return true;
	}
	return false;
}

/* The next lane that has work and a place for it: the most urgent of each pool, else in turns; its places are had. */
static bool
choose_lane(struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		size_t n = (runner->lane_next + i) % runner->lane_count;
		struct jr_lane *lane = &runner->lanes[n];

		if (lane->drained || must_wait(runner, lane))
			continue;
		runner->claim_wanted = take_places(runner, lane);
		if (runner->claim_wanted == 0)
			continue;
		runner->claim_lane = lane;
		runner->lane_next = n + 1;
		return true;
	}
	return false;
}

/* --job: its type is known only when it has been claimed, so a place of each kind is had, and only types with one asked for. */
static size_t
add_claim_job(struct jr_runner *runner, struct jr_batch *batch)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const char **types = jr_xcalloc(handlers->count + 1, sizeof(char *));
	struct jr_runner_facts facts = runner->facts;
	size_t count = 0;
	char *array;

	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (runner->places[i].fd >= 0)
			runner->claim_places[i] = jr_places_take(&runner->places[i], 1);
	}
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (runner->claim_places[handler->kind->pool] > 0)
			types[count++] = handler->job_type;
		else
			runner->crowded = true;
	}
	array = jr_pg_array_of(types, count);
	facts.job_types = array;
	runner->claim_lane = NULL;
	runner->claim_wanted = 1;
	jr_queue_add_claim_job(batch, &facts, runner->opts->job_id, runner->opts->lease.lease_ms);
	free(array);
	free(types);
	return 1;
}

size_t
jr_claim_add(struct jr_runner *runner, struct jr_batch *batch)
{
	const struct jr_runner_opts *opts = runner->opts;

	runner->claim_wanted = 0;
	if (!jr_claim_is_allowed(runner))
		return 0;
	if (opts->job_id > 0)
		return add_claim_job(runner, batch);
	if (!has_fresh_combos(runner)) {
		runner->stale = false;
		jr_queue_add_combos(
		    batch, &runner->facts, runner->combos_whole ? INT64_MAX : JR_COMBOS_MAX);
		return 1;
	}
	if (!choose_lane(runner))
		return 0;
	runner->stale = false;
	jr_queue_add_claim(batch, &runner->facts, &runner->claim_lane->combos,
	    &runner->claim_lane->cursor, runner->claim_wanted, opts->lease.lease_ms);
	return 1;
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

static bool
all_drained(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		if (!runner->lanes[i].drained)
			return false;
	}
	return true;
}

/* An empty claim is the end of its lane only if it looked from the head and at all there is. */
static void
take_empty(struct jr_runner *runner, struct jr_lane *lane)
{
	bool whole = runner->combos_count < JR_COMBOS_MAX || runner->combos_whole;

	if (lane != NULL && lane->cursor.set)
		jr_claim_reset(runner);
	else if (lane != NULL && !whole) {
		runner->combos_whole = true; /* what was cut may hold what can be claimed */
		jr_claim_reset(runner);
	} else {
		if (lane != NULL)
			lane->drained = true;
		if (lane == NULL || all_drained(runner))
			note_drained(runner);
	}
}

/* A set whose payloads were small may be followed by a larger one; large ones are to fit into memory. */
static void
note_set(const struct jr_runner *runner, struct jr_lane *lane, const PGresult *result)
{
	size_t rows = jr_queue_count_runs(result), bytes = jr_queue_count_bytes(result);

	if (bytes > JR_SET_BYTES) {
		lane->most = rows * JR_SET_BYTES / bytes;
		if (lane->most == 0)
			lane->most = 1;
	} else if (rows == runner->claim_wanted && bytes <= JR_SET_BYTES / 2 &&
		   lane->most < JR_BATCH_MAX)
		lane->most *= 2;
}

static void
take_claim(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	struct jr_lane *lane = runner->claim_lane;

	runner->claim_errors = 0;
	if (runner->claim_most < JR_CLAIM_MOST)
		runner->claim_most++;
	runner->job_tried = true;
	if (jr_queue_count_runs(result) > 0) {
		runner->drained = false;
		runner->combos_whole = false;
		runner->crowded = false;
	} else
		take_empty(runner, lane);
	if (lane != NULL && lane->set != NULL)
		note_set(runner, lane, result);
	report_surplus(runner, jr_queue_count_runs(result));
	jr_claim_take_runs(runner, result, sent_ms, lane == NULL ? NULL : &lane->cursor);
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
		runner->claim_most = jr_claim_fewer(runner->claim_wanted);
		jr_claim_reset(runner);
	} else {
		jr_claim_give_back(runner);
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

/* Could anything be started at all? */
static bool
has_room(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		if (!jr_lanes_is_full(runner, &runner->lanes[i]))
			return true;
	}
	return runner->lane_count == 0;
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
	if (!has_room(runner))
		return false;
	batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_claim, runner);
	if (jr_claim_add(runner, batch) > 0) {
		runner->claim_alone = false;
		jr_pg_submit(runner->pg, batch);
		return true;
	}
	jr_batch_free(batch);
	if (runner->held_count == 0 && runner->stale) {
		jr_claim_reset(runner);
		return jr_claim_try(runner);
	}
	if (runner->held_count == 0)
		runner->crowded =
		    true; /* other runners of this host have every place, and go on claiming */
	else
		look_again_later(runner);
	return false;
}
