/*
 * loop_timers: the timers that are set, first one first. For loop.c alone.
 *
 * A binary heap (Williams, "Algorithm 232: Heapsort", 1964) by time, equal times in the order they were set: to set, move
 * and cancel one of n costs log n, since a runner may hold thousands of runs with a timer or two each.
 */
#ifndef JR_LOOP_TIMERS_H
#define JR_LOOP_TIMERS_H

#include "base/loop.h"

struct jr_timers {
	struct jr_timer **items; /* items[0] is the first; a child is never before its parent */
	size_t count, room;
	uint64_t orders; /* handed out so far */
};

/* Put in one that is not set; at_ms is its time. */
void jr_timers_add(struct jr_timers *timers, struct jr_timer *timer);

/* Take out one that is in a heap. */
void jr_timers_remove(struct jr_timer *timer);

void jr_timers_release(struct jr_timers *timers); /* those that are left are not set any more */

#endif
