/*
 * loop: see loop.h.
 *
 * Watches and due timers are lists linked through the caller's storage. Each item has the address of the pointer that
 * points to it, so that it can leave its list without the loop. A turn first moves everything that is due or ready to
 * separate lists and then serves those from the front. So an item that a callback removes is gone from them, and an
 * item that a callback adds is in another list and waits for the next turn.
 *
 * Timers that are set are in a binary heap (Williams, "Algorithm 232: Heapsort", 1964) by time, equal times in the
 * order in which they were set. To set, move or cancel one of n timers costs log n: a runner may hold thousands of runs
 * with a timer or two each. A timer that is set again moves from where it is, often not at all. The timerfd is armed
 * for the first timer, or before: setting it costs more than a turn in which nothing is due. What must hold:
 * items[timer->place] is the timer, for each timer that has a heap.
 */
#include "base/loop.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Indexes in the poll array. */
enum {
	TIMER_SLOT,
	SIGNAL_SLOT,
	FIRST_WATCH
};

/* The time is copied here, so that comparisons do not read the timers. */
struct jr_timers_item {
	int64_t at_ms;
	uint64_t order; /* breaks ties between equal times */
	struct jr_timer *timer;
};

/* The timers that are set, first one first. */
struct jr_timers {
	struct jr_timers_item *items; /* items[0] is the first; a child is never before its parent */
	size_t count, room;
	uint64_t orders; /* the `order` of the next timer that is set */
};

struct jr_loop {
	struct jr_watch *watches; /* waiting */
	struct jr_watch *ready;   /* to be served in this turn */
	struct jr_timers timers;  /* waiting */
	struct jr_timer *due;     /* to be served in this turn */
	int timer_fd;
	int64_t armed_ms; /* what timer_fd is set to, at the latest for the first timer; JR_NEVER: nothing */
	int signal_fd;    /* -1: signals are not taken */
	sigset_t old_mask;
	jr_signal_fn *signal_fn;
	void *signal_ctx;
	struct pollfd *fds;
	size_t fds_size;
};

static bool
is_before(const struct jr_timers_item *a, const struct jr_timers_item *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void
put(struct jr_timers *timers, size_t place, struct jr_timers_item item)
{
	timers->items[place] = item;
	item.timer->place = place;
}

static size_t
parent(size_t place)
{
	return (place - 1) / 2;
}

/* Fill the hole at `place` with the item, or with a parent that is later, and so on towards the root. */
static void
rise(struct jr_timers *timers, size_t place, struct jr_timers_item item)
{
	while (place > 0 && is_before(&item, &timers->items[parent(place)])) {
		put(timers, place, timers->items[parent(place)]);
		place = parent(place);
	}
	put(timers, place, item);
}

/* Fill the hole at `place` with the item, or with a child that is earlier, and so on towards the leaves. */
static void
sink(struct jr_timers *timers, size_t place, struct jr_timers_item item)
{
	for (size_t child = 2 * place + 1; child < timers->count; child = 2 * place + 1) {
		if (child + 1 < timers->count && is_before(&timers->items[child + 1], &timers->items[child]))
			child++;
		if (!is_before(&timers->items[child], &item))
			break;
		put(timers, place, timers->items[child]);
		place = child;
	}
	put(timers, place, item);
}

/* Fill the hole at `place` with the item, wherever that belongs. */
static void
fill(struct jr_timers *timers, size_t place, struct jr_timers_item item)
{
	if (place > 0 && is_before(&item, &timers->items[parent(place)]))
		rise(timers, place, item);
	else
		sink(timers, place, item);
}

/* A place at the end. */
static size_t
add_place(struct jr_timers *timers)
{
	if (timers->count == timers->room) {
		timers->room = timers->room == 0 ? 16 : timers->room * 2;
		timers->items = jr_xrealloc(timers->items, timers->room, sizeof(struct jr_timers_item));
	}
	return timers->count++;
}

/* The timer is in this heap. */
static void
remove_timer(struct jr_timers *timers, struct jr_timer *timer)
{
	struct jr_timers_item last = timers->items[--timers->count];

	timer->heap = NULL;
	if (last.timer != timer)
		fill(timers, timer->place, last);
}

/* Unset all timers that are left and free the heap. */
static void
release_timers(struct jr_timers *timers)
{
	for (size_t i = 0; i < timers->count; i++) {
		timers->items[i].timer->heap = NULL;
		timers->items[i].timer->at_ms = JR_NEVER;
	}
	free(timers->items);
	*timers = (struct jr_timers){.count = 0};
}

static void
link_watch(struct jr_watch **list, struct jr_watch *watch)
{
	watch->next = *list;
	watch->prev = list;
	if (watch->next != NULL)
		watch->next->prev = &watch->next;
	*list = watch;
}

static void
unlink_watch(struct jr_watch *watch)
{
	*watch->prev = watch->next;
	if (watch->next != NULL)
		watch->next->prev = watch->prev;
	watch->next = NULL;
	watch->prev = NULL;
}

static void
unlink_timer(struct jr_timer *timer)
{
	*timer->prev = timer->next;
	if (timer->next != NULL)
		timer->next->prev = timer->prev;
	timer->next = NULL;
	timer->prev = NULL;
}

struct jr_loop *
jr_loop_new(struct jr_err *err)
{
	int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	struct jr_loop *loop;

	if (fd < 0) {
		jr_fail(err, JR_E_TEMP, "could not make a timer: %s", strerror(errno));
		return NULL;
	}
	loop = jr_xcalloc(1, sizeof(*loop));
	loop->timer_fd = fd;
	loop->armed_ms = JR_NEVER;
	loop->signal_fd = -1;
	return loop;
}

/*
 * Read signals that came after the last turn before the mask is restored, or they would end the process now.
 */
static void
stop_signals(struct jr_loop *loop)
{
	struct signalfd_siginfo info;

	if (loop->signal_fd < 0)
		return;
	while (read(loop->signal_fd, &info, sizeof(info)) > 0)
		;
	(void)close(loop->signal_fd);
	(void)sigprocmask(SIG_SETMASK, &loop->old_mask, NULL);
}

void
jr_loop_free(struct jr_loop *loop)
{
	if (loop == NULL)
		return;
	assert(loop->watches == NULL && loop->ready == NULL);
	release_timers(&loop->timers);
	stop_signals(loop);
	(void)close(loop->timer_fd);
	free(loop->fds);
	free(loop);
}

static bool
is_ignored(int signo)
{
	struct sigaction old;

	return sigaction(signo, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

bool
jr_loop_signals(struct jr_loop *loop, jr_signal_fn *fn, void *ctx, struct jr_err *err)
{
	sigset_t mask;

	assert(loop->signal_fd < 0);
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	if (!is_ignored(SIGHUP)) /* nohup(1) */
		(void)sigaddset(&mask, SIGHUP);
	(void)sigaddset(&mask, SIGINT);
	loop->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signal_fd < 0)
		return jr_fail(err, JR_E_TEMP, "could not take signals: %s", strerror(errno));
	(void)sigprocmask(SIG_BLOCK, &mask, &loop->old_mask);
	loop->signal_fn = fn;
	loop->signal_ctx = ctx;
	return true;
}

void
jr_watch_init(struct jr_watch *watch, jr_watch_fn *fn, void *ctx)
{
	*watch = (struct jr_watch){.fd = -1, .fn = fn, .ctx = ctx};
}

void
jr_watch_set(struct jr_loop *loop, struct jr_watch *watch, int fd, short events)
{
	if (watch->prev != NULL && watch->fd != fd)
		jr_watch_remove(watch); /* its readiness belongs to the old descriptor */
	if (fd < 0)
		return;
	watch->fd = fd;
	watch->events = events;
	if (watch->prev == NULL)
		link_watch(&loop->watches, watch);
}

void
jr_watch_remove(struct jr_watch *watch)
{
	if (watch->prev != NULL)
		unlink_watch(watch);
	watch->fd = -1;
	watch->ready = 0;
}

void
jr_timer_init(struct jr_timer *timer, jr_timer_fn *fn, void *ctx)
{
	*timer = (struct jr_timer){.at_ms = JR_NEVER, .fn = fn, .ctx = ctx};
}

void
jr_timer_set(struct jr_loop *loop, struct jr_timer *timer, int64_t at_ms)
{
	struct jr_timers *timers = &loop->timers;

	if (at_ms == JR_NEVER) {
		jr_timer_cancel(timer);
		return;
	}
	/* If it is in the heap, it moves from where it is. */
	if (timer->heap == NULL) {
		jr_timer_cancel(timer); /* it may be in the list of due ones */
		timer->heap = timers;
		timer->place = add_place(timers);
	}
	assert(timer->heap == timers); /* a timer belongs to one loop */
	timer->at_ms = at_ms;
	fill(timers, timer->place, (struct jr_timers_item){.at_ms = at_ms, .order = timers->orders++, .timer = timer});
}

void
jr_timer_cancel(struct jr_timer *timer)
{
	if (timer->heap != NULL)
		remove_timer(timer->heap, timer);
	if (timer->prev != NULL)
		unlink_timer(timer);
	timer->at_ms = JR_NEVER;
}

/* When the first timer is due. */
static int64_t
first_ms(const struct jr_loop *loop)
{
	return loop->timers.count > 0 ? loop->timers.items[0].at_ms : JR_NEVER;
}

/* Let timer_fd be readable when the first timer is due, or before. */
static bool
arm_timer(struct jr_loop *loop, struct jr_err *err)
{
	int64_t at_ms = first_ms(loop);
	struct itimerspec spec = {0};

	if (at_ms >= loop->armed_ms)
		return true;
	spec.it_value.tv_sec = (time_t)(at_ms / 1000);
	spec.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
		return jr_fail(err, JR_E_TEMP, "could not set a timer: %s", strerror(errno));
	loop->armed_ms = at_ms;
	return true;
}

/* Fill the poll array in the order of the list. Returns the number of entries. */
static size_t
fill_fds(struct jr_loop *loop)
{
	size_t count = FIRST_WATCH;

	for (struct jr_watch *watch = loop->watches; watch != NULL; watch = watch->next)
		count++;
	if (count > loop->fds_size) {
		loop->fds = jr_xrealloc(loop->fds, count * 2, sizeof(*loop->fds));
		loop->fds_size = count * 2;
	}
	loop->fds[TIMER_SLOT] = (struct pollfd){.fd = loop->timer_fd, .events = POLLIN};
	loop->fds[SIGNAL_SLOT] = (struct pollfd){.fd = loop->signal_fd, .events = POLLIN};
	count = FIRST_WATCH;
	for (struct jr_watch *watch = loop->watches; watch != NULL; watch = watch->next)
		loop->fds[count++] = (struct pollfd){.fd = watch->fd, .events = watch->events};
	return count;
}

/* The list is still as fill_fds saw it: no callback has been called since. */
static void
collect_ready(struct jr_loop *loop)
{
	struct jr_watch *watch = loop->watches;

	for (size_t i = FIRST_WATCH; watch != NULL; i++) {
		struct jr_watch *next = watch->next;

		if (loop->fds[i].revents != 0) {
			watch->ready = loop->fds[i].revents;
			unlink_watch(watch);
			link_watch(&loop->ready, watch);
		}
		watch = next;
	}
}

/*
 * Before any callback: a timer that a callback of this turn sets is left for the next one. now_ms: before the poll. A
 * process can be stopped behind it for any time, and what happened by then is not seen before the next one.
 */
static void
collect_due(struct jr_loop *loop, int64_t now_ms)
{
	struct jr_timer **end = &loop->due;

	while (loop->timers.count > 0 && loop->timers.items[0].at_ms <= now_ms) {
		struct jr_timer *timer = loop->timers.items[0].timer;

		remove_timer(&loop->timers, timer);
		timer->next = NULL;
		timer->prev = end;
		*end = timer;
		end = &timer->next;
	}
}

static void
serve_timers(struct jr_loop *loop)
{
	while (loop->due != NULL) {
		struct jr_timer *timer = loop->due;

		jr_timer_cancel(timer);
		timer->fn(timer->ctx);
	}
}

static void
serve_signals(struct jr_loop *loop)
{
	struct signalfd_siginfo info;

	while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		loop->signal_fn(loop->signal_ctx, (int)info.ssi_signo);
}

static void
serve_watches(struct jr_loop *loop)
{
	while (loop->ready != NULL) {
		struct jr_watch *watch = loop->ready;
		short ready = watch->ready & (watch->events | POLLERR | POLLHUP | POLLNVAL);

		unlink_watch(watch);
		link_watch(&loop->watches, watch);
		watch->ready = 0;
		if (ready != 0)
			watch->fn(watch->ctx, ready);
	}
}

bool
jr_loop_turn(struct jr_loop *loop, struct jr_err *err)
{
	int64_t now_ms = jr_clock_now_ms();
	bool is_due = first_ms(loop) <= now_ms;
	size_t count;
	int found;

	if (!is_due && !arm_timer(loop, err))
		return false;
	count = fill_fds(loop);
	found = poll(loop->fds, (nfds_t)count, is_due ? 0 : -1);
	if (found < 0 && errno != EINTR)
		return jr_fail(err, JR_E_TEMP, "could not wait for events: %s", strerror(errno));
	if (found > 0 && loop->fds[TIMER_SLOT].revents != 0) {
		uint64_t expirations;
		ssize_t n = read(loop->timer_fd, &expirations, sizeof(expirations));

		(void)n; /* clears its readiness; the next turn reads the clock */
		loop->armed_ms = JR_NEVER;
	}
	if (found > 0)
		collect_ready(loop);
	collect_due(loop, now_ms);
	if (found > 0 && loop->fds[SIGNAL_SLOT].revents != 0)
		serve_signals(loop);
	serve_watches(loop);
	serve_timers(loop);
	return true;
}
