/*
 * runner_lanes: what is claimed together, and the places for it. See runner_parts.h.
 *
 * Places of each kind are counted by themselves, exactly, among all runners of this user and database on the host: three
 * files of struct jr_places. A set of runs that is worked on together takes one place, which is given back when the last
 * of them has left it.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "runner_parts.h"

static bool
is_wanted(const struct jr_runner *runner, const struct jr_handler *handler)
{
	const struct jr_runner_opts *opts = runner->opts;

	for (size_t i = 0; i < opts->type_count; i++) {
		if (strcmp(opts->types[i], handler->job_type) == 0)
			return true;
	}
	return opts->type_count == 0;
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

	for (size_t i = 0; i < JR_POOL_COUNT; i++)
		runner->places[i].fd = -1;
	runner->lanes = jr_xcalloc(handlers->count + 1, sizeof(*runner->lanes));
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (is_wanted(runner, handler) && jr_lanes_find(runner, handler) == NULL)
			runner->lanes[runner->lane_count++] =
			    (struct jr_lane){.pool = handler->kind->pool,
				.set = is_set(handler) ? handler : NULL,
				.most = JR_SET_FIRST};
	}
}

bool
jr_lanes_open(struct jr_runner *runner, const char *place_name, struct jr_err *err)
{
	static const char *const endings[JR_POOL_COUNT] = {"", " http", " sql"};
	bool ok = true;

	for (size_t i = 0; ok && i < runner->lane_count; i++) {
		enum jr_pool pool = runner->lanes[i].pool;
		char *name = jr_xasprintf("%s%s", place_name, endings[pool]);

		if (runner->places[pool].fd < 0)
			ok = jr_places_open(&runner->places[pool], runner->opts->state_directory,
			    name, (size_t)runner->opts->places[pool], err);
		free(name);
	}
	return ok;
}

void
jr_lanes_close(struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++)
		jr_combos_release(&runner->lanes[i].combos);
	free(runner->lanes);
	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (runner->places[i].fd >= 0)
			jr_places_close(&runner->places[i]);
	}
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
	else if (runner->places[pool].fd < 0 || jr_places_take(&runner->places[pool], 1) == 0)
		return NULL;
	seat = jr_xcalloc(1, sizeof(*seat));
	seat->pool = pool;
	seat->runs = 1;
	return seat;
}

void
jr_seat_leave(struct jr_runner *runner, struct jr_seat *seat)
{
	if (--seat->runs > 0)
		return;
	jr_places_give(&runner->places[seat->pool], 1);
	free(seat);
}
