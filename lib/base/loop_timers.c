/*
 * loop_timers: see loop_timers.h.
 *
 * What must hold: items[timer->place] is the timer, for each that has a heap.
 */
#include "base/loop_timers.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

static bool
is_before(const struct jr_timer *a, const struct jr_timer *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void
put(struct jr_timers *timers, size_t place, struct jr_timer *timer)
{
	timers->items[place] = timer;
	timer->place = place;
}

/* To its place towards the first, from the hole at `place`. */
static void
rise(struct jr_timers *timers, size_t place, struct jr_timer *timer)
{
	while (place > 0 && is_before(timer, timers->items[(place - 1) / 2])) {
		put(timers, place, timers->items[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put(timers, place, timer);
}

/* And away from it. */
static void
sink(struct jr_timers *timers, size_t place, struct jr_timer *timer)
{
	for (size_t child = 2 * place + 1; child < timers->count; child = 2 * place + 1) {
		if (child + 1 < timers->count && is_before(timers->items[child + 1], timers->items[child]))
			child++;
		if (!is_before(timers->items[child], timer))
			break;
		put(timers, place, timers->items[child]);
		place = child;
	}
	put(timers, place, timer);
}

void
jr_timers_add(struct jr_timers *timers, struct jr_timer *timer)
{
	if (timers->count == timers->room) {
		timers->room = timers->room == 0 ? 16 : timers->room * 2;
		timers->items = jr_xrealloc(timers->items, timers->room, sizeof(struct jr_timer *));
	}
	timer->heap = timers;
	timer->order = timers->orders++;
	rise(timers, timers->count++, timer);
}

void
jr_timers_remove(struct jr_timer *timer)
{
	struct jr_timers *timers = timer->heap;
	struct jr_timer *last = timers->items[--timers->count];

	timer->heap = NULL;
	if (last == timer)
		return;
	if (is_before(last, timer))
		rise(timers, timer->place, last);
	else
		sink(timers, timer->place, last);
}

void
jr_timers_release(struct jr_timers *timers)
{
	for (size_t i = 0; i < timers->count; i++) {
		timers->items[i]->heap = NULL;
		timers->items[i]->at_ms = JR_NEVER;
	}
	free(timers->items);
	*timers = (struct jr_timers){.count = 0};
}
