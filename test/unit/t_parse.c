/* parse: exact numbers, helpful refusals, nothing written on failure. */
#include "base/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAY INT64_C(86400000)

static void
integers_in_range_are_taken(void **state)
{
	static const struct {
		const char *s;
		int64_t value;
	} good[] = {{"0", 0}, {"-0", 0}, {"7", 7}, {"-7", -7}, {"007", 7}, {"9223372036854775807", INT64_MAX},
	    {"-9223372036854775808", INT64_MIN}};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(good); i++) {
		struct jr_err err;
		int64_t value = 99;

		assert_true(jr_parse_int("--n", good[i].s, INT64_MIN, INT64_MAX, &value, &err));
		assert_int_equal(value, good[i].value);
	}
}

static void
check_bad_int(const char *s, int64_t min, int64_t max, const char *message)
{
	struct jr_err err;
	int64_t value = 99;

	assert_false(jr_parse_int("--jobs", s, min, max, &value, &err));
	assert_string_equal(err.msg, message);
	assert_int_equal(err.code, JR_E_USAGE);
	assert_int_equal(value, 99);
}

static void
what_is_no_integer_is_refused(void **state)
{
	static const char *const bad[] = {"", "-", "+5", "5 ", " 5", "5x", "0x10", "1e3", "1.0", "--5", "\n"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		struct jr_err err;
		int64_t value = 99;

		assert_false(jr_parse_int("--jobs", bad[i], 0, 10, &value, &err));
		assert_non_null(strstr(err.msg, "is not a whole number"));
		assert_int_equal(value, 99);
	}
	check_bad_int("abc", 1, 9, "--jobs: \"abc\" is not a whole number");
}

static void
integers_out_of_range_name_the_range(void **state)
{
	(void)state;
	check_bad_int("0", 1, 1024, "--jobs: \"0\" is out of range, expected 1 to 1024");
	check_bad_int("1025", 1, 1024, "--jobs: \"1025\" is out of range, expected 1 to 1024");
	check_bad_int("-1", 0, INT64_MAX, "--jobs: \"-1\" is out of range, expected at least 0");
	check_bad_int("9223372036854775808", 0, INT64_MAX,
	    "--jobs: \"9223372036854775808\" is out of range, expected 0 to 9223372036854775807");
	check_bad_int(
	    "-9223372036854775809", -5, 5, "--jobs: \"-9223372036854775809\" is out of range, expected -5 to 5");
	check_bad_int(
	    "99999999999999999999999", 0, 5, "--jobs: \"99999999999999999999999\" is out of range, expected 0 to 5");
}

static void
durations_are_exact(void **state)
{
	static const struct {
		const char *s;
		int64_t ms;
	} good[] = {{"0", 0}, {"0s", 0}, {"1ms", 1}, {"350ms", 350}, {"90s", 90000}, {"5m", 300000}, {"1h30m", 5400000},
	    {"1.5h", 5400000}, {"1.50h", 5400000}, {"0.1s", 100}, {"0.3s", 300}, {"0.001s", 1}, {"1.000ms", 1},
	    {"2d", 2 * DAY}, {"1w2d3h4m5s6ms", 9 * DAY + 11045006}, {"0.333h", 1198800}, {"0.00001d", 864},
	    {"0.07m", 4200}, {"1.1s", 1100}, {"36500d", 36500 * DAY}, {"1h0.5m", 3630000},
	    {"0.5000000000000000000000000s", 500}, {"0005s", 5000}, {"0.0000015625w", 945}};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(good); i++) {
		struct jr_err err;
		int64_t ms = -1;

		if (!jr_parse_duration("--in", good[i].s, &ms, &err))
			fail_msg("%s", err.msg);
		assert_int_equal(ms, good[i].ms);
	}
}

static void
bad_durations_are_refused_with_a_helpful_line(void **state)
{
	static const char *const bad[][2] = {
	    {"-5m", "--in: \"-5m\" is negative; durations count forward"},
	    {"-.5m", "--in: \"-.5m\" is negative; durations count forward"},
	    {"-0", "--in: \"-0\" is negative; durations count forward"},
	    {"5", "--in: \"5\" has no unit; write 5s or 5m"},
	    {"1.5", "--in: \"1.5\" has no unit; write 1.5s or 1.5m"},
	    {"1h30", "--in: \"1h30\" has no unit; write 30s or 30m"},
	    {"00", "--in: \"00\" has no unit; write 00s or 00m"},
	    {"1h0", "--in: \"1h0\" has no unit; write 0s or 0m"},
	    {"5min", "--in: \"5min\" has an unknown unit \"min\"; the units are ms, s, m, h, d and w"},
	    {"5M", "--in: \"5M\" has an unknown unit \"M\"; the units are ms, s, m, h, d and w"},
	    {"5aaaaaaaaaaaaaaaaaaaaaaaaaa",
		"--in: \"5aaaaaaaaaaaaaaaaaaaaaaaaaa\" has an unknown unit \"aaaaaaaaaaaaaaaaaaaa\"; the units are ms, s, m, h, d and w"},
	    {"30m1h", "--in: \"30m1h\" has its units out of order; the largest comes first, each once"},
	    {"1m1m", "--in: \"1m1m\" has its units out of order; the largest comes first, each once"},
	    {"0.0001s", "--in: \"0.0001s\" is not a whole number of milliseconds"},
	    {"0.5ms", "--in: \"0.5ms\" is not a whole number of milliseconds"},
	    {"0.00000000001w", "--in: \"0.00000000001w\" is not a whole number of milliseconds"},
	    {"36501d", "--in: \"36501d\" is too long; the longest duration is 36500d (100 years)"},
	    {"36500d1ms", "--in: \"36500d1ms\" is too long; the longest duration is 36500d (100 years)"},
	    {"36500.5d", "--in: \"36500.5d\" is too long; the longest duration is 36500d (100 years)"},
	    {"9223372036854775807ms",
		"--in: \"9223372036854775807ms\" is too long; the longest duration is 36500d (100 years)"},
	    {"9223372036854775807w",
		"--in: \"9223372036854775807w\" is too long; the longest duration is 36500d (100 years)"},
	    {"99999999999999999999s",
		"--in: \"99999999999999999999s\" is too long; the longest duration is 36500d (100 years)"},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		struct jr_err err;
		int64_t ms = 99;

		assert_false(jr_parse_duration("--in", bad[i][0], &ms, &err));
		assert_string_equal(err.msg, bad[i][1]);
		assert_int_equal(err.code, JR_E_USAGE);
		assert_int_equal(ms, 99);
	}
}

static void
what_is_no_duration_is_refused(void **state)
{
	static const char *const bad[] = {"", " ", "s", "m5", " 5m", "5m ", "1h 30m", "1.h", ".5h", "1..5h", "1.5.5h",
	    "5m-1s", "+5m", "-", "1,5h", "5\xC2\xB5s", "99999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		struct jr_err err;
		int64_t ms = 99;

		assert_false(jr_parse_duration("--in", bad[i], &ms, &err));
		if (strstr(err.msg, "is not a duration; write it like 90s, 5m, 1h30m or 2d, without blanks") == NULL)
			fail_msg("\"%s\": %s", bad[i], err.msg);
		assert_int_equal(ms, 99);
	}
}

static void
durations_are_shown_in_two_units_at_most(void **state)
{
	static const struct {
		int64_t ms;
		const char *s;
	} table[] = {{0, "0s"}, {1, "1ms"}, {350, "350ms"}, {1000, "1s"}, {1500, "1s 500ms"}, {20000, "20s"},
	    {90000, "1m 30s"}, {90500, "1m 30s"}, {3600000, "1h"}, {3605000, "1h"}, {2 * DAY + 10800000, "2d 3h"},
	    {21 * DAY, "21d"}, {-20000, "-20s"}, {INT64_MIN, "-106751991167d 7h"}};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(table); i++) {
		char *s = jr_format_duration(table[i].ms);

		assert_string_equal(s, table[i].s);
		free(s);
	}
}

static void
names_follow_their_rule(void **state)
{
	static const char sixty_three[] = "a23456789012345678901234567890123456789012345678901234567890123";
	static const char *const good[] = {
	    "a", "0", "send_mail", "send-mail.v2", "jobrun.prune", "a.sqlx", "json", sixty_three};
	static const char *const bad[] = {"", "Send", "send mail", "-a", ".a", "_a", "a/b", "a\n", "\xC3\xA4",
	    "a234567890123456789012345678901234567890123456789012345678901234"};
	struct jr_err err;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(good); i++) {
		assert_true(jr_parse_job_type("TYPE", good[i], &err));
		assert_true(jr_parse_definition("NAME", good[i], &err));
		assert_true(jr_parse_queue("--queue", good[i], &err));
	}
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		assert_false(jr_parse_job_type("TYPE", bad[i], &err));
		assert_non_null(strstr(err.msg, "is not a job type: 1 to 63 of a-z"));
		assert_false(jr_parse_definition("NAME", bad[i], &err));
		assert_non_null(strstr(err.msg, "is not a definition name: 1 to 63 of a-z"));
		assert_false(jr_parse_queue("--queue", bad[i], &err));
		assert_non_null(strstr(err.msg, "is not a queue name: 1 to 63 of a-z"));
		assert_int_equal(err.code, JR_E_USAGE);
	}
}

static void
job_types_do_not_end_like_handler_files(void **state)
{
	struct jr_err err;

	(void)state;
	assert_false(jr_parse_job_type("TYPE", "report.sql", &err));
	assert_non_null(strstr(err.msg, "must not end in .sql or .json"));
	assert_false(jr_parse_job_type("TYPE", "report.json", &err));
	assert_true(jr_parse_queue("--queue", "report.sql", &err));
	assert_true(jr_parse_queue("--queue", "report.json", &err));
}

static void
keys_are_bounded(void **state)
{
	char key[JR_KEY_MAX + 2];
	struct jr_err err;

	(void)state;
	memset(key, 'k', sizeof(key));
	key[JR_KEY_MAX + 1] = '\0';
	assert_false(jr_parse_key("--lock", key, &err));
	assert_string_equal(err.msg, "--lock: 256 bytes; from 1 to 255 are possible");
	assert_int_equal(err.code, JR_E_USAGE);
	key[JR_KEY_MAX] = '\0';
	assert_true(jr_parse_key("--lock", key, &err));
	assert_true(jr_parse_key("--lock", " ", &err));
	assert_false(jr_parse_key("--lock", "", &err));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers_in_range_are_taken),
	    cmocka_unit_test(what_is_no_integer_is_refused),
	    cmocka_unit_test(integers_out_of_range_name_the_range),
	    cmocka_unit_test(durations_are_exact),
	    cmocka_unit_test(bad_durations_are_refused_with_a_helpful_line),
	    cmocka_unit_test(what_is_no_duration_is_refused),
	    cmocka_unit_test(durations_are_shown_in_two_units_at_most),
	    cmocka_unit_test(names_follow_their_rule),
	    cmocka_unit_test(job_types_do_not_end_like_handler_files),
	    cmocka_unit_test(keys_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
