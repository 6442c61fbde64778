/*
 * lease: the table of the header, the order of its parts for every lease, refusals. clock: sums
 * that do not wrap.
 */
#include "base/lease.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void
parts_are_those_of_the_table(void **state)
{
	static const struct {
		int64_t lease, heartbeat;
		struct jr_lease parts;
	} table[] = {
	    {-1, -1, {90000, 20000, 5000, 15000, 5000, 3000, 1000}},
	    {90000, 22500, {90000, 22500, 5625, 15000, 5000, 3375, 1125}},
	    {2000, -1, {2000, 500, 125, 333, 111, 75, 25}},
	    {3600000, -1, {3600000, 20000, 5000, 600000, 200000, 3000, 1000}},
	    {90000, 20, {90000, 20, 5, 15000, 5000, 3, 1}},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(table); i++) {
		struct jr_lease lease;
		struct jr_err err;

		assert_true(jr_lease_init(&lease, table[i].lease, table[i].heartbeat, &err));
		assert_memory_equal(&lease, &table[i].parts, sizeof(lease));
	}
}

static void
check_order(int64_t lease_ms, int64_t heartbeat_ms)
{
	struct jr_lease l;
	struct jr_err err;

	assert_true(jr_lease_init(&l, lease_ms, heartbeat_ms, &err));
	assert_true(l.lock_ms > 0);
	assert_true(l.lock_ms < l.statement_ms);
	assert_true(l.statement_ms < l.deadline_ms);
	assert_true(l.deadline_ms < l.heartbeat_ms);
	assert_true(l.heartbeat_ms <= l.lease_ms / 4);
	assert_true(l.kill_ms > 0 && l.kill_ms < l.margin_ms);
	/* told to stop, given its time, killed: all before the lease ends */
	assert_true(jr_lease_fence_at(&l, 0) + l.kill_ms < l.lease_ms);
	/*
	 * and a heartbeat that was sent in time and answered at its deadline comes before it is
	 * told to stop
	 */
	assert_true(l.heartbeat_ms + l.deadline_ms < jr_lease_fence_at(&l, 0));
}

static void
parts_keep_their_order_for_every_lease(void **state)
{
	(void)state;
	for (int64_t lease_ms = JR_LEASE_MIN_MS; lease_ms <= JR_LEASE_MAX_MS; lease_ms += 997) {
		check_order(lease_ms, -1);
		check_order(lease_ms, 20);
		check_order(lease_ms, lease_ms / 4);
	}
	check_order(JR_LEASE_MAX_MS, -1);
}

static void
check_refused(int64_t lease_ms, int64_t heartbeat_ms, const char *message)
{
	struct jr_lease lease;
	struct jr_err err;

	assert_false(jr_lease_init(&lease, lease_ms, heartbeat_ms, &err));
	assert_string_equal(err.msg, message);
	assert_int_equal(err.code, JR_E_CONFIG);
}

static void
lease_out_of_bounds_is_refused(void **state)
{
	(void)state;
	check_refused(1999, -1, "a lease of 1s 999ms cannot be used: it must be between 2s and 1h");
	check_refused(0, -1, "a lease of 0s cannot be used: it must be between 2s and 1h");
	check_refused(3600001, -1, "a lease of 1h cannot be used: it must be between 2s and 1h");
	check_refused(INT64_MAX, -1, "a lease of 106751991167d 7h cannot be used: it must be between 2s and 1h");
}

static void
heartbeat_that_breaks_the_order_is_refused(void **state)
{
	(void)state;
	check_refused(90000, 90000,
	    "a heartbeat of 1m 30s cannot keep a lease of 1m 30s: it must be between 20ms and a quarter of the lease, 22s 500ms");
	check_refused(2000, 501,
	    "a heartbeat of 501ms cannot keep a lease of 2s: it must be between 20ms and a quarter of the lease, 500ms");
	check_refused(2000, 0,
	    "a heartbeat of 0s cannot keep a lease of 2s: it must be between 20ms and a quarter of the lease, 500ms");
	check_refused(2000, 19,
	    "a heartbeat of 19ms cannot keep a lease of 2s: it must be between 20ms and a quarter of the lease, 500ms");
}

static void
fence_counts_from_the_sending(void **state)
{
	struct jr_lease lease;
	struct jr_err err;

	(void)state;
	assert_true(jr_lease_init(&lease, -1, -1, &err));
	assert_int_equal(jr_lease_fence_at(&lease, 1000), 76000);
	assert_int_equal(jr_lease_fence_at(&lease, JR_NEVER), JR_NEVER);
}

static void
sums_of_times_do_not_wrap(void **state)
{
	(void)state;
	assert_int_equal(jr_clock_after(5, 7), 12);
	assert_int_equal(jr_clock_after(5, -7), -2);
	assert_int_equal(jr_clock_after(JR_NEVER, -7), JR_NEVER);
	assert_int_equal(jr_clock_after(5, JR_NEVER), JR_NEVER);
	assert_int_equal(jr_clock_after(INT64_MAX - 5, 6), JR_NEVER);
}

static void
clocks_go_forward(void **state)
{
	int64_t before = jr_clock_now_ms();

	(void)state;
	assert_true(before > 0);
	assert_true(jr_clock_now_ms() >= before);
	assert_true(jr_clock_wall_ms() > INT64_C(1600000000000));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_are_those_of_the_table),
	    cmocka_unit_test(parts_keep_their_order_for_every_lease),
	    cmocka_unit_test(lease_out_of_bounds_is_refused),
	    cmocka_unit_test(heartbeat_that_breaks_the_order_is_refused),
	    cmocka_unit_test(fence_counts_from_the_sending),
	    cmocka_unit_test(sums_of_times_do_not_wrap),
	    cmocka_unit_test(clocks_go_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
