/*
 * runner_ahead: runs that are claimed before there is a permit for them. See runner_parts.h.
 *
 * A transaction costs more than a program that ends within a few milliseconds. So when the programs of a job type have
 * shown that they do, a claim takes as many more of their runs as will start within AHEAD_MS (migrations/functions/
 * claim.sql, claim_ahead, says which). They wait in the order of the claim, each starts as soon as a permit is free,
 * and the next claim is sent when those that are left will start in the time that it takes.
 *
 * What must hold: such a run has no permit until it starts. It waits for WAIT_MS at most and is given back then, since
 * another host may be idle; and its job type is not claimed ahead again before it has shown anew that it is quick.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

#define AHEAD_MS 100                      /* the work that is claimed ahead */
#define AHEAD_MOST 1000                   /* runs */
#define AHEAD_BYTES ((size_t)8 * 1048576) /* of payloads, as far as the last answer shows */
#define WAIT_MS 1000
#define QUICK_MS 50  /* the mean of a quick job type is below this */
#define QUICK_RUNS 8 /* of so many at least */

struct jr_ahead_times {
	int64_t ended, total_ms; /* its handlers in this tick, and how long they ran together */
};

void
jr_ahead_open(struct jr_runner *runner)
{
	runner->ahead.times = jr_xcalloc(runner->opts->handlers->count + 1, sizeof(*runner->ahead.times));
}

void
jr_ahead_close(struct jr_runner *runner)
{
	free(runner->ahead.times);
}

/* --- which job types are quick --- */

bool
jr_ahead_is_quick(int64_t ended, int64_t total_ms)
{
	return ended >= QUICK_RUNS && total_ms < ended * QUICK_MS;
}

size_t
jr_ahead_fitting(size_t permits, int64_t ended, int64_t total_ms)
{
	int64_t least_ms = total_ms > ended ? total_ms : ended; /* a millisecond each: the clock shows no less */
	int64_t fitting = (int64_t)permits * AHEAD_MS * ended / least_ms;

	return fitting < AHEAD_MOST ? (size_t)fitting : AHEAD_MOST;
}

static struct jr_ahead_times *
times_of(const struct jr_runner *runner, const struct jr_held *held)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const struct jr_handler *handler = jr_handlers_find(handlers, held->run->job_type);

	return handler != NULL ? &runner->ahead.times[handler - handlers->items] : NULL;
}

void
jr_ahead_note_end(const struct jr_held *held, int64_t took_ms)
{
	struct jr_ahead_times *times = times_of(held->runner, held);

	if (times == NULL)
		return;
	times->ended++;
	times->total_ms += took_ms;
}

/* --- how many to claim --- */

/* The quick ones, and how many will start in time if all are of the slowest of them. */
static size_t
choose_types(const struct jr_runner *runner, const char **types, size_t *count)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	size_t permits = jr_scopes_count_held(runner, JR_POOL_EXEC), fewest = AHEAD_MOST;

	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_ahead_times *times = &runner->ahead.times[i];
		size_t fitting;

		if (handlers->items[i].kind->pool != JR_POOL_EXEC || !jr_ahead_is_quick(times->ended, times->total_ms))
			continue;
		types[(*count)++] = handlers->items[i].job_type;
		fitting = jr_ahead_fitting(permits, times->ended, times->total_ms);
		if (fitting < fewest)
			fewest = fitting;
	}
	return *count > 0 ? fewest : 0;
}

static size_t
limited(const struct jr_runner *runner, size_t wanted, size_t most)
{
	size_t fitting = runner->ahead.run_bytes > 0 ? AHEAD_BYTES / runner->ahead.run_bytes : AHEAD_MOST;

	wanted = wanted < fitting ? wanted : fitting;
	wanted = wanted > runner->ahead.count ? wanted - runner->ahead.count : 0;
	return wanted < most ? wanted : most;
}

size_t
jr_ahead_choose(struct jr_runner *runner, size_t most, char **types)
{
	const char **quick = jr_xcalloc(runner->opts->handlers->count + 1, sizeof(*quick));
	size_t count = 0, wanted;

	runner->ahead.fitting = choose_types(runner, quick, &count);
	wanted = limited(runner, runner->ahead.fitting, most);
	*types = wanted > 0 ? jr_pg_array_of(quick, count) : NULL;
	free(quick);
	return wanted;
}

void
jr_ahead_note_claim(struct jr_runner *runner, const PGresult *result, size_t most, int64_t took_ms)
{
	size_t rows = jr_queue_count_runs(result);

	runner->ahead.ended = rows < most;
	runner->ahead.trip_ms = took_ms;
	if (rows > 0)
		runner->ahead.run_bytes = jr_queue_count_bytes(result) / rows;
}

bool
jr_ahead_is_short(const struct jr_runner *runner)
{
	const struct jr_ahead *ahead = &runner->ahead;
	int64_t trip_ms = ahead->trip_ms < AHEAD_MS / 2 ? ahead->trip_ms : AHEAD_MS / 2;

	if (ahead->count == 0 || ahead->ended)
		return ahead->count == 0;
	return (int64_t)ahead->count * AHEAD_MS <= (int64_t)ahead->fitting * trip_ms;
}

/* --- those that wait --- */

size_t
jr_ahead_count(const struct jr_runner *runner)
{
	return runner->ahead.count;
}

void
jr_ahead_put(struct jr_held *held)
{
	struct jr_ahead *ahead = &held->runner->ahead;

	held->ahead = (struct jr_held_ahead){.prev = ahead->last, .waits = true};
	if (ahead->last != NULL)
		ahead->last->ahead.next = held;
	else
		ahead->first = held;
	ahead->last = held;
	ahead->count++;
}

void
jr_ahead_remove(struct jr_held *held)
{
	struct jr_ahead *ahead = &held->runner->ahead;
	struct jr_held *newer = held->ahead.next, *older = held->ahead.prev;

	if (!held->ahead.waits)
		return;
	if (older != NULL)
		older->ahead.next = newer;
	else
		ahead->first = newer;
	if (newer != NULL)
		newer->ahead.prev = older;
	else
		ahead->last = older;
	ahead->count--;
	held->ahead.waits = false;
}

struct jr_held *
jr_ahead_first(const struct jr_runner *runner)
{
	return runner->ahead.first;
}

static int64_t
until(const struct jr_held *held)
{
	int64_t wait_ms = jr_clock_after(held->run->claimed_ms, WAIT_MS), fence_ms = jr_held_fence_at(held);

	return wait_ms < fence_ms ? wait_ms : fence_ms;
}

bool
jr_ahead_is_late(const struct jr_held *held)
{
	return jr_clock_now_ms() >= until(held);
}

struct jr_held *
jr_ahead_find_late(struct jr_runner *runner)
{
	struct jr_held *held = runner->ahead.first;
	struct jr_ahead_times *times;

	if (held == NULL)
		return NULL;
	if (!jr_ahead_is_late(held)) {
		jr_runner_wake_at(runner, until(held));
		return NULL;
	}
	times = times_of(runner, held);
	if (times != NULL)
		*times = (struct jr_ahead_times){0};
	return held;
}
