/* doctor_judge: versions of the server, and clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/doctor_judge.c" /* NOLINT(bugprone-suspicious-include) */

static void
servers_before_12_fail_and_after_18_are_not_known(void **state)
{
	static const struct {
		int version;
		enum jr_health health;
	} servers[] = {
	    {110022, JR_HEALTH_FAIL},
	    {120000, JR_HEALTH_OK},
	    {150014, JR_HEALTH_OK},
	    {189999, JR_HEALTH_OK},
	    {190000, JR_HEALTH_WARN},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(servers); i++) {
		const char *consequence = "";

		assert_int_equal(jr_judge_version(servers[i].version, &consequence), servers[i].health);
		assert_int_equal(consequence == NULL, servers[i].health == JR_HEALTH_OK);
	}
}

/* However long the answer takes, clocks that may agree do agree. */
static void
clocks_differ_only_by_what_the_way_does_not_explain(void **state)
{
	(void)state;
	assert_int_equal(jr_judge_skew(1000, 1000, 1000), 0);
	assert_int_equal(jr_judge_skew(1000, 60000, 61000), 0);
	assert_int_equal(jr_judge_skew(1000, 400, 1200), 600);
	assert_int_equal(jr_judge_skew(1000, 5200, 1200), -4000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(servers_before_12_fail_and_after_18_are_not_known),
	    cmocka_unit_test(clocks_differ_only_by_what_the_way_does_not_explain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
