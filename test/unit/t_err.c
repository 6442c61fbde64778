/* err: one line, whatever goes in; the order of exit statuses. */
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void
fail_fills_code_and_text_and_returns_false(void **state)
{
	struct jr_err err = {.sqlstate = "40001"};

	(void)state;
	assert_false(jr_fail(&err, JR_E_CONFIG, "cannot read %s: %d", "x", 7));
	assert_int_equal(err.code, JR_E_CONFIG);
	assert_string_equal(err.msg, "cannot read x: 7");
	assert_string_equal(err.sqlstate, "");
	assert_false(jr_fail(NULL, JR_E_CONFIG, "cannot read %s: %d", "x", 7));
}

static void
message_is_one_line_without_control_bytes(void **state)
{
	struct jr_err err;

	(void)state;
	jr_fail(&err, JR_E_TEMP, "%s", "ERROR:\x1b[31m a\tb\nDETAIL: c\x7f d \r\n\n");
	assert_string_equal(err.msg, "ERROR: [31m a b DETAIL: c  d");
	jr_fail(&err, JR_E_TEMP, "%s", " \n\n");
	assert_string_equal(err.msg, "");
}

static void
message_may_quote_itself(void **state)
{
	struct jr_err err;

	(void)state;
	jr_fail(&err, JR_E_TEMP, "inner");
	jr_fail(&err, JR_E_BUG, "outer (%s)", err.msg);
	assert_string_equal(err.msg, "outer (inner)");
}

static void
prefix_goes_in_front_and_keeps_code_and_sqlstate(void **state)
{
	struct jr_err err;

	(void)state;
	jr_fail(&err, JR_E_PERM, "permission denied");
	memcpy(err.sqlstate, "42501", 6);
	assert_false(jr_fail_in(&err, "migrate"));
	assert_string_equal(err.msg, "migrate: permission denied");
	assert_string_equal(err.sqlstate, "42501");
	assert_int_equal(err.code, JR_E_PERM);
}

/*
 * Fill a message with `pad` letters and then a character, so that its end is cut at every offset.
 */
static void
long_message_is_cut_between_characters(void **state)
{
	static const char *const characters[] = {"x", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};

	(void)state;
	for (size_t c = 0; c < JR_COUNT(characters); c++) {
		size_t width = strlen(characters[c]);

		for (size_t pad = 1015; pad < 1030; pad++) {
			char text[1100];
			struct jr_err err;
			size_t whole = pad + width <= 1023 ? pad + width : pad <= 1023 ? pad : 1023;

			memset(text, 'a', pad);
			(void)snprintf(text + pad, sizeof(text) - pad, "%szzzzzzzzzzzzzzz", characters[c]);
			jr_fail(&err, JR_E_DATA, "%s", text);
			if (whole == pad + width) /* then as many z as there is room for */
				whole = 1023 < pad + width + 15 ? 1023 : pad + width + 15;
			assert_int_equal(strlen(err.msg), whole);
			assert_memory_equal(err.msg, text, whole);
		}
	}
}

static void
cut_of_bytes_that_are_no_characters_keeps_them(void **state)
{
	char text[2000];
	struct jr_err err;

	(void)state;
	memset(text, 0x80, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	jr_fail(&err, JR_E_DATA, "%s", text);
	assert_int_equal(strlen(err.msg), 1023);
	jr_fail(&err, JR_E_DATA, "short");
	jr_fail_in(&err, text);
	assert_int_equal(strlen(err.msg), 1023);
}

static void
worse_status_follows_the_order(void **state)
{
	static const int order[] = {70, 78, 77, 75, 65, 64, 1, 0};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(order); i++) {
		for (size_t j = 0; j < JR_COUNT(order); j++) {
			int worse = order[i < j ? i : j];

			assert_int_equal(jr_worse_status(order[i], order[j]), worse);
		}
	}
	assert_int_equal(jr_worse_status(130, 70), 130);
	assert_int_equal(jr_worse_status(0, 130), 130);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fail_fills_code_and_text_and_returns_false),
	    cmocka_unit_test(message_is_one_line_without_control_bytes),
	    cmocka_unit_test(message_may_quote_itself),
	    cmocka_unit_test(prefix_goes_in_front_and_keeps_code_and_sqlstate),
	    cmocka_unit_test(long_message_is_cut_between_characters),
	    cmocka_unit_test(cut_of_bytes_that_are_no_characters_keeps_them),
	    cmocka_unit_test(worse_status_follows_the_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
