/*
 * explain: why does a run not start, or a definition not fire? The verdict, then each condition and what changes it.
 *
 * The server decides; see jobrun.explain() in migrations/functions/explain.sql. This prints it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "commands.h"
#include "explanation.h"
#include "here.h"
#include "pager.h"
#include "pg/pg_array.h"
#include "print.h"
#include "sql_text.h"

#define DIGITS "0123456789"

static void
print_verdict(const PGresult *rows, const char *what)
{
	const char *command = jr_pg_text(rows, 0, JR_EXPLAIN_COMMAND);
	char *words = jr_explanation_words(rows, 0), *line = jr_xasprintf("%s %s", what, words);

	jr_print_paragraph(line, 4);
	if (command != NULL)
		jr_print_line(stdout, "try: ", command);
	free(line);
	free(words);
}

/* The type of the first row, if it is no handler's name: is another one spelt nearly so? */
static void
print_near_type(const PGresult *types)
{
	int count = PQntuples(types);
	const char **known = jr_xcalloc((size_t)count + 1, sizeof(char *)), *near = NULL;

	for (int row = 1; row < count; row++)
		known[row - 1] = PQgetvalue(types, row, 0);
	if (count > 1)
		near = jr_text_nearest(PQgetvalue(types, 0, 0), known, (size_t)count - 1);
	if (near != NULL) {
		char *line = jr_xasprintf("    did you mean %s?", near);

		jr_print_line(stdout, "", line);
		free(line);
	}
	free(known);
}

static void
print_all(const PGresult *rows, const PGresult *types, const char *what)
{
	print_verdict(rows, what);
	for (int row = 1; row < PQntuples(rows); row++) {
		jr_explanation_print(rows, row);
		if (strcmp(PQgetvalue(rows, row, JR_EXPLAIN_REASON), "no_handler") == 0)
			print_near_type(types);
	}
}

/* Has anything this job type? */
static bool
is_type(struct jr_db *db, const char *word)
{
	char *types = jr_pg_array_of(&word, 1);
	const char *values[] = {types, NULL, NULL};
	struct jr_err unused;
	PGresult *others = jr_db_query(db, jr_sql_known_names, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, &unused);
	bool known = others != NULL && PQntuples(others) == 0;

	PQclear(others);
	free(types);
	return known;
}

static bool
fail_unknown(struct jr_db *db, const char *what, bool is_run, struct jr_err *err)
{
	if (is_run)
		return jr_fail(err, JR_E_NEWS, "there is no run %s; 'jobrun list' shows the newest", what);
	if (is_type(db, what))
		return jr_fail(err, JR_E_NEWS,
		    "%s is a job type, not a definition; 'jobrun list --waiting --type %s' says why its runs wait",
		    what, what);
	return jr_fail(err, JR_E_NEWS, "there is no definition %s; 'jobrun define --list' shows them", what);
}

static bool
explain(const struct jr_app *app, const char *what, bool is_run, struct jr_err *err)
{
	const char *values[] = {is_run ? what : NULL, is_run ? NULL : what};
	const char *sql = is_run ? jr_sql_explain : jr_sql_explain_definition;
	struct jr_here here;
	const char *asked[] = {what, here.host, NULL};
	const struct jr_statement statements[] = {
	    {sql, JR_COUNT(asked), asked}, {jr_sql_explain_types, JR_COUNT(values), values}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ok;

	jr_here_read(&here);
	asked[2] = here.types;
	ok = db != NULL && jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err);
	jr_here_release(&here);
	if (ok && PQntuples(results[0]) == 0)
		ok = fail_unknown(db, what, is_run, err);
	jr_db_close(db);
	jr_pager_open(ok && !app->no_pager);
	if (ok && app->json)
		jr_print_document(PQgetvalue(results[0], 0, JR_EXPLAIN_DOC));
	else if (ok)
		print_all(results[0], results[1], what);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return ok;
}

static int
explain_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	bool is_run = argv[0][strspn(argv[0], DIGITS)] == '\0';
	int64_t number;
	char id[24];

	(void)values;
	(void)argc;
	if (is_run && !jr_parse_int("ID", argv[0], 1, INT64_MAX, &number, err))
		return (int)err->code;
	if (!is_run && !jr_parse_definition("NAME", argv[0], err))
		return (int)err->code;
	return explain(app, is_run ? jr_print_int(id, number) : argv[0], is_run, err) ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_explain = {
    .name = "explain",
    .group = JR_GROUP_REPAIR,
    .summary = "say why a run or a definition does not start, and what to type",
    .usage = "[OPTION...] ID|NAME",
    .details =
	"The first line is the verdict: the run starts or ends with the next claim, waits, or never starts unless\n"
	"somebody acts. Then every condition of a start: ok, ! for what holds it back, or ? if only the host knows, and\n"
	"the command that changes it. Of a definition NAME: its next slots, why the last ones did not run, and what a run of\n"
	"it would meet. A handler that came to this host after its last tick counts. Nothing is locked or changed.\n",
    .min_args = 1,
    .max_args = 1,
    .kind = "read",
    .run = explain_run,
};
