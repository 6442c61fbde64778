/* ranges: every form of the guidelines, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/ranges.c" /* NOLINT(bugprone-suspicious-include) */

static void
each_form_alerts_where_the_guidelines_say(void **state)
{
	static const struct {
		const char *text;
		bool seconds;
		int64_t quiet[2], alerts[2];
		const char *written;
	} forms[] = {
	    {"10", false, {0, 10}, {-1, 11}, "10"},
	    {"0", false, {0, 0}, {-1, 1}, "0"},
	    {"10:", false, {10, INT64_MAX}, {9, INT64_MIN}, "10:"},
	    {"~:10", false, {INT64_MIN, 10}, {11, INT64_MAX}, "~:10"},
	    {"10:20", false, {10, 20}, {9, 21}, "10:20"},
	    {"@10:20", false, {9, 21}, {10, 20}, "@10:20"},
	    {":20", false, {0, 20}, {-1, 21}, "20"},
	    {"-5:-1", false, {-5, -1}, {-6, 0}, "-5:-1"},
	    {"0:", false, {0, 1}, {-1, INT64_MIN}, "0:"},
	    {"@~:0", false, {1, 2}, {0, -1}, "@~:0"},
	    {"5m", true, {0, 300}, {-1, 301}, "300"},
	    {"1m:1h30m", true, {60, 5400}, {59, 5401}, "60:5400"},
	    {"300", true, {0, 300}, {-1, 301}, "300"},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(forms); i++) {
		struct jr_range range = {0};
		struct jr_err err = {0};
		char *text;

		assert_true(jr_range_parse("-w dead", forms[i].text, forms[i].seconds, &range, &err));
		for (size_t j = 0; j < 2; j++) {
			assert_false(jr_range_alerts(&range, forms[i].quiet[j]));
			assert_true(jr_range_alerts(&range, forms[i].alerts[j]));
		}
		text = jr_range_text(&range);
		assert_string_equal(text, forms[i].written);
		free(text);
	}
}

static void
what_is_no_range_is_refused(void **state)
{
	static const struct {
		const char *text, *message;
		bool seconds;
	} bad[] = {
	    {"", "-w dead: \"\" is not a whole number", false},
	    {"20:10", "-w dead: \"20:10\": a range goes from the lower to the higher number", false},
	    {"5m", "-w dead: \"5m\" is not a whole number", false},
	    {"1:2:3", "-w dead: \"2:3\" is not a whole number", false},
	    {"1500ms", "-w dead: \"1500ms\" has parts of a second; write whole seconds", true},
	    {"@", "-w dead: \"\" is not a whole number", false},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		struct jr_range range = {.low = 7};
		struct jr_err err = {0};

		assert_false(jr_range_parse("-w dead", bad[i].text, bad[i].seconds, &range, &err));
		assert_string_equal(err.msg, bad[i].message);
		assert_int_equal(err.code, JR_E_USAGE);
		assert_int_equal(range.low, 7);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_form_alerts_where_the_guidelines_say),
	    cmocka_unit_test(what_is_no_range_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
