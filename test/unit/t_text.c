/*
 * text: what PostgreSQL would refuse never comes out, limits hold at every offset, terminals see no
 * control.
 */
#include "base/text.h"

#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define R "\xEF\xBF\xBD"

static void
check_clean(const char *bytes, size_t len, size_t max, const char *expected)
{
	char *got = jr_text_clean(bytes, len, max);

	assert_string_equal(got, expected);
	free(got);
}

struct bytes {
	const char *in;
	size_t len;
	const char *out;
};

/* clang-format off */
#define BYTES(in, out) { (in), sizeof(in) - 1, (out) }

static const struct bytes table[] = {
	BYTES("", ""),
	BYTES("plain\ttext\n", "plain\ttext\n"),
	BYTES("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
	BYTES("a\0b", "a" R "b"),
	/* the first and the last character of each length */
	BYTES("\x01\x7F\xC2\x80\xDF\xBF", "\x01\x7F\xC2\x80\xDF\xBF"),
	BYTES("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF",
	    "\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"),
	BYTES("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"),
	/* lone continuations */
	BYTES("\x80", R),
	BYTES("a\xBF\x80z", "a" R R "z"),
	/* overlong forms */
	BYTES("\xC0\x80", R R),
	BYTES("\xC1\xBF", R R),
	BYTES("\xE0\x80\x80", R R R),
	BYTES("\xE0\x9F\xBF", R R R),
	BYTES("\xF0\x80\x80\x80", R R R R),
	BYTES("\xF0\x8F\xBF\xBF", R R R R),
	/* surrogates */
	BYTES("\xED\xA0\x80", R R R),
	BYTES("\xED\xBF\xBF", R R R),
	/* above U+10FFFF */
	BYTES("\xF4\x90\x80\x80", R R R R),
	BYTES("\xF5\x80\x80\x80", R R R R),
	BYTES("\xF8\x88\x80\x80\x80", R R R R R),
	BYTES("\xFE\xFF", R R),
	/* cut characters cost their own bytes only */
	BYTES("\xC3", R),
	BYTES("\xC3z", R "z"),
	BYTES("\xE2\x82", R R),
	BYTES("\xE2\x82z", R R "z"),
	BYTES("\xE2z\xAC", R "z" R),
	BYTES("\xF0\x9F\x98", R R R),
	BYTES("\xF0\x9F\x98z", R R R "z"),
	BYTES("\xF0\x9F\xC3\xA4", R R "\xC3\xA4"),
	BYTES("\xC3\xC3\xA4", R "\xC3\xA4"),
};
/* clang-format on */

static void
bad_bytes_become_replacement_characters(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(table); i++)
		check_clean(table[i].in, table[i].len, 100, table[i].out);
}

static void
lead_bytes_that_do_not_exist_are_replaced(void **state)
{
	(void)state;
	for (int c = 0xF5; c <= 0xFF; c++) {
		char in[4] = {(char)c, '\x80', '\x80', '\x80'};

		check_clean(in, 4, 100, R R R R);
	}
}

static void
cut_never_falls_inside_a_character(void **state)
{
	static const char *const characters[] = {"\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xFF"};

	(void)state;
	for (size_t c = 0; c < JR_COUNT(characters); c++) {
		size_t width = strlen(characters[c]);
		size_t out_width = width == 1 ? 3 : width; /* the last is replaced */

		for (size_t max = 0; max < 20; max++) {
			for (size_t pad = 0; pad < 6; pad++) {
				char in[40], *got;
				size_t want = pad + (max > pad ? (max - pad) / out_width * out_width : 0);

				memset(in, 'a', pad);
				for (size_t i = 0; i < 8; i++)
					memcpy(in + pad + i * width, characters[c], width);
				got = jr_text_clean(in, pad + 8 * width, max);
				want = max < pad ? max : want < pad + 8 * out_width ? want : pad + 8 * out_width;
				assert_int_equal(strlen(got), want);
				free(got);
			}
		}
	}
}

static void
input_cut_at_each_offset_is_replaced_byte_by_byte(void **state)
{
	static const char text[] = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";
	static const char *const expected[] = {"", "a", "a" R, "a\xC3\xA4", "a\xC3\xA4" R, "a\xC3\xA4" R R,
	    "a\xC3\xA4\xE2\x82\xAC", "a\xC3\xA4\xE2\x82\xAC" R, "a\xC3\xA4\xE2\x82\xAC" R R,
	    "a\xC3\xA4\xE2\x82\xAC" R R R, "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80",
	    "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z"};

	(void)state;
	_Static_assert(JR_COUNT(expected) == sizeof(text), "an answer for each length");
	for (size_t len = 0; len < sizeof(text); len++)
		check_clean(text, len, 100, expected[len]);
}

static void
cleaning_twice_changes_nothing(void **state)
{
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 7);
	for (int i = 0; i < 3000; i++) {
		char in[64], *once, *twice;
		size_t len = (size_t)jr_random_below(&random, sizeof(in) + 1);
		size_t max = (size_t)jr_random_below(&random, 200);

		for (size_t k = 0; k < len; k++)
			in[k] = (char)jr_random_below(&random, 256);
		once = jr_text_clean(in, len, max);
		twice = jr_text_clean(once, strlen(once), 1000);
		assert_true(strlen(once) <= max);
		assert_string_equal(once, twice);
		free(once);
		free(twice);
	}
}

static void
check_visible(const char *in, bool keep_lines, const char *expected)
{
	char *got = jr_text_visible(in, keep_lines);

	assert_string_equal(got, expected);
	free(got);
}

static void
controls_are_made_visible(void **state)
{
	(void)state;
	check_visible("plain \xC3\xA4 \xF0\x9F\x98\x80", false, "plain \xC3\xA4 \xF0\x9F\x98\x80");
	check_visible("\x1b[31mred\x07", false, "\\x1b[31mred\\x07");
	check_visible("a\nb\tc\rd", false, "a\\x0ab\\x09c\\x0dd");
	check_visible("a\nb\tc\rd", true, "a\nb\tc\\x0dd");
	check_visible("\x7F", true, "\\x7f");
	check_visible("\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0", true, "\\x80\\x9b\\x9f\xC2\xA0");
	check_visible("\x80\xFF\xE2\x82", true, "\\x80\\xff\\xe2\\x82");
	check_visible("", true, "");
}

static void
bidirectional_controls_are_made_visible(void **state)
{
	static const unsigned int points[] = {0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069};
	static const unsigned int harmless[] = {0x200D, 0x2010, 0x2027, 0x202F, 0x2065, 0x206A};

	(void)state;
	check_visible("a\xD8\x9C"
		      "b\xD8\x9B",
	    true, "a\\u{061c}b\xD8\x9B");
	for (size_t i = 0; i < JR_COUNT(points); i++) {
		char in[4] = {'\xE2', (char)(0x80 | (points[i] >> 6 & 0x3F)), (char)(0x80 | (points[i] & 0x3F))};
		char out[16];

		(void)snprintf(out, sizeof(out), "\\u{%04x}", points[i]);
		check_visible(in, true, out);
	}
	for (size_t i = 0; i < JR_COUNT(harmless); i++) {
		char in[4] = {'\xE2', (char)(0x80 | (harmless[i] >> 6 & 0x3F)), (char)(0x80 | (harmless[i] & 0x3F))};

		check_visible(in, true, in);
	}
}

static void
documents_stay_documents(void **state)
{
	static const char *const cases[][2] = {
	    {"{\"a\": [1, \"\xC3\xA4 \xF0\x9F\x98\x80 \\u009b \\n\"],\n\t\"b\": 2}",
		"{\"a\": [1, \"\xC3\xA4 \xF0\x9F\x98\x80 \\u009b \\n\"],\n\t\"b\": 2}"},
	    {"\"\x7F\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0\"", "\"\\u007f\\u0080\\u009b\\u009f\xC2\xA0\""},
	    {"\"\xE2\x80\xAE\xE2\x81\xA9\xE2\x80\xAC\xE2\x80\xA8\xD8\x9C\"", "\"\\u202e\\u2069\\u202c\\u2028\\u061c\""},
	    {"\"\x1B\xFF\"", "\"\\u001b\\ufffd\""}, /* no document */
	    {"", ""},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		char *got = jr_text_visible_json(cases[i][0]);

		assert_string_equal(got, cases[i][1]);
		free(got);
	}
}

static void
compact_documents_keep_their_strings(void **state)
{
	static const char *const cases[][2] = {
	    {"{\"id\" : 1, \"in_place_of\" : null,\n\t\"a\": [1, -2.50 , \"b \\\" : c\"]}",
		"{\"id\":1,\"in_place_of\":null,\"a\":[1,-2.50,\"b \\\" : c\"]}"},
	    {"[ \"ends with \\\\\" , \"\" ]", "[\"ends with \\\\\",\"\"]"},
	    {"\"a\\", "\"a\\"}, /* no document */
	    {"", ""},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		char *got = jr_text_compact_json(cases[i][0]);

		assert_string_equal(got, cases[i][1]);
		free(got);
	}
}

static void
check_last_line(const char *in, size_t max, const char *expected)
{
	char *got = jr_text_last_line(in, max);

	assert_string_equal(got, expected);
	free(got);
}

static void
last_line_is_the_last_that_says_something(void **state)
{
	(void)state;
	check_last_line("", 100, "");
	check_last_line(" \n\t\r\n", 100, "");
	check_last_line("one", 100, "one");
	check_last_line("one\ntwo\n", 100, "two");
	check_last_line("one\n  two  \n\n \n", 100, "two");
	check_last_line("10%\r20%\r100%\r\n", 100, "100%");
	check_last_line("a\nbad \xFF byte\n", 100, "bad " R " byte");
	check_last_line("a\nabc\xC3\xA4", 4, "abc");
}

static void
nearest_word_is_found_when_it_is_near(void **state)
{
	static const char *const words[] = {"enqueue", "status", "list", "show", "logs", "retry", "cancel", "migrate"};
	static const char *const pairs[][2] = {{"enque", "enqueue"}, {"lsit", "list"}, {"lst", "list"},
	    {"staus", "status"}, {"log", "logs"}, {"migarte", "migrate"}, {"retry", "retry"}, {"shw", "show"},
	    {"cancle", "cancel"}, {"LIST", "list"}, {"STAUS", "status"}};
	static const char *const strangers[] = {"", "x", "ls", "frobnicate", "on", "long", "shed", "frown"};
	static const char *const options[] = {"--by", "--in", "--at", "--lock", "--run"};
	char long_word[100];

	(void)state;
	for (size_t i = 0; i < JR_COUNT(pairs); i++)
		assert_string_equal(jr_text_nearest(pairs[i][0], words, JR_COUNT(words)), pairs[i][1]);
	for (size_t i = 0; i < JR_COUNT(strangers); i++)
		assert_null(jr_text_nearest(strangers[i], words, JR_COUNT(words)));
	memset(long_word, 'a', sizeof(long_word) - 1);
	long_word[sizeof(long_word) - 1] = '\0';
	assert_null(jr_text_nearest(long_word, words, JR_COUNT(words)));
	assert_null(jr_text_nearest("aaaaaa", (const char *const[]){long_word}, 1));
	assert_null(jr_text_nearest("list", NULL, 0));
	assert_null(jr_text_nearest("--id", options, JR_COUNT(options)));
	assert_null(jr_text_nearest("--", options, JR_COUNT(options)));
	assert_string_equal(jr_text_nearest("--IN", options, JR_COUNT(options)), "--in");
	assert_string_equal(jr_text_nearest("--lokc", options, JR_COUNT(options)), "--lock");
	assert_string_equal(jr_text_nearest("--rum", options, JR_COUNT(options)), "--run");
	assert_null(jr_text_nearest("ab", (const char *const[]){"abc", "ac", "a"}, 3));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_bytes_become_replacement_characters),
	    cmocka_unit_test(lead_bytes_that_do_not_exist_are_replaced),
	    cmocka_unit_test(cut_never_falls_inside_a_character),
	    cmocka_unit_test(input_cut_at_each_offset_is_replaced_byte_by_byte),
	    cmocka_unit_test(cleaning_twice_changes_nothing),
	    cmocka_unit_test(controls_are_made_visible),
	    cmocka_unit_test(bidirectional_controls_are_made_visible),
	    cmocka_unit_test(documents_stay_documents),
	    cmocka_unit_test(compact_documents_keep_their_strings),
	    cmocka_unit_test(last_line_is_the_last_that_says_something),
	    cmocka_unit_test(nearest_word_is_found_when_it_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
