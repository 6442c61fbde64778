/* sweep: one look serves everybody who has asked; nobody escapes it by forking; foreign sessions are left alone. */
#include "process/sweep.h"

#include "base/clock.h"
#include "process/group.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SESSIONS 20
#define PATIENCE_MS 10000

/* What the process in the second group of a session does; *beats rises while it lives. */
typedef void member_fn(volatile unsigned *beats);

static void
wait_for_ever(volatile unsigned *beats)
{
	(*beats)++;
	for (;;)
		(void)pause();
}

/* Each fork goes on under a new number, and the one before ends. */
static void
fork_for_ever(volatile unsigned *beats)
{
	for (;;) {
		(*beats)++;
		if (fork() > 0)
			_exit(0);
		(void)usleep(100);
	}
}

static volatile unsigned *signals; /* [0] how many, [1] the last one has come, [2] the process that counts them */

static void
count_signal(int signo)
{
	(void)signo;
	signals[0]++;
}

static void
note_last(int signo)
{
	(void)signo;
	signals[1]++;
}

/* A group of ten processes. Signals of real time are not merged, and come in the order of their numbers. */
static void
count_for_ever(volatile unsigned *beats)
{
	signals = beats + 1;
	signals[2] = (unsigned)getpid();
	(void)signal(SIGRTMIN, SIG_IGN);
	for (int i = 0; i < 9; i++) {
		if (fork() == 0)
			for (;;)
				(void)pause();
	}
	(void)signal(SIGRTMIN, count_signal);
	(void)signal(SIGRTMIN + 1, note_last);
	wait_for_ever(beats);
}

/* Fork a leader of a session and a member in another group of it. Returns the leader. */
static pid_t
start_session(member_fn *member, volatile unsigned *beats)
{
	pid_t leader = fork();

	assert_true(leader >= 0);
	if (leader > 0)
		return leader;
	(void)signal(SIGCHLD, SIG_DFL);
	(void)setsid();
	if (fork() == 0) {
		(void)setpgid(0, 0);
		member(beats);
	}
	for (;;)
		(void)pause();
}

static void
end_session(pid_t leader)
{
	jr_session_signal(leader, SIGKILL);
	assert_int_equal(waitpid(leader, NULL, 0), leader);
}

static volatile unsigned *
new_beats(void)
{
	void *beats =
	    mmap(NULL, sizeof(unsigned) * SESSIONS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(beats != MAP_FAILED);
	return beats;
}

static void
wait_for_beats(const volatile unsigned *beats)
{
	int64_t end_ms = jr_clock_after(jr_clock_now_ms(), PATIENCE_MS);

	while (*beats == 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		(void)usleep(1000);
	}
}

static void
turn(struct jr_loop *loop)
{
	struct jr_err err;

	assert_true(jr_loop_turn(loop, &err));
}

/* Turn until the look that was asked for is over. */
static enum jr_swept_state
wait_for_look(struct jr_loop *loop, const struct jr_swept *swept)
{
	while (swept->state == JR_SWEPT_WANTED)
		turn(loop);
	return swept->state;
}

/* Look until nobody is found. */
static void
clear(struct jr_loop *loop, struct jr_sweep *sweep, struct jr_swept *swept, pid_t leader)
{
	int64_t end_ms = jr_clock_after(jr_clock_now_ms(), PATIENCE_MS);

	do {
		assert_true(jr_clock_now_ms() < end_ms);
		jr_sweep_ask(sweep, loop, swept, leader, SIGKILL);
	} while (wait_for_look(loop, swept) != JR_SWEPT_CLEAR);
	jr_sweep_leave(swept);
}

static void
one_look_serves_all(void **state)
{
	struct jr_sweep sweep = {0};
	struct jr_swept swept[SESSIONS] = {0};
	pid_t leaders[SESSIONS], bystander;
	volatile unsigned *beats = new_beats();
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);

	(void)state;
	for (size_t i = 0; i < SESSIONS; i++)
		leaders[i] = start_session(wait_for_ever, &beats[i]);
	bystander = start_session(wait_for_ever, &beats[0]);
	for (size_t i = 0; i < SESSIONS; i++) {
		wait_for_beats(&beats[i]);
		jr_sweep_ask(&sweep, loop, &swept[i], leaders[i], SIGKILL);
	}
	assert_int_equal(wait_for_look(loop, &swept[0]), JR_SWEPT_FOUND);
	for (size_t i = 0; i < SESSIONS; i++)
		assert_int_equal(swept[i].state, JR_SWEPT_FOUND);
	assert_int_equal(waitpid(bystander, NULL, WNOHANG), 0);
	for (size_t i = 0; i < SESSIONS; i++) {
		clear(loop, &sweep, &swept[i], leaders[i]); /* they die in their own time */
		end_session(leaders[i]);
	}
	end_session(bystander);
	jr_loop_free(loop);
}

static void
nobody_escapes_by_forking(void **state)
{
	struct jr_sweep sweep = {0};
	struct jr_swept swept = {0};
	volatile unsigned *beats = new_beats();
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	pid_t leader = start_session(fork_for_ever, beats);
	unsigned last;

	(void)state;
	wait_for_beats(beats);
	clear(loop, &sweep, &swept, leader);
	last = *beats;
	(void)usleep(50000);
	assert_int_equal(*beats, last);
	end_session(leader);
	jr_loop_free(loop);
}

static void
who_leaves_before_the_look_is_left_alone(void **state)
{
	struct jr_sweep sweep = {0};
	struct jr_swept gone = {0}, stays = {0};
	volatile unsigned *beats = new_beats();
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	pid_t first = start_session(fork_for_ever, &beats[0]), second = start_session(wait_for_ever, &beats[1]);
	unsigned last;

	(void)state;
	wait_for_beats(&beats[0]);
	wait_for_beats(&beats[1]);
	jr_sweep_ask(&sweep, loop, &gone, first, SIGKILL);
	jr_sweep_ask(&sweep, loop, &stays, second, SIGKILL);
	jr_sweep_leave(&gone);
	assert_int_equal(wait_for_look(loop, &stays), JR_SWEPT_FOUND);
	last = beats[0];
	for (int64_t end_ms = jr_clock_after(jr_clock_now_ms(), PATIENCE_MS); beats[0] == last;)
		assert_true(jr_clock_now_ms() < end_ms);
	jr_sweep_leave(&stays);
	jr_sweep_leave(&stays); /* no harm */
	end_session(second);
	clear(loop, &sweep, &gone, first);
	end_session(first);
	jr_loop_free(loop);
}

static void
a_group_is_signalled_once(void **state)
{
	struct jr_sweep sweep = {0};
	struct jr_swept swept = {0};
	volatile unsigned *beats = new_beats();
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	pid_t leader = start_session(count_for_ever, beats);
	unsigned count;

	(void)state;
	wait_for_beats(beats);
	jr_sweep_ask(&sweep, loop, &swept, leader, SIGRTMIN);
	assert_int_equal(wait_for_look(loop, &swept), JR_SWEPT_FOUND);
	assert_int_equal(kill((pid_t)beats[3], SIGRTMIN + 1), 0);
	wait_for_beats(&beats[2]);
	count = beats[1];
	clear(loop, &sweep, &swept, leader);
	end_session(leader);
	assert_int_equal(count, 1);
	jr_loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_look_serves_all),
	    cmocka_unit_test(nobody_escapes_by_forking),
	    cmocka_unit_test(a_group_is_signalled_once),
	    cmocka_unit_test(who_leaves_before_the_look_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
