/* backoff: in bounds for every n, base and cap; even jitter; repeatable from a seed. */
#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t tries[] = {INT64_MIN, -1, 0, 1, 2, 3, 10, 62, 63, 64, 65, 1000, INT32_MAX, INT64_MAX};
static const int64_t spans[] = {INT64_MIN, -1, 0, 1, 2, 3, 999, 1000, JR_BACKOFF_BASE_MS, JR_BACKOFF_CAP_MS,
    JR_DURATION_MAX_MS, INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX - 1, INT64_MAX};

static void
check_bounds(struct jr_random *random, int64_t n, int64_t base_ms, int64_t cap_ms)
{
	int64_t base = base_ms > 0 ? base_ms : 0;
	int64_t cap = cap_ms > base ? cap_ms : base;
	int64_t min, max;

	jr_backoff_range(n, base_ms, cap_ms, &min, &max);
	assert_true(max >= base && max <= cap);
	assert_int_equal(min, base >= 1000 && max < 2000 ? 1000 : max / 2);
	for (int i = 0; i < 5; i++) {
		int64_t d = jr_backoff_ms(random, n, base_ms, cap_ms);

		assert_true(d >= min && d <= max);
	}
}

static void
every_delay_lies_between_half_and_whole(void **state)
{
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 1);
	for (size_t n = 0; n < JR_COUNT(tries); n++)
		for (size_t b = 0; b < JR_COUNT(spans); b++)
			for (size_t c = 0; c < JR_COUNT(spans); c++)
				check_bounds(&random, tries[n], spans[b], spans[c]);
}

static void
whole_delay_doubles_up_to_the_cap(void **state)
{
	static const int64_t expected[] = {
	    10000, 10000, 20000, 40000, 80000, 160000, 320000, 640000, 1280000, 2560000, 3600000, 3600000};

	(void)state;
	for (size_t n = 0; n < JR_COUNT(expected); n++) {
		int64_t min, max;

		jr_backoff_range((int64_t)n, JR_BACKOFF_BASE_MS, JR_BACKOFF_CAP_MS, &min, &max);
		assert_int_equal(max, expected[n]);
	}
}

static void
more_tries_never_wait_less(void **state)
{
	(void)state;
	for (size_t b = 0; b < JR_COUNT(spans); b++) {
		for (size_t c = 0; c < JR_COUNT(spans); c++) {
			int64_t last = 0;

			for (int64_t n = 0; n < 70; n++) {
				int64_t min, max;

				jr_backoff_range(n, spans[b], spans[c], &min, &max);
				assert_true(max >= last);
				last = max;
			}
		}
	}
}

static void
both_ends_are_reached(void **state)
{
	struct jr_random random;
	bool seen[11] = {false};

	(void)state;
	jr_random_seed(&random, 3);
	for (int i = 0; i < 1000; i++)
		seen[jr_backoff_ms(&random, 1, 10, 10)] = true;
	for (size_t d = 0; d < JR_COUNT(seen); d++)
		assert_int_equal(seen[d], d >= 5);
}

/* 99 degrees of freedom: chi-square above 149 has a probability of 0.1 %. */
static void
jitter_is_even(void **state)
{
	struct jr_random random;
	int64_t chi_square_of_100 = 0;
	int counts[100] = {0};
	const int draws = 200000, expected = draws / 100;

	(void)state;
	jr_random_seed(&random, 20261121);
	for (int i = 0; i < draws; i++)
		counts[jr_backoff_ms(&random, 1, 198, 198) - 99]++; /* 99 ... 198: a hundred values */
	for (size_t i = 0; i < JR_COUNT(counts); i++)
		chi_square_of_100 += 100 * (int64_t)(counts[i] - expected) * (counts[i] - expected) / expected;
	assert_true(chi_square_of_100 < 14900);
	assert_true(chi_square_of_100 > 5000); /* too even is not random */
}

static void
random_numbers_stay_below_their_limit(void **state)
{
	static const uint64_t limits[] = {1, 2, 3, 7, 1000, UINT64_C(1) << 32, UINT64_C(3) << 62, UINT64_MAX};
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 0);
	assert_int_equal(jr_random_below(&random, 0), 0);
	for (size_t i = 0; i < JR_COUNT(limits); i++)
		for (int k = 0; k < 1000; k++)
			assert_true(jr_random_below(&random, limits[i]) < limits[i]);
}

static void
same_seed_gives_the_same_numbers(void **state)
{
	struct jr_random a, b, c;
	int same = 0;

	(void)state;
	jr_random_seed(&a, 5);
	jr_random_seed(&b, 5);
	jr_random_seed(&c, 6);
	for (int i = 0; i < 100; i++) {
		uint64_t x = jr_random_below(&a, 1000000);

		assert_int_equal(x, jr_random_below(&b, 1000000));
		same += x == jr_random_below(&c, 1000000);
	}
	assert_true(same < 3);
}

/* The one seed that the mixing turns into the state that never changes. */
static void
no_seed_stops_the_generator(void **state)
{
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 0 - UINT64_C(0x9E3779B97F4A7C15));
	assert_true(random.state != 0);
	jr_random_seed(&random, 0);
	assert_true(random.state != 0);
}

static void
two_runners_have_different_seeds(void **state)
{
	struct jr_random a, b;

	(void)state;
	jr_random_seed_system(&a);
	jr_random_seed_system(&b);
	assert_true(a.state != b.state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_delay_lies_between_half_and_whole),
	    cmocka_unit_test(whole_delay_doubles_up_to_the_cap),
	    cmocka_unit_test(more_tries_never_wait_less),
	    cmocka_unit_test(both_ends_are_reached),
	    cmocka_unit_test(jitter_is_even),
	    cmocka_unit_test(random_numbers_stay_below_their_limit),
	    cmocka_unit_test(same_seed_gives_the_same_numbers),
	    cmocka_unit_test(no_seed_stops_the_generator),
	    cmocka_unit_test(two_runners_have_different_seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
