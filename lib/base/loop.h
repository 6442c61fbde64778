/*
 * loop: the one wait of the program.
 *
 * Descriptors, timers and signals are served by one thread around one poll(2). Timers run on CLOCK_BOOTTIME through
 * one timerfd in the poll set, so that a suspended host finds them due when it wakes; due timers are served before
 * descriptors in every turn. TERM, HUP, INT and CHLD-free: signals come through one signalfd, they stay blocked for the
 * life of the loop and children are given back an empty mask.
 *
 * Callbacks may add, change and remove anything, also themselves: a removed watch is never called again, even if its
 * descriptor was ready in the same turn. A watch is storage of the caller (embed it) and must stay until removed; it is
 * removed before its descriptor is closed. A timer set in the past, and a watch or timer set by a callback, is served
 * in the next turn at the earliest.
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
	short ready; /* what poll reported, while it waits to be served */
	jr_watch_fn *fn;
	void *ctx;
	struct jr_watch *next, **prev; /* of the loop */
};

struct jr_timer {
	int64_t at_ms; /* JR_NEVER: not set */
	jr_timer_fn *fn;
	void *ctx;
	struct jr_timers *heap;        /* of the loop, while set */
	size_t place;                  /* in it */
	uint64_t order;                /* among equal times */
	struct jr_timer *next, **prev; /* of the loop, while due */
};

struct jr_loop *jr_loop_new(struct jr_err *err) JR_MUST; /* NULL on failure */
void jr_loop_free(struct jr_loop *loop); /* every watch must have been removed; gives the signal mask back */

/* Take TERM, HUP and INT from now on. At most once a loop. */
bool jr_loop_signals(struct jr_loop *loop, jr_signal_fn *fn, void *ctx, struct jr_err *err) JR_MUST;

void jr_watch_init(struct jr_watch *watch, jr_watch_fn *fn, void *ctx);
void jr_watch_set(struct jr_loop *loop, struct jr_watch *watch, int fd, short events); /* add or change */
void jr_watch_remove(struct jr_watch *watch);                                          /* no harm if not watched */

void jr_timer_init(struct jr_timer *timer, jr_timer_fn *fn, void *ctx);
void jr_timer_set(struct jr_loop *loop, struct jr_timer *timer, int64_t at_ms); /* once, at clock at_ms */
void jr_timer_cancel(struct jr_timer *timer);                                   /* no harm if not set */

/* Wait for something and serve it. false only if the wait itself failed. */
bool jr_loop_turn(struct jr_loop *loop, struct jr_err *err) JR_MUST;

#endif
