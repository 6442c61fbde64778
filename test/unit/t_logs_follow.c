/*
 * follow: what was printed piece by piece is what was kept, and a hole is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/logs_follow.c" /* NOLINT(bugprone-suspicious-include) */

static void
check(const char *old, const char *new, int64_t dropped, const char *expected, bool expected_gap)
{
	bool gap = !expected_gap;

	assert_string_equal(jr_logs_follow_new(old, new, dropped, &gap), expected);
	assert_int_equal(gap, expected_gap);
}

static void
what_begins_alike_goes_on(void **state)
{
	(void)state;
	check("", "", 0, "", false);
	check("", "one\n", 0, "one\n", false);
	check("one\n", "one\n", 0, "", false);
	check("one\n", "one\ntwo\n", 0, "two\n", false);
	check("on", "one", 0, "e", false);
	check("one\n", "", 0, "", false);
}

static void
a_character_that_was_cut_is_given_whole(void **state)
{
	(void)state;
	check("caf\xef\xbf\xbd", "caf\xc3\xa9 au lait", 0, "\xc3\xa9 au lait", false);
	check("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xf0\x9f\x90\x98!", 0, "\xf0\x9f\x90\x98!", false);
	/* One that was there from the beginning is not given twice. */
	check("caf\xef\xbf\xbd", "caf\xef\xbf\xbd!", 0, "!", false);
}

static void
what_was_dropped_without_a_trace_is_a_gap(void **state)
{
	(void)state;
	check("head\nmore\n", "head\n[... 5 bytes dropped ...]\ntail\n", 5, "head\n[... 5 bytes dropped ...]\ntail\n",
	    true);
	check("one\n", "two\n", 0, "two\n", true);
}

/* What a capture has kept, as it is stored. */
static char *
stored(const struct jr_capture *capture)
{
	struct jr_buf buf;
	char *text;

	jr_buf_init(&buf, 1 << 20);
	jr_capture_read(capture, &buf);
	text = jr_text_clean(buf.data, buf.len, buf.len * 3);
	jr_buf_release(&buf);
	return text;
}

/*
 * A capture is filled with `line`s (a printf format for their number) and read after every `step` of them. What
 * jr_logs_follow_new gives, put together, must be everything that was written.
 */
static void
follow_capture(const char *line, int lines, int step)
{
	struct jr_capture capture;
	struct jr_buf all, printed;
	char text[200], *old = jr_xstrdup("");
	uint64_t dropped = 0;

	jr_capture_init(&capture, 2000, 6000);
	jr_buf_init(&all, 1 << 24);
	jr_buf_init(&printed, 1 << 24);
	for (int i = 1; i <= lines; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int len = snprintf(text, sizeof(text), line, i);
#pragma GCC diagnostic pop
		bool gap = true;

		jr_capture_add(&capture, text, (size_t)len);
		assert_true(jr_buf_add(&all, text, (size_t)len));
		if (i % step == 0 || i == lines) {
			char *new = stored(&capture);

			assert_true(jr_buf_adds(
			    &printed, jr_logs_follow_new(old, new, (int64_t)(capture.dropped - dropped), &gap)));
			assert_false(gap);
			dropped = capture.dropped;
			free(old);
			old = new;
		}
	}
	assert_int_equal(printed.len, all.len);
	assert_string_equal(printed.data, all.data);
	free(old);
	jr_buf_release(&all);
	jr_buf_release(&printed);
	jr_capture_release(&capture);
}

static void
everything_is_given_once(void **state)
{
	(void)state;
	follow_capture("line %d\n", 5000, 1);
	follow_capture("line %d\n", 5000, 7);
	follow_capture("line %d\n", 5000, 250);
	follow_capture("%d caf\xc3\xa9 \xf0\x9f\x90\x98\n", 3000, 10);
}

/* As much as there was, though nobody can say which part of it. */
static void
output_that_repeats_itself_is_neither_stuck_nor_doubled(void **state)
{
	struct jr_capture capture;
	char *old = jr_xstrdup("");
	uint64_t dropped = 0;
	size_t printed = 0;
	bool gap;

	(void)state;
	jr_capture_init(&capture, 2000, 6000);
	for (int i = 1; i <= 4000; i++) {
		char *new;

		for (int n = 0; n < 10; n++)
			jr_capture_add(&capture, "tick\n", 5);
		new = stored(&capture);
		printed += strlen(jr_logs_follow_new(old, new, (int64_t)(capture.dropped - dropped), &gap));
		dropped = capture.dropped;
		free(old);
		old = new;
	}
	assert_in_range(printed, 4000 * 50 - 100, 4000 * 50 + 100);
	free(old);
	jr_capture_release(&capture);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_begins_alike_goes_on),
	    cmocka_unit_test(a_character_that_was_cut_is_given_whole),
	    cmocka_unit_test(what_was_dropped_without_a_trace_is_a_gap),
	    cmocka_unit_test(everything_is_given_once),
	    cmocka_unit_test(output_that_repeats_itself_is_neither_stuck_nor_doubled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
