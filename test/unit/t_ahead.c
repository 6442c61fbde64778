/*
 * ahead: when a job type is quick, and how many of its runs will start within a tenth of a second.
 */
#include "runner/runner_parts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void
a_type_is_quick_after_eight_runs_with_a_mean_below_50_ms(void **state)
{
	(void)state;
	assert_false(jr_ahead_is_quick(0, 0));
	assert_false(jr_ahead_is_quick(7, 7));
	assert_true(jr_ahead_is_quick(8, 0));
	assert_true(jr_ahead_is_quick(8, 399));
	assert_false(jr_ahead_is_quick(8, 400));
	assert_false(jr_ahead_is_quick(1000000, 60000000));
}

static void
as_many_as_start_in_a_tenth_of_a_second(void **state)
{
	(void)state;
	assert_int_equal(jr_ahead_fitting(1, 8, 80), 10);
	assert_int_equal(jr_ahead_fitting(4, 8, 80), 40);
	assert_int_equal(jr_ahead_fitting(2, 8, 399), 4);
	assert_int_equal(jr_ahead_fitting(0, 8, 80), 0);
	assert_int_equal(jr_ahead_fitting(4, 8, 0), 400); /* a mean of a millisecond at least */
	assert_int_equal(jr_ahead_fitting(64, 8, 8), 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_type_is_quick_after_eight_runs_with_a_mean_below_50_ms),
	    cmocka_unit_test(as_many_as_start_in_a_tenth_of_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
