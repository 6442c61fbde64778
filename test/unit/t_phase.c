/*
 * phase: which changes a held run may make, pair by pair; and that an impossible one costs that run alone.
 */
#include "runner/runner_parts.h"

#include "base/log.h"
#include "base/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* All that are allowed, from claim to end. */
static const struct {
	enum jr_held_phase from, to;
} changes[] = {
    {JR_HELD_CLAIMED, JR_HELD_AHEAD},     /* there is no permit for it yet */
    {JR_HELD_CLAIMED, JR_HELD_RUNNING},   /* its handler was started */
    {JR_HELD_CLAIMED, JR_HELD_ENDED},     /* it cannot be started */
    {JR_HELD_CLAIMED, JR_HELD_GONE},      /* the lease is lost before that */
    {JR_HELD_AHEAD, JR_HELD_RUNNING},     /* a permit is free */
    {JR_HELD_AHEAD, JR_HELD_ENDED},       /* none was in time */
    {JR_HELD_AHEAD, JR_HELD_GONE},        /* the lease is lost before that */
    {JR_HELD_RUNNING, JR_HELD_ENDED},     /* the handler has ended */
    {JR_HELD_RUNNING, JR_HELD_IN_DOUBT},  /* its own commit was not answered */
    {JR_HELD_RUNNING, JR_HELD_ACCEPTED},  /* its own commit was */
    {JR_HELD_RUNNING, JR_HELD_GONE},      /* the lease was lost */
    {JR_HELD_ENDED, JR_HELD_SENT},        /* settle */
    {JR_HELD_ENDED, JR_HELD_GONE},        /* fenced out by a heartbeat, or the offer is over */
    {JR_HELD_OFFERED, JR_HELD_SENT},      /* settle again */
    {JR_HELD_OFFERED, JR_HELD_IN_DOUBT},  /* a heartbeat does not find it */
    {JR_HELD_OFFERED, JR_HELD_GONE},      /* as ended */
    {JR_HELD_SENT, JR_HELD_ACCEPTED},     /* settled */
    {JR_HELD_SENT, JR_HELD_OFFERED},      /* refused, or not sent after all */
    {JR_HELD_SENT, JR_HELD_IN_DOUBT},     /* not answered */
    {JR_HELD_SENT, JR_HELD_GONE},         /* fenced out */
    {JR_HELD_IN_DOUBT, JR_HELD_OFFERED},  /* it was not applied */
    {JR_HELD_IN_DOUBT, JR_HELD_ACCEPTED}, /* it was */
    {JR_HELD_IN_DOUBT, JR_HELD_GONE},     /* fenced out, or the offer is over */
};

struct fixture {
	struct jr_err err;
	struct jr_runner runner;
	struct jr_run run;
	struct jr_held held;
};

static void
set_up(struct fixture *f, enum jr_held_phase phase)
{
	memset(f, 0, sizeof(*f));
	f->runner.core.err = &f->err;
	f->run = (struct jr_run){.id = 7, .claim_seq = 3};
	f->held = (struct jr_held){.runner = &f->runner, .run = &f->run, .life = {.phase = phase}};
}

static bool
is_allowed(enum jr_held_phase from, enum jr_held_phase to)
{
	for (size_t i = 0; i < JR_COUNT(changes); i++) {
		if (changes[i].from == from && changes[i].to == to)
			return true;
	}
	return false;
}

static void
each_change_is_allowed_or_refused(void **state)
{
	static struct fixture f;

	(void)state;
	for (int from = 0; from < JR_HELD_PHASES; from++) {
		for (int to = 0; to < JR_HELD_PHASES; to++) {
			bool expected = is_allowed((enum jr_held_phase)from, (enum jr_held_phase)to);

			set_up(&f, (enum jr_held_phase)from);
			assert_int_equal(jr_held_move(&f.held, (enum jr_held_phase)to), expected);
			assert_int_equal(jr_held_phase(&f.held), expected ? to : JR_HELD_GONE);
			assert_int_equal(jr_runner_is_draining(&f.runner), !expected);
		}
	}
}

static void
an_impossible_change_is_a_bug_with_both_names(void **state)
{
	static struct fixture f;
	char line[512] = "";
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	jr_log_init(JR_WARN, JR_LOG_TEXT, fds[1]);
	set_up(&f, JR_HELD_CLAIMED);
	assert_false(jr_held_move(&f.held, JR_HELD_ACCEPTED));
	assert_int_equal(jr_runner_status(&f.runner), JR_E_BUG);
	assert_non_null(strstr(f.err.msg, "run 7 cannot go from claimed to accepted"));
	assert_true(read(fds[0], line, sizeof(line) - 1) > 0);
	assert_non_null(strstr(line, "event=impossible_change run=7 claim=3 from=claimed to=accepted"));
	jr_log_init(JR_WARN, JR_LOG_TEXT, STDERR_FILENO);
	close(fds[0]);
	close(fds[1]);
}

static void
what_a_run_has_been_through_is_remembered(void **state)
{
	static struct fixture f;

	(void)state;
	set_up(&f, JR_HELD_CLAIMED);
	assert_false(jr_held_was_begun(&f.held));
	assert_true(jr_held_move(&f.held, JR_HELD_RUNNING));
	assert_true(jr_held_was_begun(&f.held) && !jr_held_was_sent(&f.held));
	assert_true(jr_held_move(&f.held, JR_HELD_ENDED) && jr_held_move(&f.held, JR_HELD_SENT));
	assert_true(jr_held_was_sent(&f.held) && !jr_held_was_doubted(&f.held));
	assert_true(jr_held_move(&f.held, JR_HELD_IN_DOUBT) && jr_held_move(&f.held, JR_HELD_OFFERED));
	assert_true(jr_held_was_doubted(&f.held) && jr_held_was_begun(&f.held));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_change_is_allowed_or_refused),
	    cmocka_unit_test(an_impossible_change_is_a_bug_with_both_names),
	    cmocka_unit_test(what_a_run_has_been_through_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
