/*
 * loop: the event loop, around one poll(2).
 *
 * One thread serves descriptors, timers and signals. Timers run on CLOCK_BOOTTIME through one timerfd in the poll set,
 * so that they are due at once when a suspended host wakes. Each turn serves descriptors before the timers that were
 * due when it looked at them: after a stall, what has happened in time comes before the deadline for it. TERM, HUP and
 * INT come through one signalfd. They stay blocked for the life of the loop; children start with an empty mask.
 *
 * Callbacks may add, change and remove anything, themselves included. A removed watch is never called again, even if
 * its descriptor was ready in the same turn. The caller provides the storage of a watch (embed it), keeps it until the
 * watch is removed, and removes the watch before it closes the descriptor. A timer set to the past, and a watch or
 * timer set by a callback, is served in the next turn at the earliest.
 */
#ifndef JR_LOOP_H
#define JR_LOOP_H

#include "base/err.h"

struct jr_loop;
struct jr_watch;
struct jr_timer;
struct jr_timers;

typedef void jr_watch_fn(void *ctx, short revents);
typedef void jr_timer_fn(void *ctx);
typedef void jr_signal_fn(void *ctx, int signo);

struct jr_watch {
	int fd; /* -1: not watched */
	short events;
	short ready; /* what poll reported and is not served yet */
	jr_watch_fn *fn;
	void *ctx;
	struct jr_watch *next, **prev; /* of the loop */
};

struct jr_timer {
	int64_t at_ms; /* JR_NEVER: not set */
	jr_timer_fn *fn;
	void *ctx;
	struct jr_timers *heap;        /* the loop's heap, while set */
	size_t place;                  /* index in that heap */
	struct jr_timer *next, **prev; /* in the loop's list of due timers */
};

struct jr_loop *jr_loop_new(struct jr_err *err) JR_MUST; /* NULL on failure */
void jr_loop_free(struct jr_loop *loop); /* every watch must have been removed; gives the signal mask back */

/* Call fn for TERM, HUP and INT from now on. At most once per loop. */
bool jr_loop_signals(struct jr_loop *loop, jr_signal_fn *fn, void *ctx, struct jr_err *err) JR_MUST;

void jr_watch_init(struct jr_watch *watch, jr_watch_fn *fn, void *ctx);
void jr_watch_set(struct jr_loop *loop, struct jr_watch *watch, int fd, short events); /* add or change */
void jr_watch_remove(struct jr_watch *watch);                                          /* no harm if not watched */

void jr_timer_init(struct jr_timer *timer, jr_timer_fn *fn, void *ctx);
void jr_timer_set(struct jr_loop *loop, struct jr_timer *timer, int64_t at_ms); /* once, at clock at_ms */
void jr_timer_cancel(struct jr_timer *timer);                                   /* no harm if not set */

/*
 * Wait for something and serve it. A timer for which it has waited is served by the next turn. false only if the wait
 * itself failed.
 */
bool jr_loop_turn(struct jr_loop *loop, struct jr_err *err) JR_MUST;

#endif
