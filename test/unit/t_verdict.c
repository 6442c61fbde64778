/*
 * verdict: the outcome contract row by row, and what the lists of a handler change about it.
 */
#include "base/mem.h"
#include "handler/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define EXIT(n) ((n) << 8)

static const struct jr_rules none;

static void
add(struct jr_codes *codes, bool *set, const char *list)
{
	*set = true;
	while (*list != '\0') {
		size_t len = strcspn(list, " ");

		codes->items = jr_xrealloc(codes->items, codes->count + 1, sizeof(*codes->items));
		codes->items[codes->count++] = jr_xmemdup0(list, len);
		list += len + strspn(list + len, " ");
	}
}

/* Codes divided by blanks; NULL: not set, "": an empty list. */
static struct jr_rules
rules_of(const char *give_up, const char *later)
{
	struct jr_rules rules = {0};

	if (give_up != NULL)
		add(&rules.give_up, &rules.give_up_set, give_up);
	if (later != NULL)
		add(&rules.later, &rules.later_set, later);
	return rules;
}

static void
every_exit_status(void **state)
{
	(void)state;
	for (int i = 0; i < 256; i++) {
		enum jr_verdict expected = i == 0 ? JR_DONE : i == 75 ? JR_LATER : i == 65 ? JR_GIVE_UP : JR_FAIL;

		assert_int_equal(jr_verdict_of_exit(&none, EXIT(i)), expected);
	}
	for (int signo = 1; signo < 65; signo++)
		assert_int_equal(jr_verdict_of_exit(&none, signo), JR_FAIL);
}

static void
every_http_status(void **state)
{
	(void)state;
	for (int i = 100; i < 600; i++) {
		bool is_given_up = i == 400 || i == 410 || i == 413 || i == 422;
		enum jr_verdict bare = is_given_up ? JR_GIVE_UP : i == 429 ? JR_LATER : JR_FAIL;

		assert_int_equal(jr_verdict_of_http(&none, i, false), bare);
		assert_int_equal(jr_verdict_of_http(&none, i, true), i == 503 ? JR_LATER : bare);
	}
}

static void
sqlstates(void **state)
{
	static const struct {
		const char *sqlstate;
		enum jr_verdict sent, not_sent;
	} cases[] = {
	    {"40001", JR_LATER, JR_LATER}, /* serialization_failure */
	    {"40P01", JR_LATER, JR_LATER}, /* deadlock_detected */
	    {"40000", JR_LATER, JR_LATER},
	    {"53000", JR_LATER, JR_LATER},
	    {"53100", JR_LATER, JR_LATER}, /* disk_full */
	    {"53300", JR_LATER, JR_LATER}, /* too_many_connections */
	    {"55P03", JR_LATER, JR_LATER}, /* lock_not_available */
	    {"55000", JR_FAIL, JR_FAIL},
	    {"57P03", JR_LATER, JR_LATER}, /* cannot_connect_now */
	    {"57014", JR_FAIL, JR_FAIL},   /* query_canceled */
	    {"JR075", JR_LATER, JR_LATER},
	    {"JR065", JR_GIVE_UP, JR_GIVE_UP},
	    {"JR001", JR_FAIL, JR_FAIL},
	    {"22012", JR_GIVE_UP, JR_GIVE_UP}, /* division_by_zero */
	    {"22P02", JR_GIVE_UP, JR_GIVE_UP}, /* invalid_text_representation */
	    {"08000", JR_FAIL, JR_LATER},
	    {"08001", JR_FAIL, JR_LATER},
	    {"08006", JR_FAIL, JR_LATER},
	    {"57P01", JR_FAIL, JR_LATER}, /* admin_shutdown */
	    {"57P02", JR_FAIL, JR_FAIL},  /* crash_shutdown */
	    {"23505", JR_FAIL, JR_FAIL},
	    {"42P01", JR_FAIL, JR_FAIL},
	    {"P0001", JR_FAIL, JR_FAIL},
	    {"XX000", JR_FAIL, JR_FAIL},
	    {"25P02", JR_FAIL, JR_FAIL},
	    {"", JR_FAIL, JR_FAIL},
	    {"4000", JR_FAIL, JR_FAIL}, /* not an SQLSTATE */
	    {"400011", JR_FAIL, JR_FAIL},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		if (jr_verdict_of_sqlstate(&none, cases[i].sqlstate, true) != cases[i].sent ||
		    jr_verdict_of_sqlstate(&none, cases[i].sqlstate, false) != cases[i].not_sent)
			fail_msg("%s", cases[i].sqlstate);
	}
}

static void
lists_of_exit_codes_take_the_place_of_the_tables(void **state)
{
	static const struct {
		const char *give_up, *later;
		int status;
		enum jr_verdict verdict;
	} cases[] = {
	    {"2 3", NULL, EXIT(2), JR_GIVE_UP},
	    {"2 3", NULL, EXIT(3), JR_GIVE_UP},
	    {"2 3", NULL, EXIT(65), JR_FAIL},  /* it was replaced */
	    {"2 3", NULL, EXIT(75), JR_LATER}, /* this one was not */
	    {"2 3", NULL, EXIT(23), JR_FAIL},
	    {NULL, "2", EXIT(2), JR_LATER},
	    {NULL, "2", EXIT(75), JR_FAIL},
	    {NULL, "2", EXIT(65), JR_GIVE_UP},
	    {"", "", EXIT(65), JR_FAIL},
	    {"", "", EXIT(75), JR_FAIL},
	    {"", NULL, EXIT(65), JR_FAIL},
	    {"", NULL, EXIT(75), JR_LATER},
	    {"75", NULL, EXIT(75), JR_GIVE_UP}, /* its own word against the table's */
	    {NULL, "65", EXIT(65), JR_LATER},
	    {"75", "65", EXIT(75), JR_GIVE_UP},
	    {"75", "65", EXIT(65), JR_LATER},
	    {"0", "0", EXIT(0), JR_DONE}, /* whatever is said */
	    {"137 9", "137 9", SIGKILL, JR_FAIL},
	    {"255", NULL, EXIT(255), JR_GIVE_UP},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		struct jr_rules rules = rules_of(cases[i].give_up, cases[i].later);

		if (jr_verdict_of_exit(&rules, cases[i].status) != cases[i].verdict)
			fail_msg("case %zu", i);
		jr_rules_release(&rules);
		assert_null(rules.give_up.items);
		assert_false(rules.give_up_set);
	}
}

static void
lists_of_http_statuses_take_the_place_of_the_tables(void **state)
{
	static const struct {
		const char *give_up, *later;
		int status;
		enum jr_verdict bare, with_retry_after;
	} cases[] = {
	    {NULL, "503 500", 503, JR_LATER, JR_LATER}, /* no condition any more */
	    {NULL, "503 500", 500, JR_LATER, JR_LATER},
	    {NULL, "503 500", 429, JR_FAIL, JR_FAIL},
	    {NULL, "503 500", 422, JR_GIVE_UP, JR_GIVE_UP},
	    {"404", NULL, 404, JR_GIVE_UP, JR_GIVE_UP},
	    {"404", NULL, 410, JR_FAIL, JR_FAIL},
	    {"404", NULL, 503, JR_FAIL, JR_LATER},
	    {"503", NULL, 503, JR_GIVE_UP, JR_GIVE_UP},
	    {NULL, "", 429, JR_FAIL, JR_FAIL},
	    {NULL, "", 503, JR_FAIL, JR_FAIL},
	    {"", NULL, 400, JR_FAIL, JR_FAIL},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		struct jr_rules rules = rules_of(cases[i].give_up, cases[i].later);

		if (jr_verdict_of_http(&rules, cases[i].status, false) != cases[i].bare ||
		    jr_verdict_of_http(&rules, cases[i].status, true) != cases[i].with_retry_after)
			fail_msg("case %zu", i);
		jr_rules_release(&rules);
	}
}

static void
lists_of_sqlstates_take_the_place_of_the_tables(void **state)
{
	static const struct {
		const char *give_up, *later;
		const char *sqlstate;
		enum jr_verdict sent, not_sent;
	} cases[] = {
	    /* Said by the handler: whether it was sent or not. */
	    {NULL, "08 57P01", "08006", JR_LATER, JR_LATER},
	    {NULL, "08 57P01", "57P01", JR_LATER, JR_LATER},
	    {NULL, "08 57P01", "40001", JR_FAIL, JR_FAIL},
	    {"08006", NULL, "08006", JR_GIVE_UP, JR_GIVE_UP},
	    {"23", NULL, "23505", JR_GIVE_UP, JR_GIVE_UP},
	    {"23", NULL, "22012", JR_FAIL, JR_FAIL},
	    /* An exact code goes before a class, on either side. */
	    {"40001", "40", "40001", JR_GIVE_UP, JR_GIVE_UP},
	    {"40001", "40", "40P01", JR_LATER, JR_LATER},
	    {"23", "23505", "23505", JR_LATER, JR_LATER},
	    {"23", "23505", "23503", JR_GIVE_UP, JR_GIVE_UP},
	    {"40001", NULL, "40001", JR_GIVE_UP, JR_GIVE_UP},
	    {"40001", NULL, "40P01", JR_LATER, JR_LATER},
	    {"57", NULL, "57P03", JR_LATER, JR_LATER},
	    {"57", NULL, "57014", JR_GIVE_UP, JR_GIVE_UP},
	    {"57", NULL, "57P01", JR_GIVE_UP, JR_LATER},
	    /* Of two classes the handler's own. */
	    {"40", NULL, "40001", JR_GIVE_UP, JR_GIVE_UP},
	    {NULL, "22", "22012", JR_LATER, JR_LATER},
	    {"", "", "40001", JR_FAIL, JR_FAIL},
	    {"", "", "22012", JR_FAIL, JR_FAIL},
	    {"", "", "08006", JR_FAIL, JR_FAIL},
	    {"JR", NULL, "JR075", JR_LATER, JR_LATER},
	    {"JR", NULL, "JR001", JR_GIVE_UP, JR_GIVE_UP},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		struct jr_rules rules = rules_of(cases[i].give_up, cases[i].later);

		if (jr_verdict_of_sqlstate(&rules, cases[i].sqlstate, true) != cases[i].sent ||
		    jr_verdict_of_sqlstate(&rules, cases[i].sqlstate, false) != cases[i].not_sent)
			fail_msg("case %zu", i);
		jr_rules_release(&rules);
	}
}

static void
expect_text(int status, const char *output, const char *code, const char *error)
{
	char *found_code = jr_code_of_exit(status);
	char *found_error = jr_error_of_exit(status, output);

	assert_string_equal(found_code, code);
	assert_string_equal(found_error, error);
	free(found_code);
	free(found_error);
}

static void
codes_and_errors(void **state)
{
	(void)state;
	expect_text(EXIT(1), NULL, "exit:1", "exit 1");
	expect_text(EXIT(255), "", "exit:255", "exit 255");
	expect_text(EXIT(65), "first\nno such order\n\n", "exit:65", "exit 65: no such order");
	expect_text(SIGSEGV, NULL, "signal:SEGV", "killed by SIGSEGV");
	expect_text(SIGSEGV | 0x80, NULL, "signal:SEGV", "killed by SIGSEGV"); /* with a core */
	expect_text(SIGXCPU, "x", "signal:XCPU", "killed by SIGXCPU: x");
	expect_text(SIGKILL, "x\n", "signal:KILL", "killed by SIGKILL: x");
	expect_text(40, "x", "signal:40", "killed by signal 40: x");
	expect_text(64, NULL, "signal:64", "killed by signal 64");
}

static void
a_long_last_line_is_cut(void **state)
{
	char *output = jr_xmalloc(60001);
	char *error;

	(void)state;
	memset(output, 'x', 60000);
	output[60000] = '\0';
	error = jr_error_of_exit(EXIT(1), output);
	assert_in_range(strlen(error), 1000, JR_ERROR_MAX);
	free(error);
	free(output);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_exit_status),
	    cmocka_unit_test(every_http_status),
	    cmocka_unit_test(sqlstates),
	    cmocka_unit_test(lists_of_exit_codes_take_the_place_of_the_tables),
	    cmocka_unit_test(lists_of_http_statuses_take_the_place_of_the_tables),
	    cmocka_unit_test(lists_of_sqlstates_take_the_place_of_the_tables),
	    cmocka_unit_test(codes_and_errors),
	    cmocka_unit_test(a_long_last_line_is_cut),
	};

	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
