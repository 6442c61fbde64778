/* width: columns of wide and combining characters, cuts and wraps at every width. */
#include "base/width.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define MARK "\xE2\x80\xA6"
#define WIDE "\xE9\xA1\xA7\xE5\xAE\xA2" /* two characters, four columns */

static void
test_width(void **state)
{
	(void)state;
	assert_int_equal(jr_width(""), 0);
	assert_int_equal(jr_width("abc"), 3);
	assert_int_equal(jr_width(WIDE), 4);
	assert_int_equal(jr_width("e\xCC\x81"), 1);     /* e and a combining acute */
	assert_int_equal(jr_width("a\xFF\xE9\xA1"), 4); /* a byte each: no character, and one that is cut off */
}

static void
check_cut(const char *text, size_t max, const char *mark, const char *expected)
{
	char *got = jr_width_cut(text, max, mark);

	assert_string_equal(got, expected);
	free(got);
}

static void
test_cut(void **state)
{
	(void)state;
	check_cut("abcdef", 6, MARK, "abcdef");
	check_cut("abcdef", 5, MARK, "abcd" MARK);
	check_cut("abcdef", 5, "...", "ab...");
	check_cut("abcdef", 2, "...", "ab");
	check_cut("abcdef", 0, MARK, "");
	check_cut(WIDE, 4, MARK, WIDE);
	check_cut(WIDE, 3, MARK, "\xE9\xA1\xA7" MARK);
	check_cut(WIDE, 2, MARK, MARK); /* no half of a character */
	check_cut("e\xCC\x81xyz", 2, MARK, "e\xCC\x81" MARK);
}

/* The lines of `text`, each followed by a bar. */
static void
check_lines(const char *text, size_t max, const char *expected)
{
	char *all = jr_xstrdup("");

	while (*text != '\0') {
		const char *next;
		int len = (int)jr_width_line(text, max, &next);
		char *more = jr_xasprintf("%s%.*s|", all, len, text);

		assert_true(next > text);
		free(all);
		all = more;
		text = next;
	}
	assert_string_equal(all, expected);
	free(all);
}

static void
test_lines(void **state)
{
	(void)state;
	check_lines("", 10, "");
	check_lines("one two three", 13, "one two three|");
	check_lines("one two three", 12, "one two|three|");
	check_lines("one two three", 3, "one|two|three|");
	check_lines("incomprehensible word", 5, "incomprehensible|word|");
	check_lines("so 'jobrun list' shows", 12, "so|'jobrun list'|shows|");
	check_lines("it is CMD's own text", 10, "it is|CMD's own|text|");
	check_lines("'tis a b", 5, "'tis|a b|");
	check_lines("ends here ", 20, "ends here|");
	check_lines(WIDE " " WIDE, 8, WIDE "|" WIDE "|");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_width),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_lines),
	};

	if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
