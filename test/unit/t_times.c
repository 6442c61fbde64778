/*
 * runner_times: a cancelled statement gives the next ones more time, and calm times take that back.
 */
#include "runner/runner_parts.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define CALM_MS 30000

static const struct jr_lease lease = {.lease_ms = 90000,
    .heartbeat_ms = 20000,
    .margin_ms = 15000,
    .deadline_ms = 5000,
    .statement_ms = 3000,
    .lock_ms = 1000};

struct fixture {
	struct jr_runner_opts opts;
	struct jr_runner runner;
};

static void
set_up(struct fixture *fixture)
{
	*fixture = (struct fixture){.opts = {.lease = lease}};
	fixture->runner.opts = &fixture->opts;
	jr_times_open(&fixture->runner);
}

/* An answer comes, so long after the last change. */
static void
note(struct fixture *fixture, int64_t after_ms, enum jr_pg_end end, const char *sqlstate, int64_t took_ms)
{
	struct jr_reply reply = {.end = end, .sent_ms = jr_clock_now_ms() - took_ms};

	snprintf(reply.err.sqlstate, sizeof(reply.err.sqlstate), "%s", sqlstate);
	fixture->runner.times.slow_at_ms -= after_ms;
	jr_times_note(&fixture->runner, &reply);
}

static void
test_calm(void **state)
{
	struct fixture fixture;

	(void)state;
	set_up(&fixture);
	assert_false(jr_times_are_long(&fixture.runner));
	note(&fixture, 0, JR_PG_FAILED, "57014", 3000);
	note(&fixture, 0, JR_PG_FAILED, "57014", 12000);
	assert_true(jr_times_are_long(&fixture.runner));
	note(&fixture, CALM_MS - 1000, JR_PG_DONE, "", 10);
	note(&fixture, 1000, JR_PG_DONE, "", 10);
	assert_true(jr_times_are_long(&fixture.runner)); /* one step of two */
	note(&fixture, CALM_MS, JR_PG_DONE, "", 10);
	assert_false(jr_times_are_long(&fixture.runner));
	note(&fixture, CALM_MS, JR_PG_DONE, "", 10);
	assert_false(jr_times_are_long(&fixture.runner));
}

static void
test_not_calm(void **state)
{
	struct fixture fixture;

	(void)state;
	set_up(&fixture);
	note(&fixture, 0, JR_PG_FAILED, "57014", 3000);
	note(&fixture, CALM_MS, JR_PG_DONE, "", lease.statement_ms + 1000); /* still slow: the time begins anew */
	note(&fixture, CALM_MS / 2, JR_PG_DONE, "", 10);
	note(&fixture, CALM_MS, JR_PG_UNKNOWN, "", 10); /* no answer says nothing */
	assert_true(jr_times_are_long(&fixture.runner));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_calm),
	    cmocka_unit_test(test_not_calm),
	};

	return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
