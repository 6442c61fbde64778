/*
 * pg_form and who uses it: for each statement whose answer a runner reads, one with a row too many, a row too few, a
 * column that is missing, a NULL or a wrong type is told from a good one, in words that name statement and column.
 */
#include "pg/pg_form.h"

#include "base/mem.h"
#include "handler/handler_sql_parts.h"
#include "handler/prune.h"
#include "pg/pg_request.h"
#include "runner/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HELD 3 /* runs that a statement names */

/* Of pg_type. */
#define BOOL_OID 16
#define INT8_OID 20
#define TEXT_OID 25

static const struct jr_lease times = {.lease_ms = 90000, .deadline_ms = 5000, .statement_ms = 3000, .lock_ms = 1000};
static const struct jr_runner_facts facts = {.id = 1, .host = "h", .version = "1", .job_types = "{a}"};

static struct jr_run run = {.id = 1, .claim_seq = 1};
static struct jr_run *const runs[HELD] = {&run, &run, &run};

static void
add_start(struct jr_request *request)
{
	jr_queue_add_runner_start(request, &facts, 64, NULL, true);
}

static void
add_seen(struct jr_request *request)
{
	jr_queue_add_runner_seen(request, 1);
}

static void
add_expired(struct jr_request *request)
{
	jr_queue_add_expired(request, &(struct jr_claim_list){0});
}

static void
add_successor(struct jr_request *request)
{
	jr_queue_add_successor(request, 1, 1);
}

static void
add_candidates(struct jr_request *request)
{
	jr_queue_add_candidates(request, &facts, 64);
}

static void
add_claim(struct jr_request *request)
{
	struct jr_candidates candidates = {.count = 0};
	struct jr_cursor cursor = {.set = false};
	const struct jr_claim_size size = {.n = 1, .ahead = HELD - 1, .ahead_types = "{a}"};

	jr_queue_add_claim(request, &facts, &candidates, &cursor, &size, 1, 1);
}

static void
add_claim_job(struct jr_request *request)
{
	jr_queue_add_claim_job(request, &facts, 1, 1, 1);
}

static void
add_exec_claim(struct jr_request *request)
{
	jr_queue_add_exec_claim(request, &facts, "d", 1, -1, "{true}", 1);
}

static void
add_adopt(struct jr_request *request)
{
	jr_queue_add_adopt(request, 1, &(struct jr_claim_list){0}, HELD);
}

static void
add_preview(struct jr_request *request)
{
	struct jr_bound bound;

	jr_queue_bind_preview(&bound, 1, HELD, true);
	jr_request_add(request, bound.sql, bound.count, bound.values);
	jr_request_expect(request, bound.form, bound.least, bound.most);
}

static void
add_claims_void(struct jr_request *request)
{
	jr_queue_add_claims_void(request, 1, 1);
}

static void
add_give_back(struct jr_request *request)
{
	const struct jr_outcome outcome = {.kind = JR_OUT_UNSTARTED};

	jr_queue_add_give_back(request, 1, &(struct jr_claim_list){0}, &outcome);
}

static void
add_heartbeat(struct jr_request *request)
{
	jr_queue_add_heartbeat(request, 1, runs, HELD, 1);
}

static void
add_progress(struct jr_request *request)
{
	struct jr_progress items[HELD] = {{.id = 1}};

	jr_queue_add_progress(request, 1, items, HELD);
}

static void
add_reclaim(struct jr_request *request)
{
	jr_queue_add_reclaim(request, &(struct jr_claim_list){0}, 0, HELD);
}

static void
add_settle(struct jr_request *request)
{
	const struct jr_outcome outcome = {.kind = JR_OUT_SUCCEEDED};
	const struct jr_settlement settlements[HELD] = {
	    {.outcome = &outcome}, {.outcome = &outcome}, {.outcome = &outcome}};

	jr_queue_add_settle(request, settlements, HELD);
}

static void
add_resolve(struct jr_request *request)
{
	jr_queue_add_resolve(request, 1, runs, HELD);
}

static void
add_group(struct jr_request *request)
{
	struct jr_handler_sql_work work = {.run = &run, .outcome = {.kind = JR_OUT_LATER}};
	struct jr_handler_sql_work *const works[HELD] = {&work, &work, &work};

	jr_handler_sql_settle_add_batch(request, works, HELD);
}

/* Of each statement: how many rows it may have. */
static const struct {
	const char *name;
	void (*add)(struct jr_request *request);
	size_t least, most;
} statements[] = {
    {"runner_start", add_start, 0, JR_ROWS_ANY},
    {"runner_seen", add_seen, 1, 1},
    {"backend", jr_queue_add_backend, 1, 1},
    {"successor", add_successor, 1, 1},
    {"unhandled", jr_queue_add_unhandled, 0, JR_ROWS_ANY},
    {"expired", add_expired, 1, 1},
    {"fire_due", jr_queue_add_fire_due, 1, 1},
    {"fire", jr_queue_add_fire, 0, JR_ROWS_ANY},
    {"candidates", add_candidates, 1, JR_ROWS_ANY},
    {"claim", add_claim, 0, HELD},
    {"claim_job", add_claim_job, 0, 1},
    {"exec_claim", add_exec_claim, 0, 1},
    {"adopt", add_adopt, 0, HELD},
    {"preview", add_preview, 0, HELD},
    {"claims_void", add_claims_void, 1, 1},
    {"give_back", add_give_back, 0, JR_ROWS_ANY},
    {"heartbeat", add_heartbeat, HELD, HELD},
    {"progress", add_progress, 0, HELD},
    {"reclaim", add_reclaim, 0, HELD},
    {"settle", add_settle, 0, HELD},
    {"resolve", add_resolve, HELD, HELD},
    {"settle_group", add_group, HELD, HELD},
};

/* What is wrong in an answer; column: the number of it. */
struct fault {
	enum {
		NOTHING,
		IS_MISSING,
		IS_NULL,
		IS_WRONG
	} kind;
	size_t column;
};
static const struct fault none = {.kind = NOTHING};

static void
good_value(const struct jr_form_column *column, char out[64])
{
	if (column->type == JR_COLUMN_TEXT && column->words != NULL)
		snprintf(out, 64, "%.*s", (int)strcspn(column->words + 1, "|"), column->words + 1);
	else if (column->type == JR_COLUMN_BOOL)
		snprintf(out, 64, "t");
	else
		snprintf(out, 64, "-9223372036854775808");
}

static Oid
type_of(const struct jr_form_column *column, bool wrong)
{
	if (column->type == JR_COLUMN_INT)
		return wrong ? BOOL_OID : INT8_OID;
	if (column->type == JR_COLUMN_BOOL)
		return wrong ? TEXT_OID : BOOL_OID;
	return TEXT_OID;
}

static void
set_value(PGresult *result, size_t row, size_t column, const char *text)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text == NULL ? "" : text);
	assert_true(PQsetvalue(result, (int)row, (int)column, copy, text == NULL ? -1 : (int)strlen(text)));
}

/* What is wrong in a value is wrong in the last row. One column more than the form has stands behind it. */
static PGresult *
answer(const struct jr_form *form, size_t rows, const struct fault *fault)
{
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc *columns = jr_xcalloc(form->count + 1, sizeof(*columns));

	for (size_t i = 0; i < form->count; i++) {
		bool mine = fault->column == i;

		columns[i].name = jr_xstrdup(mine && fault->kind == IS_MISSING ? "other" : form->columns[i].name);
		columns[i].typid = type_of(&form->columns[i], mine && fault->kind == IS_WRONG);
	}
	columns[form->count].name = jr_xstrdup("new");
	assert_true(PQsetResultAttrs(result, (int)form->count + 1, columns));
	for (size_t i = 0; i <= form->count; i++)
		free(columns[i].name);
	free(columns);
	for (size_t i = 0; i < rows * form->count; i++) {
		size_t row = i / form->count, column = i % form->count;
		bool bad = fault->column == column && row == rows - 1;
		char text[64];

		good_value(&form->columns[column], text);
		if (bad && fault->kind == IS_WRONG)
			snprintf(text, sizeof(text), "1x");
		set_value(result, row, column, bad && fault->kind == IS_NULL ? NULL : text);
	}
	return result;
}

static struct jr_request *
asked(size_t statement, size_t rows, const struct fault *fault)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, &times, NULL, NULL);

	statements[statement].add(request);
	request->results = jr_xcalloc(request->count, sizeof(PGresult *));
	request->results[request->first] = answer(request->statements[request->first].form, rows, fault);
	return request;
}

/* column NULL: it is the number of rows. */
static void
check_refused(size_t statement, size_t rows, const struct fault *fault, const char *column)
{
	struct jr_request *request = asked(statement, rows, fault);
	struct jr_err err = {.code = JR_E_TEMP};

	assert_false(jr_request_makes_sense(request, &err));
	assert_int_equal(err.code, JR_E_BUG);
	assert_true(jr_pg_is_nonsense(&err));
	assert_non_null(strstr(err.msg, "please report this"));
	assert_non_null(strstr(err.msg, statements[statement].name));
	assert_non_null(strstr(err.msg, column == NULL ? " rows where " : column));
	jr_request_free(request);
}

static void
check_taken(size_t statement, size_t rows, const struct fault *fault)
{
	struct jr_request *request = asked(statement, rows, fault);
	struct jr_err err;

	assert_true(jr_request_makes_sense(request, &err));
	jr_request_free(request);
}

static size_t
some_rows(size_t statement)
{
	return statements[statement].most == JR_ROWS_ANY ? 5 : statements[statement].most;
}

static void
test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(statements); i++) {
		check_taken(i, statements[i].least, &none);
		check_taken(i, some_rows(i), &none);
		if (statements[i].most != JR_ROWS_ANY)
			check_refused(i, statements[i].most + 1, &none, NULL);
		if (statements[i].least > 0)
			check_refused(i, statements[i].least - 1, &none, NULL);
	}
}

static size_t
find(const char *name)
{
	size_t i = 0;

	while (strcmp(statements[i].name, name) != 0)
		i++;
	return i;
}

static const struct jr_form *
form_of(size_t statement)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, &times, NULL, NULL);
	const struct jr_form *form;

	statements[statement].add(request);
	form = request->statements[request->first].form;
	assert_string_equal(form->statement, statements[statement].name);
	jr_request_free(request);
	return form;
}

static void
check_column(size_t statement, size_t number, const struct jr_form_column *column)
{
	size_t rows = some_rows(statement);
	const struct fault missing = {IS_MISSING, number}, null = {IS_NULL, number}, wrong = {IS_WRONG, number};

	check_refused(statement, rows, &missing, column->name);
	if (column->required)
		check_refused(statement, rows, &null, column->name);
	else
		check_taken(statement, rows, &null);
	if (column->type == JR_COLUMN_TEXT && column->words == NULL)
		check_taken(statement, rows, &wrong);
	else
		check_refused(statement, rows, &wrong, column->name);
}

static void
test_columns(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(statements); i++) {
		const struct jr_form *form = form_of(i);

		for (size_t j = 0; j < form->count; j++)
			check_column(i, j, &form->columns[j]);
	}
}

/* What is nearly a word; and numbers of any width are numbers. */
static void
test_values(void **state)
{
	static const struct jr_form_column columns[] = {{"w", JR_COLUMN_TEXT, false, "|one|other|"}};
	static const struct jr_form form = JR_FORM("x", columns);
	static const char *const bad[] = {"", "on", "one|other", "two", "ther", "other ", "|"};
	(void)state;
	for (size_t i = 0; i < JR_COUNT(bad); i++) {
		PGresult *result = answer(&form, 1, &none);
		struct jr_err err;

		assert_true(jr_form_check(&form, result, 1, 1, &err));
		set_value(result, 0, 0, bad[i]);
		assert_false(jr_form_check(&form, result, 1, 1, &err));
		PQclear(result);
	}
}

/* A row of which everything is NULL but this column (and what no form names); -1: nothing is not. */
static void
set_alone(PGresult *result, size_t row, size_t count, int column)
{
	for (size_t i = 0; i < count; i++)
		set_value(result, row, i, (int)i == column ? "7" : NULL);
}

static bool
fits(size_t statement, const PGresult *result)
{
	struct jr_err err;

	return jr_form_check(form_of(statement), result, 0, HELD, &err);
}

#define CLAIM_SEQ 1 /* columns of a claim */
#define QUEUE 3
#define RUN_AT 5

/* Behind the runs of a claim come queues that were left out: any number, but nothing else, and only there. */
static void
test_left_out(void **state)
{
	size_t claim = find("claim");
	const struct jr_form *form = form_of(claim);
	PGresult *result = answer(form, HELD, &none);

	(void)state;
	for (size_t row = HELD; row < HELD + 3; row++)
		set_alone(result, row, form->count, QUEUE);
	assert_true(fits(claim, result));
	assert_int_equal(jr_queue_count_runs(result), HELD);
	assert_int_equal(jr_queue_count_left_out(result), 3);
	assert_string_equal(jr_queue_read_left_out(result, 2), "7");
	set_value(result, HELD + 1, RUN_AT + 1, "7");
	assert_false(fits(claim, result));
	set_alone(result, HELD + 1, form->count, -1);
	assert_false(fits(claim, result));
	set_alone(result, HELD + 1, form->count, 2);
	assert_false(fits(claim, result));
	set_alone(result, HELD + 1, form->count, QUEUE);
	assert_true(fits(claim, result));
	set_alone(result, 0, form->count, QUEUE);
	assert_false(fits(claim, result));
	PQclear(result);
}

/* Behind those comes where to go on, if the claim did not look at all. In vain: nothing was claimed since the head. */
static void
test_goes_on(void **state)
{
	const size_t claim = find("claim"), columns = form_of(claim)->count;
	struct jr_cursor cursor = {.set = false};
	PGresult *result = answer(form_of(claim), 0, &(struct fault){.kind = NOTHING});

	(void)state;
	set_alone(result, 0, columns, QUEUE);
	set_alone(result, 1, columns, QUEUE + 1);
	set_value(result, 1, RUN_AT, "2026-11-26 10:00:00+00");
	assert_false(jr_queue_goes_on(result));
	set_value(result, 1, CLAIM_SEQ, "77");
	assert_true(fits(claim, result) && jr_queue_goes_on(result));
	assert_true(jr_queue_count_runs(result) == 0 && jr_queue_count_left_out(result) == 1);
	jr_queue_read_goes_on(result, &cursor);
	assert_true(cursor.set && cursor.in_vain && cursor.priority == 7 && cursor.id == 77);
	cursor.in_vain = false;
	jr_queue_read_goes_on(result, &cursor);
	assert_false(cursor.in_vain);
	PQclear(result);
}

/* What a note may say: of a claim of one run also why, of exec also which definition; of others there are none. */
static void
test_notes(void **state)
{
	static const struct {
		const char *statement, *columns;
	} notes[] = {{"claim", "|claim_seq|queue|priority|run_at|"}, {"claim_job", "|queue|payload|"},
	    {"exec_claim", "|job_type|queue|payload|"}, {"adopt", "|"}};
	(void)state;
	for (size_t i = 0; i < JR_COUNT(notes); i++) {
		size_t statement = find(notes[i].statement);
		const struct jr_form *form = form_of(statement);

		for (size_t column = 0; column < form->count; column++) {
			PGresult *result = answer(form, 0, &none);
			char word[64];

			snprintf(word, sizeof(word), "|%s|", form->columns[column].name);
			set_alone(result, 0, form->count, (int)column);
			assert_int_equal(fits(statement, result), strstr(notes[i].columns, word) != NULL);
			PQclear(result);
		}
	}
}

/* Shared by the handler and the command, which has no request. */
static void
test_prune_pause(void **state)
{
	(void)state;
	assert_int_equal(jr_prune_pause_ms(0, false), 1);
	assert_int_equal(jr_prune_pause_ms(20, false), 61);
	assert_int_equal(jr_prune_pause_ms(20, true), 21);
	assert_int_equal(jr_prune_pause_ms(334, false), 1000);
	assert_int_equal(jr_prune_pause_ms(600000, false), 1000);
	assert_int_equal(jr_prune_pause_ms(600000, true), 1000);
}

static void
test_prune(void **state)
{
	static const struct jr_form_column columns[] = {{"state", JR_COLUMN_TEXT, true, NULL},
	    {"done", JR_COLUMN_BOOL, true, NULL}, {"gone", JR_COLUMN_INT, true, NULL},
	    {"kind", JR_COLUMN_TEXT, false, NULL}, {"line", JR_COLUMN_TEXT, true, NULL},
	    {"hours", JR_COLUMN_INT, true, NULL}};
	static const struct jr_form form = JR_FORM("prune", columns);

	(void)state;
	for (size_t i = 0; i < 4 * form.count; i++) {
		const struct fault fault = {(int)(i % 4), i / 4};
		const struct jr_form_column *column = &columns[fault.column];
		bool good = fault.kind == NOTHING || (fault.kind == IS_NULL && !column->required) ||
			    (fault.kind == IS_WRONG && column->type == JR_COLUMN_TEXT);
		PGresult *result = answer(&form, 1, &fault);
		struct jr_prune prune;
		struct jr_err err;

		jr_prune_init(&prune, JR_PRUNE_ALL);
		assert_int_equal(jr_prune_take(&prune, result, &err), good);
		assert_true(good || (jr_pg_is_nonsense(&err) && strstr(err.msg, column->name) != NULL));
		jr_prune_release(&prune);
		PQclear(result);
	}
	for (size_t rows = 0; rows <= 2; rows += 2) {
		PGresult *result = answer(&form, rows, &none);
		struct jr_prune prune;
		struct jr_err err;

		jr_prune_init(&prune, JR_PRUNE_ALL);
		assert_false(jr_prune_take(&prune, result, &err));
		assert_string_equal(prune.state, "{}");
		jr_prune_release(&prune);
		PQclear(result);
	}
}

/* All of a run is read, whatever of it may be NULL. */
static void
test_read_run(void **state)
{
	const struct jr_form *form = &jr_form_adopt;
	PGresult *result = answer(form, 1, &none);
	struct jr_cursor cursor;
	struct jr_run *read;

	(void)state;
	for (size_t i = 0; i < form->count; i++) {
		if (!form->columns[i].required)
			set_value(result, 0, i, NULL);
	}
	read = jr_queue_read_run(result, 0, &cursor);
	assert_true(read->id == INT64_MIN && cursor.id == INT64_MIN && read->timeout_ms == -1);
	assert_true(read->cancelled && read->job_type != NULL && read->payload != NULL && read->slot == NULL);
	jr_run_free(read);
	PQclear(result);
}

/* What names a row is in its first two columns. */
static void
test_hash(void **state)
{
	const struct jr_form *form = form_of(find("fire"));
	PGresult *a = answer(form, 2, &none), *b = answer(form, 2, &none), *c = answer(form, 3, &none);

	(void)state;
	assert_true(jr_form_hash(a) == jr_form_hash(b));
	assert_true(jr_form_hash(a) != jr_form_hash(c));
	set_value(b, 1, 2, "skipped");
	assert_true(jr_form_hash(a) == jr_form_hash(b));
	set_value(b, 1, 1, "other");
	assert_true(jr_form_hash(a) != jr_form_hash(b));
	assert_true(jr_form_hash(NULL) != jr_form_hash(a));
	PQclear(a);
	PQclear(b);
	PQclear(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rows),
	    cmocka_unit_test(test_columns),
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_left_out),
	    cmocka_unit_test(test_goes_on),
	    cmocka_unit_test(test_notes),
	    cmocka_unit_test(test_prune),
	    cmocka_unit_test(test_prune_pause),
	    cmocka_unit_test(test_read_run),
	    cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests_name("form", tests, NULL, NULL);
}
