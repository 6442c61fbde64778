/*
 * out: what handlers write into JOBRUN_OUT, well and badly.
 */
#include "out_files.h"

static void
the_last_line_of_each_kind_counts(void **state)
{
	struct fixture *fixture = *state;

	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), NULL);
	append(fixture, "{\"progress\": 1}\n{\"checkpoint\": {\"page\": 7}}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
	expect(jr_out_checkpoint(fixture->out), "{\"checkpoint\": {\"page\": 7}}");
	expect(jr_out_result(fixture->out), NULL);
	append(fixture, "{\"progress\": 2}\n\n  \t\r\n{\"retry_in\": \"1h30m\"}\r\n{\"progress\": 3}\n");
	append(fixture, "{\"result\": [1.50, 1e2]}");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 3}");
	expect(jr_out_result(fixture->out), NULL); /* its newline may still come */
	assert_int_equal(jr_out_retry_in_ms(fixture->out), 5400000);
	jr_out_read(fixture->out, true);
	expect(jr_out_result(fixture->out), "{\"result\": [1.50, 1e2]}");
	assert_string_equal(jr_out_warnings(fixture->out), "");
	append(fixture, "\n{\"progress\": 4}\n"); /* by somebody who outlived the handler */
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), "{\"progress\": 3}");
}

static void
one_line_may_say_several_things(void **state)
{
	static const char line[] = "{\"result\": 1, \"progress\": 2, \"checkpoint\": null, \"retry_in\": \"5m\"}";
	struct fixture *fixture = *state;

	append(fixture, line);
	jr_out_read(fixture->out, true);
	expect(jr_out_result(fixture->out), line);
	expect(jr_out_progress(fixture->out), line);
	expect(jr_out_checkpoint(fixture->out), line);
	assert_int_equal(jr_out_retry_in_ms(fixture->out), 300000);
}

static void
the_text_is_kept_to_the_last_digit(void **state)
{
	static const char line[] =
	    "{\"result\": {\"a\": 123456789012345678901234567890.10, \"b\": 9223372036854775808, \"c\": 1e-300, \"d\": \"\xC3\xA9 \\u00e9 \\ud83d\\ude42\"}}";
	struct fixture *fixture = *state;

	append(fixture, line);
	append(fixture, "\n");
	jr_out_read(fixture->out, true);
	expect(jr_out_result(fixture->out), line);
	assert_string_equal(jr_out_warnings(fixture->out), "");
}

static void
a_line_may_come_in_pieces(void **state)
{
	static const char line[] = "{\"progress\": {\"done\": 40}}\n";
	struct fixture *fixture = *state;

	for (size_t i = 0; line[i] != '\0'; i++) {
		char piece[2] = {line[i], '\0'};

		append(fixture, piece);
		jr_out_read(fixture->out, false);
	}
	expect(jr_out_progress(fixture->out), "{\"progress\": {\"done\": 40}}");
	jr_out_read(fixture->out, true);
	assert_string_equal(jr_out_warnings(fixture->out), "");
}

static void
what_is_not_understood_is_a_warning_that_names_it(void **state)
{
	static const struct {
		const char *line, *warning;
	} cases[] = {
	    {"no json", "not JSON"},
	    {"{\"progress\": 1} x", "not JSON"},
	    {"{\"progress\": 1", "not JSON, at column 14: '}' expected"},
	    {"{\"progress\": \"\xff\"}", "not JSON"},
	    {"{\"progress\": \"\xed\xa0\x80\"}", "not JSON"},
	    {"{\"progress\": \"\\u0000\"}", "not JSON"},
	    {"{\"progress\": \"\\ud800\"}", "not JSON"},
	    {"{\"progress\": \"a\tb\"}", "not JSON"},
	    {"{\"progress\": 1, \"progress\": 2}", "duplicate object key"},
	    {"{\"progress\": {\"a\": 1, \"a\": 2}}", "duplicate object key"},
	    {"[1]", "not an object"},
	    {"null", "not"},
	    {"40", "not"},
	    {"{}", "an empty object"},
	    {"{\"progres\": 1}", "unknown member \"progres\": did you mean \"progress\"?"},
	    {"{\"progress\": 1, \"colour\": 1}", "unknown member \"colour\": known are progress"},
	    {"{\"retry_in\": 5}", "retry_in must be a string"},
	    {"{\"retry_in\": \"5\"}", "retry_in"},
	    {"{\"retry_in\": \"-5m\"}", "retry_in"},
	    {"{\"retry_in\": \"0\"}", "more than 0"},
	    {"{\"retry_in\": null, \"progress\": 1}", "retry_in must be a string"},
	    {"{\"progress\": 1e99999999999999999999}", ""},
	    {"{\"progress\": 1e-99999999999999999999}", "a number of more than"},
	    {"{\"progress\": 1e-16384}", "a number of more than"},
	};

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		struct fixture *fixture;
		char *begin;

		set_up(state);
		fixture = *state;
		append(fixture, "\n");
		append(fixture, cases[i].line);
		append(fixture, "\n");
		jr_out_read(fixture->out, true);
		begin = jr_xasprintf("line 2 of JOBRUN_OUT: %.0s", cases[i].line);
		expect_warning(fixture, begin);
		expect_warning(fixture, cases[i].warning);
		free(begin);
		expect(jr_out_progress(fixture->out), NULL);
		assert_int_equal(jr_out_retry_in_ms(fixture->out), 0);
		assert_int_equal(tear_down(state), 0);
	}
}

static void
a_nul_byte_is_a_warning(void **state)
{
	static const char text[] = "{\"progress\": 1}\0\n{\"result\": \0 1}\n{\"checkpoint\": 1}\n";
	struct fixture *fixture = *state;

	write_with(jr_out_path(fixture->out), text, sizeof(text) - 1, O_CREAT | O_APPEND);
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), NULL);
	expect(jr_out_result(fixture->out), NULL);
	expect(jr_out_checkpoint(fixture->out), "{\"checkpoint\": 1}");
	assert_string_equal(jr_out_warnings(fixture->out),
	    "line 1 of JOBRUN_OUT: it has a NUL byte\nline 2 of JOBRUN_OUT: it has a NUL byte\n");
}

static void
warnings_are_ten_and_a_count(void **state)
{
	struct fixture *fixture = *state;
	const char *warnings;
	size_t lines = 0;

	for (int i = 0; i < 1000; i++)
		append(fixture, "bad\n");
	append(fixture, "{\"progress\": 1}\n");
	jr_out_read(fixture->out, false);
	jr_out_read(fixture->out, true);
	warnings = jr_out_warnings(fixture->out);
	for (size_t i = 0; warnings[i] != '\0'; i++)
		lines += warnings[i] == '\n';
	assert_int_equal(lines, JR_OUT_WARNINGS_MAX + 1);
	expect_warning(fixture, "line 10 of JOBRUN_OUT: ");
	expect_warning(fixture, "\nJOBRUN_OUT: 990 more warnings\n");
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
}

/* Lines of which nobody will read why they are invalid are read in a shorter way. */
static void
after_ten_warnings_lines_are_taken_and_counted_as_before(void **state)
{
	static const char *const bad[] = {"x", "{", "{}", "{            }", "[1, 2, 3, 4, 5]", "{\"result\":1",
	    "{\"result\":1} x", "{\"results\":1}", "{\"colour\": 1, \"progress\": 1}", "{\"retry_in\":\"5\"}",
	    "{\"retry_in\": 50}", "{\"progress\": 1e-16384}", "  x", "{\"progress\": \"\xff\"}"};
	static const char *const good[] = {
	    "{\"result\":1}", " \t{\"result\":2}", "\r{\"result\":3}\r", "{\"result\": [4]}"};
	struct fixture *fixture = *state;
	char *expected;

	for (int i = 0; i < JR_OUT_WARNINGS_MAX; i++)
		append(fixture, "bad\n");
	for (size_t i = 0; i < JR_COUNT(good); i++) {
		append(fixture, good[i]);
		append(fixture, "\n");
		jr_out_read(fixture->out, false);
		expect(jr_out_result(fixture->out), good[i]);
	}
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		append(fixture, bad[i]);
		append(fixture, "\n \t\n");
	}
	jr_out_read(fixture->out, true);
	expect(jr_out_result(fixture->out), good[JR_COUNT(good) - 1]);
	expect(jr_out_progress(fixture->out), NULL);
	assert_int_equal(jr_out_retry_in_ms(fixture->out), 0);
	expected = jr_xasprintf("\nJOBRUN_OUT: %zu more warnings\n", JR_COUNT(bad));
	expect_warning(fixture, expected);
	free(expected);
}

/* {"NAME": "xxx"} of that many bytes in all, with a newline. Caller frees. */
static char *
long_line(const char *name, size_t len)
{
	char *line = jr_xmalloc(len + 2);
	int begin = snprintf(line, len, "{\"%s\": \"", name);

	memset(line + begin, 'x', len - (size_t)begin);
	memcpy(line + len - 2, "\"}\n", 4);
	return line;
}

static void
sizes_have_limits(void **state)
{
	static const struct {
		const char *name;
		size_t len;
		const char *warning; /* NULL: it is taken */
	} cases[] = {
	    {"progress", JR_PROGRESS_MAX, NULL},
	    {"progress", JR_PROGRESS_MAX + 1, "progress has at most 61440"},
	    {"result", JR_OUT_LINE_MAX, NULL},
	    {"result", JR_OUT_LINE_MAX + 16, NULL}, /* the value may have 1 MiB */
	    {"checkpoint", JR_OUT_LINE_MAX + 16, NULL},
	    {"checkpoint", JR_OUT_LINE_MAX + 100, "longer than 1 MiB"},
	    {"result", (size_t)3 * JR_OUT_LINE_MAX, "longer than 1 MiB"},
	};

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		char *line = long_line(cases[i].name, cases[i].len);
		struct fixture *fixture;
		struct jr_out *out;

		set_up(state);
		fixture = *state;
		out = fixture->out;
		append(fixture, line);
		append(fixture, "{\"retry_in\": \"1s\"}\n");
		jr_out_read(out, true);
		line[cases[i].len] = '\0';
		if (cases[i].warning != NULL) {
			expect_warning(fixture, "line 1 of JOBRUN_OUT: ");
			expect_warning(fixture, cases[i].warning);
		} else {
			assert_string_equal(jr_out_warnings(out), "");
			expect(cases[i].name[0] == 'p'   ? jr_out_progress(out)
			       : cases[i].name[0] == 'r' ? jr_out_result(out)
							 : jr_out_checkpoint(out),
			    line);
		}
		assert_int_equal(jr_out_retry_in_ms(out), 1000); /* the line behind it */
		free(line);
		assert_int_equal(tear_down(state), 0);
	}
}

/* {"NAME": [NUMBER,NUMBER,...]} with a newline. */
static void
append_numbers(struct fixture *fixture, const char *name, const char *number, int count)
{
	struct jr_buf line;

	jr_buf_init(&line, JR_OUT_LINE_MAX);
	jr_buf_addf(&line, "{\"%s\": [%s", name, number);
	for (int i = 1; i < count; i++)
		jr_buf_addf(&line, ",%s", number);
	jr_buf_adds(&line, "]}\n");
	append(fixture, line.data);
	jr_buf_release(&line);
}

/* Many small numbers take more room in the database than as text: 12 bytes each. */
static void
many_parts_are_measured(void **state)
{
	struct fixture *fixture = *state;

	append_numbers(fixture, "progress", "1", 5400);
	append_numbers(fixture, "result", "-1234", 87000);
	jr_out_read(fixture->out, false);
	assert_string_equal(jr_out_warnings(fixture->out), "");
	assert_non_null(jr_out_progress(fixture->out));
	assert_non_null(jr_out_result(fixture->out));
	append_numbers(fixture, "progress", "1", 5500);
	append_numbers(fixture, "result", "1", 88000);
	jr_out_read(fixture->out, true);
	expect_warning(
	    fixture, "line 3 of JOBRUN_OUT: progress has too many values: it would take more than 65536 bytes");
	expect_warning(fixture, "line 4 of JOBRUN_OUT: it would take more than 1049600 bytes in the database");
}

/* So do a few numbers with an exponent, when the database prints them: the next claim gets the checkpoint as text. */
static void
what_postgresql_would_print_is_measured(void **state)
{
	struct fixture *fixture = *state;

	append_numbers(fixture, "checkpoint", "1e-15999", 8000);
	append_numbers(fixture, "result", "-1E+300", 4000);
	append_numbers(fixture, "progress", "1e-15999", 5);
	jr_out_read(fixture->out, true);
	expect(jr_out_checkpoint(fixture->out), NULL);
	expect(jr_out_result(fixture->out), NULL);
	expect(jr_out_progress(fixture->out), NULL);
	expect_warning(fixture, "line 1 of JOBRUN_OUT: it is longer than 1048576 bytes as PostgreSQL prints it");
	expect_warning(fixture, "line 2 of JOBRUN_OUT: it is longer than 1048576 bytes as PostgreSQL prints it");
	expect_warning(fixture, "line 3 of JOBRUN_OUT: progress is longer than 65536 bytes as PostgreSQL prints it");
}

static void
some_long_numbers_are_taken(void **state)
{
	struct fixture *fixture = *state;

	append_numbers(fixture, "checkpoint", "1e-15999", 65);
	append_numbers(fixture, "progress", "1e-15999", 4);
	jr_out_read(fixture->out, true);
	assert_string_equal(jr_out_warnings(fixture->out), "");
	assert_non_null(jr_out_checkpoint(fixture->out));
	assert_non_null(jr_out_progress(fixture->out));
}

static void
a_file_that_is_written_anew_is_read_anew(void **state)
{
	struct fixture *fixture = *state;

	/* Longer, shorter, of the same length. */
	replace(fixture, "{\"progress\": 9}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 9}");
	replace(fixture, "{\"progress\": 10}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 10}");
	replace(fixture, "{\"progress\": 1}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
	replace(fixture, "{\"progress\": 2}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_progress(fixture->out), "{\"progress\": 2}");
	replace(fixture, "{\"progress\": 3");
	jr_out_read(fixture->out, false);
	replace(fixture, "{\"result\": 4}");
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), "{\"progress\": 2}");
	expect(jr_out_result(fixture->out), "{\"result\": 4}");
	assert_string_equal(jr_out_warnings(fixture->out), "");
}

/* The same size and the same end: only the time of the change tells. */
static void
one_that_differs_far_from_its_end_is_read_anew(void **state)
{
	struct fixture *fixture = *state;
	struct timespec span = {.tv_nsec = 30000000}; /* more than a tick of the kernel's clock */
	char *line = jr_xasprintf("{\"progress\": 1,%400s\"result\": 2}", "");

	replace(fixture, line);
	jr_out_read(fixture->out, false);
	(void)nanosleep(&span, NULL);
	line[13] = '7';
	replace(fixture, line);
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), line);
	free(line);
}

static void
of_much_at_once_the_end_is_read(void **state)
{
	struct fixture *fixture = *state;
	char *block = jr_xmalloc(1048577);

	for (size_t i = 0; i < 1048576; i++)
		block[i] = i % 64 == 63 ? '\n' : ' ';
	block[1048576] = '\0';
	append(fixture, "{\"result\": 1}\n");
	for (int i = 0; i < 10; i++)
		append(fixture, block);
	append(fixture, "{\"progress\": 1}\n");
	jr_out_read(fixture->out, false);
	expect(jr_out_result(fixture->out), NULL);
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
	expect_warning(fixture, "more than 4 MiB at once");
	append(fixture, "bad\n");
	jr_out_read(fixture->out, true);
	expect_warning(fixture, "\na line of JOBRUN_OUT: not JSON");
	free(block);
}

static void
exactly_what_may_be_read_at_once_is_read_whole(void **state)
{
	struct fixture *fixture = *state;
	char *block = jr_xmalloc(JR_OUT_READ_MAX + 1);

	memset(block, '\n', JR_OUT_READ_MAX);
	memcpy(block, "{\"result\": 1}", 13);
	block[JR_OUT_READ_MAX] = '\0';
	append(fixture, block);
	jr_out_read(fixture->out, false);
	expect(jr_out_result(fixture->out), "{\"result\": 1}");
	/* More than that again, the first line beginning exactly where reading begins. */
	append(fixture, "\n\n\n");
	memcpy(block, "{\"result\": 2}", 13);
	append(fixture, block);
	jr_out_read(fixture->out, true);
	expect(jr_out_result(fixture->out), "{\"result\": 2}");
	expect_warning(fixture, "more than 4 MiB at once");
	free(block);
}

static void
a_hole_of_a_terabyte_is_no_matter(void **state)
{
	struct fixture *fixture = *state;

	if (truncate(jr_out_path(fixture->out), (off_t)1 << 40) < 0)
		skip();
	append(fixture, "\n{\"progress\": 1}\n");
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
}

static void
news_are_told_once(void **state)
{
	struct fixture *fixture = *state;
	const char *progress, *checkpoint;

	append(fixture, "{\"progress\": 1}\n{\"checkpoint\": 1}\n{\"result\": 1}\n");
	jr_out_read(fixture->out, false);
	jr_out_take_changes(fixture->out, &progress, &checkpoint);
	expect(progress, "{\"progress\": 1}");
	expect(checkpoint, "{\"checkpoint\": 1}");
	append(fixture, "{\"progress\": 1}\n"); /* the same again is nothing new */
	jr_out_read(fixture->out, false);
	jr_out_take_changes(fixture->out, &progress, &checkpoint);
	expect(progress, NULL);
	expect(checkpoint, NULL);
	append(fixture, "{\"progress\": 12}\n{\"progress\": 1}\n");
	append(fixture, "{\"checkpoint\": 12}\n");
	jr_out_read(fixture->out, true);
	jr_out_take_changes(fixture->out, &progress, &checkpoint);
	expect(progress, "{\"progress\": 1}");
	expect(checkpoint, "{\"checkpoint\": 12}");
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_last_line_of_each_kind_counts),
	    TEST(one_line_may_say_several_things),
	    TEST(the_text_is_kept_to_the_last_digit),
	    TEST(a_line_may_come_in_pieces),
	    cmocka_unit_test(what_is_not_understood_is_a_warning_that_names_it),
	    TEST(a_nul_byte_is_a_warning),
	    TEST(warnings_are_ten_and_a_count),
	    TEST(after_ten_warnings_lines_are_taken_and_counted_as_before),
	    cmocka_unit_test(sizes_have_limits),
	    TEST(many_parts_are_measured),
	    TEST(what_postgresql_would_print_is_measured),
	    TEST(some_long_numbers_are_taken),
	    TEST(a_file_that_is_written_anew_is_read_anew),
	    TEST(one_that_differs_far_from_its_end_is_read_anew),
	    TEST(of_much_at_once_the_end_is_read),
	    TEST(exactly_what_may_be_read_at_once_is_read_whole),
	    TEST(a_hole_of_a_terabyte_is_no_matter),
	    TEST(news_are_told_once),
	};

	return cmocka_run_group_tests_name("out", tests, NULL, NULL);
}
