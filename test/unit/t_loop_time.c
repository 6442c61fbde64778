/* loop: timers in order, never early, once each; signals; what interrupts or prevents the wait. */
#include "base/loop.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct ticker {
	struct jr_timer timer;
	struct jr_loop *loop;
	int *order;       /* counts up; where in it this one was is `place` */
	int64_t again_ms; /* set again by the callback: from now; JR_NEVER: not */
	struct jr_timer *cancels;
	int calls;
	int place;
};

static void
on_ticker(void *ctx)
{
	struct ticker *ticker = ctx;

	ticker->calls++;
	if (ticker->order != NULL)
		ticker->place = (*ticker->order)++;
	if (ticker->again_ms != JR_NEVER)
		jr_timer_set(ticker->loop, &ticker->timer, jr_clock_after(jr_clock_now_ms(), ticker->again_ms));
	if (ticker->cancels != NULL)
		jr_timer_cancel(ticker->cancels);
}

static void
ticker_init(struct ticker *ticker, struct jr_loop *loop)
{
	*ticker = (struct ticker){.loop = loop, .place = -1, .again_ms = JR_NEVER};
	jr_timer_init(&ticker->timer, on_ticker, ticker);
}

static int
setup(void **state)
{
	struct jr_err err;

	*state = jr_loop_new(&err);
	return *state != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	jr_loop_free(*state);
	return 0;
}

static void
turn(struct jr_loop *loop)
{
	struct jr_err err;

	if (!jr_loop_turn(loop, &err))
		fail_msg("%s", err.msg);
}

static void
timers_fire_in_order_and_not_early(void **state)
{
	static const int64_t offsets[] = {30, 10, 20, 10, 0, 40};
	static const int places[] = {4, 1, 3, 2, 0, 5};
	struct jr_loop *loop = *state;
	struct ticker tickers[JR_COUNT(offsets)];
	int64_t start_ms = jr_clock_now_ms();
	int order = 0;

	for (size_t i = 0; i < JR_COUNT(offsets); i++) {
		ticker_init(&tickers[i], loop);
		tickers[i].order = &order;
		jr_timer_set(loop, &tickers[i].timer, start_ms + offsets[i]);
	}
	while (order < (int)JR_COUNT(offsets)) {
		turn(loop);
		for (size_t i = 0; i < JR_COUNT(offsets); i++)
			assert_true(tickers[i].calls == 0 || jr_clock_now_ms() >= start_ms + offsets[i]);
	}
	for (size_t i = 0; i < JR_COUNT(offsets); i++)
		assert_int_equal(tickers[i].place, places[i]);
}

static void
timer_in_the_past_fires_in_the_next_turn_and_once(void **state)
{
	static const int64_t past[] = {INT64_MIN, -1, 0, 1};
	struct jr_loop *loop = *state;
	struct ticker ticker, later;

	ticker_init(&ticker, loop);
	ticker_init(&later, loop);
	for (size_t i = 0; i < JR_COUNT(past); i++) {
		jr_timer_set(loop, &ticker.timer, past[i]);
		turn(loop);
		assert_int_equal(ticker.calls, (int)i + 1);
		assert_int_equal(ticker.timer.at_ms, JR_NEVER);
	}
	jr_timer_set(loop, &later.timer, jr_clock_now_ms() + 5);
	while (later.calls == 0)
		turn(loop);
	assert_int_equal(ticker.calls, (int)JR_COUNT(past));
}

static void
on_ready(void *ctx, short revents)
{
	int *calls = ctx;

	(void)revents;
	(*calls)++;
}

static void
timer_that_sets_itself_to_now_does_not_hold_up_the_turn(void **state)
{
	struct jr_loop *loop = *state;
	struct ticker ticker;
	struct jr_watch watch;
	int calls = 0;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	ticker_init(&ticker, loop);
	ticker.again_ms = 0;
	jr_watch_init(&watch, on_ready, &calls);
	jr_watch_set(loop, &watch, fds[1], POLLOUT);
	jr_timer_set(loop, &ticker.timer, 0);
	turn(loop);
	assert_int_equal(ticker.calls, 1);
	assert_int_equal(calls, 1);
	turn(loop);
	assert_int_equal(ticker.calls, 2);
	jr_timer_cancel(&ticker.timer);
	jr_watch_remove(&watch);
	close(fds[0]);
	close(fds[1]);
}

static void
timer_may_cancel_another_that_is_due(void **state)
{
	struct jr_loop *loop = *state;
	struct ticker a, b, c;

	ticker_init(&a, loop);
	ticker_init(&b, loop);
	ticker_init(&c, loop);
	a.cancels = &b.timer;
	jr_timer_set(loop, &a.timer, 1);
	jr_timer_set(loop, &b.timer, 2);
	jr_timer_set(loop, &c.timer, 3);
	turn(loop);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 0);
	assert_int_equal(c.calls, 1);
	jr_timer_cancel(&b.timer);
}

static void
timer_set_to_never_is_cancelled(void **state)
{
	struct jr_loop *loop = *state;
	struct ticker a, b;

	ticker_init(&a, loop);
	ticker_init(&b, loop);
	jr_timer_set(loop, &a.timer, 0);
	jr_timer_set(loop, &a.timer, JR_NEVER);
	jr_timer_set(loop, &b.timer, jr_clock_now_ms() + 2);
	while (b.calls == 0)
		turn(loop);
	assert_int_equal(a.calls, 0);
}

static void
of_two_thousand_timers_those_that_are_left_fire_once_each_in_order(void **state)
{
	enum {
		COUNT = 2000,
		LEFT = 1500, /* a fourth is cancelled */
		SPAN = 50
	};
	struct jr_loop *loop = *state;
	struct ticker *tickers = jr_xcalloc(COUNT, sizeof(*tickers));
	int64_t start_ms = jr_clock_now_ms();
	int64_t planned[COUNT];
	size_t by_place[COUNT] = {0};
	struct jr_random random;
	int order = 0;

	jr_random_seed(&random, 11);
	for (size_t i = 0; i < COUNT; i++) {
		ticker_init(&tickers[i], loop);
		tickers[i].order = &order;
	}
	for (size_t i = 0; i < (size_t)2 * COUNT; i++) { /* each is moved once */
		planned[i % COUNT] = start_ms + (int64_t)jr_random_below(&random, SPAN);
		jr_timer_set(loop, &tickers[i % COUNT].timer, planned[i % COUNT]);
	}
	for (size_t i = 0; i < COUNT; i += 4)
		jr_timer_cancel(&tickers[i].timer);
	while (order < LEFT)
		turn(loop);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(tickers[i].calls, i % 4 == 0 ? 0 : 1);
		if (i % 4 != 0)
			by_place[tickers[i].place] = i;
	}
	for (size_t i = 1; i < LEFT; i++) { /* of the same time, the one that was set last comes last */
		size_t a = by_place[i - 1], b = by_place[i];

		assert_true(planned[a] == planned[b] ? a < b : planned[a] < planned[b]);
	}
	free(tickers);
}

static void
loop_may_be_freed_with_timers_still_set(void **state)
{
	struct ticker ticker;
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);

	(void)state;
	assert_non_null(loop);
	ticker_init(&ticker, loop);
	jr_timer_set(loop, &ticker.timer, jr_clock_now_ms() + 100000);
	jr_loop_free(loop);
	jr_timer_cancel(&ticker.timer);
	jr_loop_free(NULL);
}

static void
on_signal(void *ctx, int signo)
{
	int *counts = ctx;

	counts[signo]++;
}

static void
signals_are_delivered_by_the_loop(void **state)
{
	struct jr_loop *loop = *state;
	int counts[65] = {0};
	struct jr_err err;

	assert_true(jr_loop_signals(loop, on_signal, counts, &err));
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_int_equal(kill(getpid(), SIGHUP), 0);
	assert_int_equal(kill(getpid(), SIGINT), 0);
	turn(loop);
	assert_int_equal(counts[SIGTERM], 1);
	assert_int_equal(counts[SIGHUP], 1);
	assert_int_equal(counts[SIGINT], 1);
}

static void
signal_mask_is_given_back_at_the_end(void **state)
{
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	int counts[65] = {0};
	sigset_t mask;

	(void)state;
	assert_non_null(loop);
	assert_true(jr_loop_signals(loop, on_signal, counts, &err));
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
	assert_int_equal(sigismember(&mask, SIGTERM), 1);
	assert_int_equal(sigismember(&mask, SIGCHLD), 0);
	assert_int_equal(kill(getpid(), SIGTERM), 0); /* too late for a turn: must not end this process */
	jr_loop_free(loop);
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
}

static void
on_alarm(int signo)
{
	(void)signo;
}

static void
interrupted_wait_goes_on(void **state)
{
	struct jr_loop *loop = *state;
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 3000}, {0, 3000}}, off = {0};
	struct ticker ticker;

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
	ticker_init(&ticker, loop);
	jr_timer_set(loop, &ticker.timer, jr_clock_now_ms() + 30);
	while (ticker.calls == 0)
		turn(loop);
	assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
	assert_int_equal(ticker.calls, 1);
}

#define CANNOT_LIMIT 77

/* In a child with no descriptor left to open: what goes wrong there, as bits. */
static int
failures_without_descriptors(void)
{
	struct rlimit none = {0, 0};
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	int counts[65] = {0};
	int failures = 0;

	if (loop == NULL || setrlimit(RLIMIT_NOFILE, &none) < 0) {
		jr_loop_free(loop);
		return CANNOT_LIMIT;
	}
	failures |= jr_loop_new(&err) == NULL && err.code == JR_E_TEMP ? 1 : 0;
	failures |= !jr_loop_signals(loop, on_signal, counts, &err) ? 2 : 0;
	failures |= !jr_loop_turn(loop, &err) && strncmp(err.msg, "could not wait", 14) == 0 ? 4 : 0;
	jr_loop_free(loop);
	return failures;
}

static void
lack_of_descriptors_is_an_error_and_not_an_end(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(failures_without_descriptors());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LIMIT)
		skip(); /* under valgrind, which keeps descriptors for itself */
	assert_int_equal(WEXITSTATUS(status), 7);
}

#define TIMER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TIMER_TEST(timers_fire_in_order_and_not_early),
	    TIMER_TEST(timer_in_the_past_fires_in_the_next_turn_and_once),
	    TIMER_TEST(timer_that_sets_itself_to_now_does_not_hold_up_the_turn),
	    TIMER_TEST(timer_may_cancel_another_that_is_due),
	    TIMER_TEST(timer_set_to_never_is_cancelled),
	    TIMER_TEST(of_two_thousand_timers_those_that_are_left_fire_once_each_in_order),
	    TIMER_TEST(signals_are_delivered_by_the_loop),
	    TIMER_TEST(interrupted_wait_goes_on),
	    cmocka_unit_test(signal_mask_is_given_back_at_the_end),
	    cmocka_unit_test(lack_of_descriptors_is_an_error_and_not_an_end),
	    cmocka_unit_test(loop_may_be_freed_with_timers_still_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
