/*
 * explanation: see explanation.h.
 */
#include "explanation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/width.h"
#include "print.h"
#include "sql_text.h"
#include "terminal.h"
#include "types.h"

/* "queue mail is paused by ann until 14:35:00+01:00 (in 5m): the relay is down". Caller frees. */
char *
jr_explanation_words(const PGresult *rows, int row)
{
	const char *words = PQgetvalue(rows, row, JR_EXPLAIN_WORDS), *rest = PQgetvalue(rows, row, JR_EXPLAIN_REST);
	char *at, *age, *text;

	if (PQgetisnull(rows, row, JR_EXPLAIN_AT))
		return jr_xasprintf("%s%s", words, rest);
	age = jr_format_age(jr_pg_int(rows, row, JR_EXPLAIN_AGE, 0));
	at = jr_format_local_time(jr_pg_int(rows, row, JR_EXPLAIN_AT, 0));
	if (strcmp(PQgetvalue(rows, row, JR_EXPLAIN_CONDITION), "next") == 0)
		text = jr_xasprintf("%s (%s)%s", words, age, rest);
	else
		text = jr_xasprintf("%s %s (%s)%s", words, at, age, rest);
	free(at);
	free(age);
	return text;
}

/*
 * "!   queue mail is full, 5 of 5 run (11, 12)   jobrun queue mail --max-running 6". "no  run 12 waits" would read as
 * its opposite. A command that does not fit has a line of its own, so that it can be copied.
 */
void
jr_explanation_print(const PGresult *rows, int row)
{
	const char *command = jr_pg_text(rows, row, JR_EXPLAIN_COMMAND);
	const char *state = PQgetvalue(rows, row, JR_EXPLAIN_STATE);
	char *words = jr_explanation_words(rows, row);
	char *line = jr_xasprintf("%-3s %s", strcmp(state, "no") == 0 ? "!" : state, words);
	char *whole = jr_xasprintf("%s   %s", line, command == NULL ? "" : command);

	if (command == NULL)
		jr_print_paragraph(line, 4);
	else if (!jr_print_is_terminal(stdout) || jr_width(whole) <= jr_terminal_columns())
		jr_print_line(stdout, "", whole);
	else {
		jr_print_paragraph(line, 4);
		jr_print_line(stdout, "    ", command);
	}
	free(whole);
	free(line);
	free(words);
}

static bool
is_any_of(const char *word, const char *const *words)
{
	while (*words != NULL && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}

/* A run of exec, which no handler starts. */
static bool
is_command(const PGresult *rows, int row)
{
	return row >= 0 && strcmp(PQgetvalue(rows, row, JR_EXPLAIN_REASON), "command") == 0;
}

static const char *const limits[] = {"max_running", "rate", "lock_key", NULL};

/* The row of the cause; -1: none. `run --job` does not wait for a due time, a pause or other runs. */
static int
cause_of(const PGresult *rows)
{
	static const char *const waiting[] = {"starts", "ends", "waits", "never", NULL};
	static const char *const counts[] = {"lock", "unique_key", NULL};

	if (!is_any_of(PQgetvalue(rows, 0, JR_EXPLAIN_STATE), waiting))
		return 0;
	for (int row = 1; row < PQntuples(rows); row++) {
		if (strcmp(PQgetvalue(rows, row, JR_EXPLAIN_STATE), "no") == 0 &&
		    (is_command(rows, row) || is_any_of(PQgetvalue(rows, row, JR_EXPLAIN_CONDITION), counts) ||
			is_any_of(PQgetvalue(rows, row, JR_EXPLAIN_CONDITION), limits)))
			return row;
	}
	return -1;
}

static void
fail_cause(const PGresult *rows, int row, int64_t id, struct jr_err *err)
{
	const char *command = jr_pg_text(rows, row, JR_EXPLAIN_COMMAND);
	char *words = jr_explanation_words(rows, row);
	bool is_limit = is_any_of(PQgetvalue(rows, row, JR_EXPLAIN_CONDITION), limits);

	jr_fail(err, is_limit ? JR_E_TEMP : JR_E_NEWS, "run %" PRId64 " was not started: %s%s%s%s", id,
	    row == 0 ? "it " : "", words, command == NULL ? "" : "; try: ", command == NULL ? "" : command);
	free(words);
}

/* results: of explain.sql and explain_types.sql. */
static void
fail_because(PGresult *const *results, int64_t id, const struct jr_handlers *handlers, const struct jr_err *otherwise,
    struct jr_err *err)
{
	bool known = PQntuples(results[0]) > 0;
	int cause = known ? cause_of(results[0]) : -1;
	struct jr_err here;

	if (!known)
		jr_fail(err, JR_E_NEWS, "there is no run %" PRId64 "; 'jobrun list' shows the newest", id);
	else if (cause != 0 && !is_command(results[0], cause) &&
		 !jr_types_check(handlers, PQgetvalue(results[1], 0, 0), &here))
		jr_fail(err, JR_E_NEWS, "run %" PRId64 " was not started: %s", id, here.msg);
	else if (cause >= 0)
		fail_cause(results[0], cause, id, err);
	else
		jr_fail(err, otherwise->code, "run %" PRId64 " was not started: %s", id, otherwise->msg);
}

void
jr_explanation_fail(const struct jr_app *app, int64_t id, const struct jr_handlers *handlers,
    const struct jr_err *otherwise, struct jr_err *err)
{
	char number[24];
	const char *values[] = {jr_print_int(number, id), NULL, NULL};
	const struct jr_statement statements[] = {
	    {jr_sql_explain, JR_COUNT(values), values}, {jr_sql_explain_types, 2, values}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);

	if (db != NULL && jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err))
		fail_because(results, id, handlers, otherwise, err);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	jr_db_close(db);
}
