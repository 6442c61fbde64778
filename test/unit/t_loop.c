/* loop: what is ready is served; removal and change from inside callbacks count at once. */
#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static int stalled_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* The loop is compiled into the test, so that the test can stand between it and the kernel. */
#define poll stalled_poll
#include "../../lib/base/loop.c" /* NOLINT(bugprone-suspicious-include) */
#undef poll

#define SOURCES 4

/* A pipe that is watched, and what its callback is to do besides counting. */
struct source {
	struct jr_watch watch;
	struct jr_loop *loop;
	int read_fd, write_fd;
	int calls;
	short revents;
	struct jr_watch *removes;
	struct source *starts;
	struct jr_timer *sets, *cancels;
};

struct ticker {
	struct jr_timer timer;
	int calls;
	struct jr_watch *removes;
};

struct fixture {
	struct jr_loop *loop;
	struct source sources[SOURCES];
};

static void
on_source(void *ctx, short revents)
{
	struct source *source = ctx;

	source->calls++;
	source->revents = revents;
	if (source->removes != NULL)
		jr_watch_remove(source->removes);
	if (source->starts != NULL)
		jr_watch_set(source->loop, &source->starts->watch, source->starts->read_fd, POLLIN);
	if (source->sets != NULL)
		jr_timer_set(source->loop, source->sets, 0);
	if (source->cancels != NULL)
		jr_timer_cancel(source->cancels);
}

static void
on_ticker(void *ctx)
{
	struct ticker *ticker = ctx;

	ticker->calls++;
	if (ticker->removes != NULL)
		jr_watch_remove(ticker->removes);
}

static void
ticker_init(struct ticker *ticker)
{
	*ticker = (struct ticker){.calls = 0};
	jr_timer_init(&ticker->timer, on_ticker, ticker);
}

static int
setup(void **state)
{
	struct fixture *f = jr_xcalloc(1, sizeof(*f));
	struct jr_err err;

	f->loop = jr_loop_new(&err);
	if (f->loop == NULL)
		return -1;
	for (size_t i = 0; i < SOURCES; i++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
			return -1;
		f->sources[i].loop = f->loop;
		f->sources[i].read_fd = fds[0];
		f->sources[i].write_fd = fds[1];
		jr_watch_init(&f->sources[i].watch, on_source, &f->sources[i]);
	}
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < SOURCES; i++) {
		jr_watch_remove(&f->sources[i].watch);
		close(f->sources[i].read_fd);
		close(f->sources[i].write_fd);
	}
	jr_loop_free(f->loop);
	free(f);
	return 0;
}

static void
make_ready(struct source *source)
{
	assert_int_equal(write(source->write_fd, "x", 1), 1);
}

/* What becomes ready behind the next poll, when the process stands still until this timer is due. */
static struct {
	struct source *becomes_ready;
	int64_t until_ms;
} stall;

static int
stalled_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int found = poll(fds, count, timeout_ms);

	if (stall.becomes_ready != NULL)
		make_ready(stall.becomes_ready);
	for (int64_t now_ms = 0; now_ms < stall.until_ms;)
		now_ms = jr_clock_now_ms();
	stall.becomes_ready = NULL;
	return found;
}

static void
watch_all(struct fixture *f)
{
	for (size_t i = 0; i < SOURCES; i++)
		jr_watch_set(f->loop, &f->sources[i].watch, f->sources[i].read_fd, POLLIN);
}

static void
turn(struct jr_loop *loop)
{
	struct jr_err err;

	if (!jr_loop_turn(loop, &err))
		fail_msg("%s", err.msg);
}

static int
calls_of_all(const struct fixture *f)
{
	int calls = 0;

	for (size_t i = 0; i < SOURCES; i++)
		calls += f->sources[i].calls;
	return calls;
}

static void
ready_watches_are_served_and_others_are_not(void **state)
{
	struct fixture *f = *state;

	watch_all(f);
	make_ready(&f->sources[1]);
	make_ready(&f->sources[3]);
	turn(f->loop);
	assert_int_equal(f->sources[0].calls, 0);
	assert_int_equal(f->sources[1].calls, 1);
	assert_int_equal(f->sources[2].calls, 0);
	assert_int_equal(f->sources[3].calls, 1);
	assert_int_equal(f->sources[3].revents, POLLIN);
	turn(f->loop); /* still ready: nobody has read */
	assert_int_equal(f->sources[1].calls, 2);
}

static void
end_of_a_pipe_is_reported_without_being_asked_for(void **state)
{
	struct fixture *f = *state;

	jr_watch_set(f->loop, &f->sources[0].watch, f->sources[0].read_fd, 0);
	close(f->sources[0].write_fd);
	f->sources[0].write_fd = -1;
	turn(f->loop);
	assert_int_equal(f->sources[0].revents, POLLHUP);
}

static void
watch_may_remove_itself(void **state)
{
	struct fixture *f = *state;

	watch_all(f);
	for (size_t i = 0; i < SOURCES; i++) {
		make_ready(&f->sources[i]);
		f->sources[i].removes = &f->sources[i].watch;
	}
	turn(f->loop);
	assert_int_equal(calls_of_all(f), SOURCES);
	for (size_t i = 0; i < SOURCES; i++)
		assert_int_equal(f->sources[i].calls, 1);
}

/* Each removes its neighbour; the one that comes first silences the other, whatever the order. */
static void
removed_watch_is_not_called_in_the_same_turn(void **state)
{
	struct fixture *f = *state;

	watch_all(f);
	for (size_t i = 0; i < SOURCES; i++) {
		make_ready(&f->sources[i]);
		f->sources[i].removes = &f->sources[i ^ 1].watch;
	}
	turn(f->loop);
	assert_int_equal(f->sources[0].calls + f->sources[1].calls, 1);
	assert_int_equal(f->sources[2].calls + f->sources[3].calls, 1);
}

static void
watch_removed_and_set_again_waits_for_the_next_turn(void **state)
{
	struct fixture *f = *state;
	struct source *a = &f->sources[0], *b = &f->sources[1];

	jr_watch_set(f->loop, &a->watch, a->read_fd, POLLIN);
	jr_watch_set(f->loop, &b->watch, b->read_fd, POLLIN);
	make_ready(a);
	make_ready(b);
	a->removes = &b->watch;
	a->starts = b;
	b->removes = &a->watch;
	b->starts = a;
	turn(f->loop);
	assert_int_equal(a->calls + b->calls, 1);
	a->removes = b->removes = NULL;
	turn(f->loop);
	assert_int_equal(a->calls + b->calls, 3);
}

static void
change_of_descriptor_or_events_takes_effect_at_once(void **state)
{
	struct fixture *f = *state;
	struct source *a = &f->sources[0], *b = &f->sources[1];
	struct ticker ticker;

	make_ready(a);
	jr_watch_set(f->loop, &a->watch, a->read_fd, POLLIN);
	jr_watch_set(f->loop, &a->watch, b->read_fd, POLLIN); /* which is not ready */
	ticker_init(&ticker);
	jr_timer_set(f->loop, &ticker.timer, jr_clock_now_ms());
	turn(f->loop);
	assert_int_equal(a->calls, 0);
	jr_watch_set(f->loop, &a->watch, a->read_fd, 0);
	jr_timer_set(f->loop, &ticker.timer, jr_clock_now_ms());
	turn(f->loop);
	assert_int_equal(a->calls, 0);
	jr_watch_set(f->loop, &a->watch, a->write_fd, POLLOUT);
	turn(f->loop);
	assert_int_equal(a->revents, POLLOUT);
	jr_watch_set(f->loop, &a->watch, -1, POLLIN); /* as good as removed */
	assert_int_equal(a->watch.fd, -1);
	jr_timer_set(f->loop, &ticker.timer, jr_clock_now_ms());
	turn(f->loop);
	assert_int_equal(a->calls, 1);
	jr_watch_remove(&a->watch);
	jr_watch_remove(&a->watch);
}

/* One watch is served first; what it does not want to hear of the other is not reported. */
static void
quiet_the_second(void *ctx, short revents)
{
	struct fixture *f = ctx;

	(void)revents;
	f->sources[0].calls++;
	jr_watch_set(f->loop, &f->sources[1].watch, f->sources[1].read_fd, 0);
}

static void
events_given_up_in_the_same_turn_are_not_reported(void **state)
{
	struct fixture *f = *state;
	struct source *first = &f->sources[0], *second = &f->sources[1];

	make_ready(first);
	make_ready(second);
	jr_watch_init(&first->watch, quiet_the_second, f);
	jr_watch_set(f->loop, &first->watch, first->read_fd, POLLIN);
	jr_watch_set(f->loop, &second->watch, second->read_fd, POLLIN);
	turn(f->loop);
	assert_int_equal(first->calls, 1);
	assert_int_equal(second->calls, 0);
	jr_watch_remove(&first->watch);
	jr_watch_set(f->loop, &second->watch, second->read_fd, POLLIN);
	turn(f->loop);
	assert_int_equal(second->calls, 1);
}

/* After a stall both are due: that something has ended, and that it has not ended in time. */
static void
ready_watches_come_before_due_timers(void **state)
{
	struct fixture *f = *state;
	struct source *source = &f->sources[2];
	struct ticker ticker;

	make_ready(source);
	jr_watch_set(f->loop, &source->watch, source->read_fd, POLLIN);
	ticker_init(&ticker);
	ticker.removes = &source->watch;
	jr_timer_set(f->loop, &ticker.timer, jr_clock_now_ms());
	turn(f->loop);
	assert_int_equal(source->calls, 1);
	assert_int_equal(ticker.calls, 1);
}

/* The end of what a timer limits cancels it. */
static void
timer_cancelled_by_a_watch_is_not_served_in_the_same_turn(void **state)
{
	struct fixture *f = *state;
	struct ticker ticker;

	ticker_init(&ticker);
	make_ready(&f->sources[0]);
	f->sources[0].cancels = &ticker.timer;
	jr_watch_set(f->loop, &f->sources[0].watch, f->sources[0].read_fd, POLLIN);
	jr_timer_set(f->loop, &ticker.timer, jr_clock_now_ms());
	turn(f->loop);
	assert_int_equal(f->sources[0].calls, 1);
	assert_int_equal(ticker.calls, 0);
}

static void
timer_set_by_a_watch_fires_in_the_next_turn(void **state)
{
	struct fixture *f = *state;
	struct ticker ticker;

	ticker_init(&ticker);
	f->sources[0].sets = &ticker.timer;
	f->sources[0].removes = &f->sources[0].watch;
	jr_watch_set(f->loop, &f->sources[0].watch, f->sources[0].read_fd, POLLIN);
	make_ready(&f->sources[0]);
	turn(f->loop);
	assert_int_equal(ticker.calls, 0);
	turn(f->loop);
	assert_int_equal(ticker.calls, 1);
}

static void
what_happens_behind_the_poll_comes_before_a_timer_that_is_due_since(void **state)
{
	struct fixture *f = *state;
	struct ticker ticker = {.calls = 0};

	jr_timer_init(&ticker.timer, on_ticker, &ticker);
	watch_all(f);
	f->sources[1].cancels = &ticker.timer;
	make_ready(&f->sources[0]);
	stall.until_ms = jr_clock_now_ms() + 20;
	stall.becomes_ready = &f->sources[1];
	jr_timer_set(f->loop, &ticker.timer, stall.until_ms);
	turn(f->loop);
	assert_int_equal(f->sources[0].calls, 1);
	turn(f->loop);
	assert_int_equal(f->sources[1].calls, 1);
	assert_int_equal(ticker.calls, 0);
}

/*
 * Random sets, changes and removals from inside callbacks: only what is watched is called, and all
 * that is ready.
 */
static void
random_changes_never_call_a_removed_watch(void **state)
{
	struct fixture *f = *state;
	struct jr_random random;

	jr_random_seed(&random, 99);
	for (size_t i = 0; i < SOURCES; i++)
		make_ready(&f->sources[i]);
	for (int round = 0; round < 2000; round++) {
		bool removed[SOURCES] = {false};

		watch_all(f);
		for (size_t i = 0; i < SOURCES; i++) {
			size_t other = (size_t)jr_random_below(&random, SOURCES);

			f->sources[i].calls = 0;
			f->sources[i].removes = jr_random_below(&random, 2) == 0 ? &f->sources[other].watch : NULL;
			if (f->sources[i].removes != NULL)
				removed[other] = true;
		}
		turn(f->loop);
		for (size_t i = 0; i < SOURCES; i++) {
			assert_true(f->sources[i].calls <= 1);
			if (!removed[i])
				assert_int_equal(f->sources[i].calls, 1);
		}
	}
}

#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    LOOP_TEST(ready_watches_are_served_and_others_are_not),
	    LOOP_TEST(end_of_a_pipe_is_reported_without_being_asked_for),
	    LOOP_TEST(watch_may_remove_itself),
	    LOOP_TEST(removed_watch_is_not_called_in_the_same_turn),
	    LOOP_TEST(watch_removed_and_set_again_waits_for_the_next_turn),
	    LOOP_TEST(change_of_descriptor_or_events_takes_effect_at_once),
	    LOOP_TEST(events_given_up_in_the_same_turn_are_not_reported),
	    LOOP_TEST(ready_watches_come_before_due_timers),
	    LOOP_TEST(timer_cancelled_by_a_watch_is_not_served_in_the_same_turn),
	    LOOP_TEST(timer_set_by_a_watch_fires_in_the_next_turn),
	    LOOP_TEST(what_happens_behind_the_poll_comes_before_a_timer_that_is_due_since),
	    LOOP_TEST(random_changes_never_call_a_removed_watch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
