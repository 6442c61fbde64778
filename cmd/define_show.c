/*
 * define_show: print all definitions as a table, or one with all its values and next fire times.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "define.h"
#include "next_times.h"
#include "print.h"
#include "sql_text.h"

#define NEXT_COUNT "3"

/* clang-format off */
static const struct jr_column columns[] = {
	{ "NAME", JR_CELL_TEXT },
	{ "TYPE", JR_CELL_TEXT },
	{ "SCHEDULE", JR_CELL_WHOLE },
	{ "ZONE", JR_CELL_TEXT },
	{ "NEXT", JR_CELL_AGE },
	{ "STATE", JR_CELL_STATE },
	{ "LAST", JR_CELL_TEXT },
};

/* Further columns of definitions.sql. */
enum { L_DOC = JR_COUNT(columns), L_MAY_SEE_PAYLOAD };
/* clang-format on */

int
jr_define_list(const struct jr_app *app, struct jr_err *err)
{
	const char *all = NULL;
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;

	if (db != NULL)
		result = jr_db_query(db, jr_sql_definitions, 1, &all, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_list("definitions", result, L_DOC);
	else if (PQntuples(result) > 0 || jr_print_is_terminal(stdout))
		jr_print_table(result, columns, JR_COUNT(columns));
	PQclear(result);
	return 0;
}

enum part {
	LINE,
	FIELDS,
	PART_COUNT
};

/* The length of the longest name that jr_print_fields prints. */
static int
width_of(const PGresult *fields)
{
	int width = 0;

	for (int row = 0; row < PQntuples(fields); row++) {
		int len = PQgetlength(fields, row, 0);

		if (!PQgetisnull(fields, row, 2) && len > width)
			width = len;
	}
	return width;
}

static void
print_definition(PGresult *const *parts, const PGresult *payload, const PGresult *next)
{
	const char *text = payload == NULL ? NULL : jr_pg_text(payload, 0, 0);

	jr_print_fields(parts[FIELDS]);
	if (text != NULL)
		jr_print_field("payload", text, width_of(parts[FIELDS]));
	jr_next_times_tell(stdout, PQgetvalue(parts[LINE], 0, 0), next);
}

static bool
read_next(struct jr_db *db, const char *name, PGresult **next, struct jr_err *err)
{
	const char *values[JR_NEXT_TIMES_PARAMS] = {[JR_NEXT_TIMES_OF] = name, [JR_NEXT_TIMES_COUNT] = NEXT_COUNT};

	*next = jr_db_query(db, jr_sql_next, JR_NEXT_TIMES_PARAMS, values, JR_CMD_TIMEOUT_MS, err);
	return *next != NULL;
}

/* If the role may not see payloads, *payload is NULL, which is no failure. */
static bool
read_payload(struct jr_db *db, const PGresult *line, PGresult **payload, struct jr_err *err)
{
	const char *values[] = {PQgetvalue(line, 0, 0), PQgetvalue(line, 0, L_DOC)};

	*payload = NULL;
	if (!jr_pg_bool(line, 0, L_MAY_SEE_PAYLOAD))
		return true;
	*payload = jr_db_query(db, jr_sql_define_payload, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	return *payload != NULL;
}

static bool
show(const struct jr_app *app, struct jr_db *db, const char *name, PGresult *const *parts, struct jr_err *err)
{
	PGresult *payload, *next = NULL;
	bool ok;

	if (!read_payload(db, parts[LINE], &payload, err))
		return false;
	ok = app->json || read_next(db, name, &next, err);
	if (app->json)
		jr_print_document(payload != NULL && PQntuples(payload) > 0 ? PQgetvalue(payload, 0, 1)
									    : PQgetvalue(parts[LINE], 0, L_DOC));
	else if (ok)
		print_definition(parts, payload, next);
	PQclear(payload);
	PQclear(next);
	return ok;
}

int
jr_define_show(const struct jr_app *app, const char *name, struct jr_err *err)
{
	const struct jr_statement statements[] = {{jr_sql_definitions, 1, &name}, {jr_sql_define_show, 1, &name}};
	PGresult *parts[PART_COUNT] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ok = false;

	_Static_assert(JR_COUNT(statements) == PART_COUNT, "one result for each");
	if (db != NULL && jr_db_run(db, statements, PART_COUNT, parts, JR_CMD_TIMEOUT_MS, err)) {
		if (PQntuples(parts[LINE]) > 0)
			ok = show(app, db, name, parts, err);
		else
			jr_fail(err, JR_E_DATA,
			    "there is no definition %s; 'jobrun define %s --schedule ...' makes one", name, name);
	}
	for (size_t i = 0; i < PART_COUNT; i++)
		PQclear(parts[i]);
	jr_db_close(db);
	return ok ? 0 : (int)err->code;
}
