/*
 * runner_lanes: what is claimed together, and the places for it. See runner_parts.h.
 *
 * Places of each kind are counted by themselves, exactly, among all runners of this user and database on the host:
 * three files of struct jr_places. A set of runs that is worked on together takes one place, which is given back when
 * the last of them has left it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

/*
 * Those asked for with --type, else all; housekeeping always, or a host with --type in each line would never have it.
 */
static bool
is_wanted(const struct jr_runner_opts *opts, const struct jr_handler *handler)
{
	for (size_t i = 0; i < opts->type_count; i++) {
		if (strcmp(opts->types[i], handler->job_type) == 0)
			return true;
	}
	return opts->type_count == 0 || handler->kind->pool == JR_POOL_PRUNE;
}

char *
jr_lanes_types(const struct jr_runner_opts *opts)
{
	const char **types = jr_xcalloc(opts->handlers->count + 1, sizeof(char *));
	size_t count = 0;
	char *array;

	for (size_t i = 0; i < opts->handlers->count; i++) {
		const struct jr_handler *handler = &opts->handlers->items[i];

		if (is_wanted(opts, handler))
			types[count++] = handler->job_type;
	}
	array = jr_pg_array_of(types, count);
	free(types);
	return array;
}

char *
jr_lanes_queues(const struct jr_runner_opts *opts)
{
	const char **queues;
	char *array;

	if (opts->queue_count == 0)
		return NULL;
	queues = jr_xcalloc(opts->queue_count + 1, sizeof(char *));
	for (size_t i = 0; i < opts->queue_count; i++)
		queues[i] = opts->queues[i];
	queues[opts->queue_count] = JR_PRUNE_QUEUE;
	array = jr_pg_array_of(queues, opts->queue_count + 1);
	free(queues);
	return array;
}

static bool
is_set(const struct jr_handler *handler)
{
	return handler->settings.batch > 0;
}

struct jr_lane *
jr_lanes_find(struct jr_runner *runner, const struct jr_handler *handler)
{
	const struct jr_handler *set = is_set(handler) ? handler : NULL;

	for (size_t i = 0; i < runner->lane_count; i++) {
		struct jr_lane *lane = &runner->lanes[i];

		if (lane->set == set && lane->pool == handler->kind->pool)
			return lane;
	}
	return NULL;
}

void
jr_lanes_make(struct jr_runner *runner)
{
	const struct jr_handlers *handlers = runner->opts->handlers;

	runner->lanes = jr_xcalloc(handlers->count + 1, sizeof(*runner->lanes));
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (is_wanted(runner->opts, handler) && jr_lanes_find(runner, handler) == NULL)
			runner->lanes[runner->lane_count++] = (struct jr_lane){
			    .pool = handler->kind->pool, .set = is_set(handler) ? handler : NULL, .most = JR_SET_FIRST};
	}
}

bool
jr_lanes_open(struct jr_runner *runner, const char *place_name, struct jr_err *err)
{
	static const char *const endings[JR_POOL_COUNT] = {"", " http", " sql", " prune"};
	bool ok = true;

	for (size_t i = 0; ok && i < runner->lane_count; i++) {
		enum jr_pool pool = runner->lanes[i].pool;
		char *name = jr_xasprintf("%s%s", place_name, endings[pool]);

		if (runner->places[pool].fd_count == 0)
			ok = jr_places_open(
			    &runner->places[pool], runner->opts->state, name, (size_t)runner->opts->places[pool], err);
		free(name);
	}
	return ok;
}

void
jr_lanes_close(struct jr_runner *runner)
{
	jr_busy_forget(runner);
	for (size_t i = 0; i < runner->lane_count; i++)
		jr_combos_release(&runner->lanes[i].combos);
	free(runner->lanes);
	for (size_t i = 0; i < JR_POOL_COUNT; i++)
		jr_places_close(&runner->places[i]);
}

bool
jr_lanes_is_full(const struct jr_runner *runner, const struct jr_lane *lane)
{
	return (int64_t)runner->places[lane->pool].held_count >= runner->opts->places[lane->pool];
}

struct jr_seat *
jr_seat_take(struct jr_runner *runner, enum jr_pool pool)
{
	struct jr_seat *seat;

	if (runner->claim_places[pool] > 0)
		runner->claim_places[pool]--;
	else if (runner->places[pool].fd_count == 0 || jr_places_take(&runner->places[pool], 1) == 0)
		return NULL;
	seat = jr_xcalloc(1, sizeof(*seat));
	seat->pool = pool;
	seat->runs = 1;
	return seat;
}

struct jr_seat *
jr_seat_of_none(void)
{
	struct jr_seat *seat = jr_xcalloc(1, sizeof(*seat));

	seat->pool = JR_POOL_COUNT;
	seat->runs = 1;
	return seat;
}

void
jr_seat_leave(struct jr_runner *runner, struct jr_seat *seat)
{
	if (--seat->runs > 0)
		return;
	if (seat->pool != JR_POOL_COUNT)
		jr_places_give(&runner->places[seat->pool], 1);
	free(seat);
}

static size_t
cap(const struct jr_runner *runner, size_t wanted)
{
	const struct jr_runner_opts *opts = runner->opts;
	int64_t left = opts->max_runs - runner->counted;

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

/* The priority of what the lane would give next, or better than that. */
static int64_t
rank(const struct jr_lane *lane)
{
	return lane->cursor.set ? lane->cursor.priority : lane->combos.best;
}

/* Is there more urgent work in any lane that wants places of this pool? */
static bool
must_wait(const struct jr_runner *runner, enum jr_pool pool, int64_t priority)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		const struct jr_lane *lane = &runner->lanes[i];

		if (lane->pool == pool && !lane->drained && rank(lane) < priority)
			return true;
	}
	return false;
}

static bool
has_work(const struct jr_runner *runner, const struct jr_lane *lane, bool busy)
{
	if (busy)
		return lane->busy.count > 0 && !must_wait(runner, lane->pool, lane->busy.best);
	return !lane->drained && !must_wait(runner, lane->pool, rank(lane));
}

/* The next lane that has work and a place for it: the most urgent of each pool, else in turns; its places are had. */
bool
jr_lanes_choose(struct jr_runner *runner, bool busy)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		size_t n = (runner->lane_next + i) % runner->lane_count;
		struct jr_lane *lane = &runner->lanes[n];

		if (!has_work(runner, lane, busy))
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

/* A set whose payloads were small may be followed by a larger one; large ones are to fit into memory. */
void
jr_lanes_note_set(const struct jr_runner *runner, struct jr_lane *lane, const PGresult *result)
{
	size_t rows = jr_queue_count_runs(result), bytes = jr_queue_count_bytes(result);

	if (bytes > JR_SET_BYTES) {
		lane->most = rows * JR_SET_BYTES / bytes;
		if (lane->most == 0)
			lane->most = 1;
	} else if (rows == runner->claim_wanted && bytes <= JR_SET_BYTES / 2 && lane->most < JR_BATCH_MAX)
		lane->most *= 2;
}
