/*
 * screen: what a frame is made of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/screen.c"   /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/terminal.c" /* NOLINT(bugprone-suspicious-include) */

static void
check_frame(const char *text, size_t rows, const char *expected)
{
	size_t len;
	char *frame = jr_screen_frame(text, strlen(text), rows, &len);

	assert_string_equal(frame, expected);
	assert_int_equal(len, strlen(expected));
	free(frame);
}

static void
test_frame(void **state)
{
	(void)state;
	check_frame("", 3, "\033[H\033[J");
	check_frame("one\ntwo\n", 3, "\033[Hone\033[K\ntwo\033[K\n\033[J");
	check_frame("one\ntwo", 3, "\033[Hone\033[K\ntwo\033[K\n\033[J");
	/* The last row ends without a line feed: it would scroll. */
	check_frame("one\ntwo\nthree\n", 3, "\033[Hone\033[K\ntwo\033[K\nthree\033[K");
	check_frame("one\ntwo\nthree\nfour\n", 3, "\033[Hone\033[K\ntwo\033[K\n\xE2\x80\xA6 2 more lines\033[K");
	check_frame("\n\n\n", 2, "\033[H\033[K\n\xE2\x80\xA6 2 more lines\033[K");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_frame)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
