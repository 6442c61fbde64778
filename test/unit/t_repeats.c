/*
 * runner: one answer that comes again and again is nonsense; any other answer in between, or none, begins anew.
 */
#include "runner/runner_parts.h"

#include "base/mem.h"
#include "pg/pg_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 100

/* One row of (id, 1), or none for id 0. */
static PGresult *
answer(int id)
{
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	char name[] = "x", text[24];
	PGresAttDesc columns[2] = {{.name = name}, {.name = name}};

	assert_true(PQsetResultAttrs(result, 2, columns));
	snprintf(text, sizeof(text), "%d", id);
	if (id != 0)
		assert_true(PQsetvalue(result, 0, 0, text, (int)strlen(text)) && PQsetvalue(result, 0, 1, name, 1));
	return result;
}

static void
set_up(struct jr_runner *runner, struct jr_err *err)
{
	*err = (struct jr_err){.msg = ""};
	*runner = (struct jr_runner){.core = {.err = err}};
}

/* How many of `times` answers are refused. */
static int
refused(struct jr_runner *runner, const char *statement, int id, int times)
{
	PGresult *result = answer(id);
	int count = 0;

	for (int i = 0; i < times; i++)
		count += jr_runner_repeats(runner, &runner->adopt.repeat, statement, result);
	PQclear(result);
	return count;
}

static void
test_limit(void **state)
{
	static const char *const statements[] = {"claim", "adopt", "fire", "reclaim", "resolve"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(statements); i++) {
		struct jr_runner runner;
		struct jr_err err;

		set_up(&runner, &err);
		assert_int_equal(refused(&runner, statements[i], 7, MOST - 1), 0);
		assert_false(runner.core.draining);
		assert_int_equal(refused(&runner, statements[i], 7, 1), 1);
		assert_true(runner.core.draining);
		assert_int_equal(runner.core.status, JR_E_BUG);
		assert_int_equal(err.code, JR_E_BUG);
		assert_int_equal(strncmp(err.msg, statements[i], strlen(statements[i])), 0);
		assert_non_null(strstr(err.msg, " gave the same rows 100 times in a row: please report this"));
	}
}

static void
test_others_between(void **state)
{
	struct jr_runner runner;
	struct jr_err err;

	(void)state;
	set_up(&runner, &err);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(refused(&runner, "adopt", 7, MOST - 1), 0);
		assert_int_equal(refused(&runner, "adopt", i % 2 == 0 ? 8 : 0, 1), 0);
	}
	assert_int_equal(refused(&runner, "adopt", 0, 3 * MOST), 0);
	assert_false(jr_runner_repeats(&runner, &runner.adopt.repeat, "adopt", NULL));
	assert_false(runner.core.draining);
}

/* Each statement is counted by itself. */
static void
test_each_by_itself(void **state)
{
	struct jr_runner runner;
	struct jr_err err;
	PGresult *result = answer(7);

	(void)state;
	set_up(&runner, &err);
	for (int i = 0; i < MOST - 1; i++) {
		assert_false(jr_runner_repeats(&runner, &runner.claim.repeat, "claim", result));
		assert_false(jr_runner_repeats(&runner, &runner.settle.resolve_repeat, "resolve", result));
	}
	assert_true(jr_runner_repeats(&runner, &runner.claim.repeat, "claim", result));
	PQclear(result);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_others_between),
	    cmocka_unit_test(test_each_by_itself),
	};

	return cmocka_run_group_tests_name("repeats", tests, NULL, NULL);
}
