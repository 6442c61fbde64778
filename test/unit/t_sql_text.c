/* handler_sql_text: what a statement is given, what it answers, how that is read. */
#include "handler/handler_sql_parts.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUNS 3

/* Borrowed texts. */
struct group {
	struct jr_run runs[RUNS];
	struct jr_handler_sql_work works[RUNS], *list[RUNS];
};

static char *mutable(const char *text)
{
	return (char *)(uintptr_t)text; /* never written to */
}

static void
make_group(struct group *group)
{
	static const char *const payloads[RUNS] = {"{\"a\":  1.50}", "null", "[\"\\u00e4\\\"\"]"};
	static const char *const keys[RUNS] = {"plain", "\"quoted\" \\ \n", "\xc3\xa4\xff"};

	memset(group, 0, sizeof(*group));
	for (size_t i = 0; i < RUNS; i++) {
		group->runs[i] = (struct jr_run){.id = (int64_t)i + 41,
		    .claim_seq = 7,
		    .attempts = (int64_t)i + 1,
		    .key = mutable(keys[i]),
		    .payload = mutable(payloads[i])};
		group->works[i].run = &group->runs[i];
		group->list[i] = &group->works[i];
	}
}

static void
release_group(struct group *group)
{
	for (size_t i = 0; i < RUNS; i++)
		jr_handler_sql_end_release(&group->works[i].end);
}

static void
payloads_are_put_in_untouched(void **state)
{
	struct group group;
	char *text;

	(void)state;
	make_group(&group);
	text = jr_handler_sql_group_payload(group.list, RUNS);
	assert_string_equal(text,
	    "[{\"run_id\":41,\"key\":\"plain\",\"attempt\":1,\"payload\":{\"a\":  1.50}},{\"run_id\":42,\"key\":\"\\\"quoted\\\" \\\\ \\n\",\"attempt\":2,\"payload\":null},{\"run_id\":43,\"key\":\"\xc3\xa4\xef\xbf\xbd\",\"attempt\":3,\"payload\":[\"\\u00e4\\\"\"]}]");
	free(text);
	text = jr_handler_sql_group_payload(group.list, 0);
	assert_string_equal(text, "[]");
	free(text);
}

/* The largest group there can be fits. */
static void
a_full_group_is_not_cut(void **state)
{
	struct jr_run run = {.id = INT64_MAX, .attempts = INT64_MAX};
	struct jr_handler_sql_work work = {.run = &run}, **list;
	char key[JR_KEY_MAX + 1], *payload = jr_xmalloc(8400), *text;

	(void)state;
	memset(key, '\x01', JR_KEY_MAX);
	key[JR_KEY_MAX] = '\0';
	memset(payload, '1', 8399);
	payload[8399] = '\0';
	run.key = key;
	run.payload = payload;
	list = jr_xcalloc(JR_BATCH_MAX, sizeof(struct jr_handler_sql_work *));
	for (size_t i = 0; i < JR_BATCH_MAX; i++)
		list[i] = &work;
	text = jr_handler_sql_group_payload(list, JR_BATCH_MAX);
	assert_int_equal(text[strlen(text) - 1], ']');
	assert_int_equal(text[strlen(text) - 2], '}');
	free(text);
	free(list);
	free(payload);
}

static void
settings_of_a_run_of_a_group_and_of_a_rehearsal(void **state)
{
	struct jr_run run = {.id = 5, .claim_seq = 6, .attempts = 7};
	struct jr_handler_sql_params params;

	(void)state;
	jr_handler_sql_params_fill(&params, &run, INT64_MAX, NULL);
	assert_string_equal(params.values[0], "5");
	assert_string_equal(params.values[1], "6");
	assert_string_equal(params.values[2], "7");
	assert_string_equal(params.values[3], "");
	assert_string_equal(params.values[4], "");
	assert_string_equal(params.values[5], "2147483647");
	jr_handler_sql_params_fill(&params, NULL, -1, NULL);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(params.values[i], "");
	for (size_t i = 5; i < JR_COUNT(params.values); i++)
		assert_null(params.values[i]);
	run.id = 0;
	jr_handler_sql_params_fill(&params, &run, 1000, NULL);
	assert_string_equal(params.values[0], "");
	assert_string_equal(params.values[1], "");
	assert_string_equal(params.values[2], "7");
	assert_string_equal(params.values[5], "1000");
}

static void
what_a_runner_leaves_behind_is_kept_for_a_part_of_its_lease(void **state)
{
	static const struct {
		int64_t lease_ms;
		const char *idle, *check;
	} cases[] = {
	    {2000, "1000", "1000"}, {20000, "10000", "2000"}, {90000, "45000", "9000"}, {3600000, "1800000", "10000"}};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		const struct jr_lease lease = {.lease_ms = cases[i].lease_ms};
		struct jr_handler_sql_params params;

		jr_handler_sql_params_fill(&params, NULL, -1, &lease);
		assert_string_equal(params.values[6], cases[i].idle);
		assert_string_equal(params.values[7], cases[i].check);
	}
}

/* rows: cells in order; NULL is NULL. */
static PGresult *
result_of(Oid type, int columns, int rows, const char *const *cells)
{
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc descriptions[4];
	char name[] = "c";

	for (int i = 0; i < columns; i++)
		descriptions[i] = (PGresAttDesc){.name = name, .typid = type, .typlen = -1, .atttypmod = -1};
	assert_true(PQsetResultAttrs(result, columns, descriptions));
	for (int i = 0; i < rows * columns; i++)
		assert_true(PQsetvalue(result, i / columns, i % columns, mutable(cells[i]),
		    cells[i] == NULL ? -1 : (int)strlen(cells[i])));
	return result;
}

static void
check_result(Oid type, int rows, const char *cell, const char *expected)
{
	PGresult *result = result_of(type, 1, rows, &cell);
	struct jr_handler_sql_end end;
	const char *text;

	assert_true(jr_handler_sql_read_result(result, &text, &end));
	if (expected == NULL)
		assert_null(text);
	else
		assert_string_equal(text, expected);
	PQclear(result);
}

static void
only_json_is_a_result(void **state)
{
	char *large = jr_xmalloc(JR_SQL_RESULT_MAX + 2);
	const char *cell = large, *text;
	struct jr_handler_sql_end end;
	PGresult *result;

	(void)state;
	check_result(3802, 1, "{\"a\": 1}", "{\"a\": 1}");
	check_result(114, 1, "[1]", "[1]");
	check_result(25, 1, "[1]", NULL);
	check_result(3802, 1, NULL, NULL);
	check_result(3802, 1, "null", NULL);
	check_result(3802, 0, NULL, NULL);
	memset(large, '1', JR_SQL_RESULT_MAX + 1);
	large[JR_SQL_RESULT_MAX + 1] = '\0';
	result = result_of(3802, 1, 1, &cell);
	assert_false(jr_handler_sql_read_result(result, &text, &end));
	assert_int_equal(end.verdict, JR_FAIL);
	assert_string_equal(end.code, "result-too-large");
	jr_handler_sql_end_release(&end);
	PQclear(result);
	large[JR_SQL_RESULT_MAX] = '\0';
	check_result(3802, 1, large, large);
	result = PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
	assert_true(jr_handler_sql_read_result(result, &text, &end));
	assert_null(text);
	PQclear(result);
	free(large);
}

/* 72 kB as json, 128 MB when it is printed as jsonb. */
static void
json_is_measured_as_it_would_be_printed(void **state)
{
	const size_t count = 8000, each = 9;
	char *text = jr_xmalloc(count * each + 2);
	const char *cell = text, *found;
	struct jr_handler_sql_end end;
	PGresult *result;

	(void)state;
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * each, i == 0 ? "[1e-15999" : ",1e-15999", each);
	memcpy(text + count * each, "]", 2);
	result = result_of(114, 1, 1, &cell);
	assert_false(jr_handler_sql_read_result(result, &found, &end));
	assert_string_equal(end.code, "result-too-large");
	jr_handler_sql_end_release(&end);
	PQclear(result);
	memcpy(text + 65 * each, "]", 2);
	check_result(114, 1, text, text);
	free(text);
}

static void
an_answer_names_those_that_did_not_succeed(void **state)
{
	static const struct {
		const char *word, *code;
		enum jr_verdict verdict;
	} table[] = {
	    {"later", "sqlstate:JR075", JR_LATER},
	    {"LATER", "sqlstate:JR075", JR_LATER},
	    {"give_up", "sqlstate:JR065", JR_GIVE_UP},
	    {"Give Up", "sqlstate:JR065", JR_GIVE_UP},
	    {"fail", "sqlstate:P0001", JR_FAIL},
	    {"done", "", JR_DONE},
	};
	struct group group;

	(void)state;
	make_group(&group);
	for (size_t i = 0; i < JR_COUNT(table); i++) {
		const char *cells[] = {"42", table[i].word, "why\x01"};
		PGresult *result = result_of(25, 3, 1, cells);
		struct jr_handler_sql_end end;

		assert_true(jr_handler_sql_read_answer(result, group.list, RUNS, &end));
		assert_int_equal(group.works[0].end.verdict, JR_DONE);
		assert_int_equal(group.works[1].end.verdict, table[i].verdict);
		assert_string_equal(group.works[1].end.code, table[i].code);
		assert_int_equal(group.works[2].end.verdict, JR_DONE);
		PQclear(result);
	}
	release_group(&group);
}

static void
no_rows_and_no_columns_are_success(void **state)
{
	PGresult *results[] = {PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK), result_of(25, 1, 0, NULL)};
	struct jr_handler_sql_end end;
	struct group group;

	(void)state;
	make_group(&group);
	for (size_t i = 0; i < JR_COUNT(results); i++) {
		assert_true(jr_handler_sql_read_answer(results[i], group.list, RUNS, &end));
		for (size_t j = 0; j < RUNS; j++)
			assert_int_equal(group.works[j].end.verdict, JR_DONE);
		PQclear(results[i]);
	}
}

static void
a_bad_row_refuses_the_whole_answer(void **state)
{
	static const struct {
		const char *cells[4], *line;
	} table[] = {
	    {{"41", "fail", "9", "fail"},
		"row 2 of what the statement returned: no run of this group has the run_id 9 "},
	    {{"41", "fail", NULL, "fail"},
		"row 2 of what the statement returned: no run of this group has the run_id null "},
	    {{"41x", "fail", "42", "fail"},
		"row 1 of what the statement returned: no run of this group has the run_id 41x "},
	    {{"41", "fail", "42", "perhaps"}, "row 2 of what the statement returned: there is no verdict perhaps "},
	    {{"41", NULL, "42", "fail"}, "row 1 of what the statement returned: there is no verdict null "},
	    {{"41", "done", "41", "fail"}, "row 2 of what the statement returned: a second row for run 41 "},
	};
	struct group group;

	(void)state;
	make_group(&group);
	for (size_t i = 0; i < JR_COUNT(table); i++) {
		PGresult *result = result_of(25, 2, 2, table[i].cells);
		struct jr_handler_sql_end end;

		assert_false(jr_handler_sql_read_answer(result, group.list, RUNS, &end));
		assert_int_equal(end.verdict, JR_FAIL);
		assert_string_equal(end.code, "bad-answer");
		assert_memory_equal(end.error, table[i].line, strlen(table[i].line));
		for (size_t j = 0; j < RUNS; j++)
			assert_int_equal(group.works[j].end.verdict, JR_DONE);
		jr_handler_sql_end_release(&end);
		PQclear(result);
	}
}

static void
an_end_has_a_code_and_a_clean_line(void **state)
{
	const struct jr_rules rules = {.give_up_set = false};
	struct jr_err err = {.sqlstate = "", .msg = "gone \xff"};
	struct jr_handler_sql_end end;

	(void)state;
	end = jr_handler_sql_end_of_err(&rules, &err, false);
	assert_int_equal(end.verdict, JR_LATER);
	assert_string_equal(end.code, "sqlstate:08006");
	assert_string_equal(end.error, "gone \xef\xbf\xbd");
	jr_handler_sql_end_release(&end);
	end = jr_handler_sql_end_of_err(&rules, &err, true);
	assert_int_equal(end.verdict, JR_FAIL);
	jr_handler_sql_end_release(&end);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(payloads_are_put_in_untouched),
	    cmocka_unit_test(a_full_group_is_not_cut),
	    cmocka_unit_test(settings_of_a_run_of_a_group_and_of_a_rehearsal),
	    cmocka_unit_test(what_a_runner_leaves_behind_is_kept_for_a_part_of_its_lease),
	    cmocka_unit_test(only_json_is_a_result),
	    cmocka_unit_test(json_is_measured_as_it_would_be_printed),
	    cmocka_unit_test(an_answer_names_those_that_did_not_succeed),
	    cmocka_unit_test(no_rows_and_no_columns_are_success),
	    cmocka_unit_test(a_bad_row_refuses_the_whole_answer),
	    cmocka_unit_test(an_end_has_a_code_and_a_clean_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
