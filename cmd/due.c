/*
 * due: see due.h.
 */
#include "due.h"

#include "print.h"
#include "sql_text.h"

#define MOST "100"

static void
print_due(const struct jr_app *app, const PGresult *result)
{
	static const struct jr_column columns[] = {
	    {"ID", JR_CELL_NUMBER},
	    {"TYPE", JR_CELL_TEXT},
	    {"QUEUE", JR_CELL_TEXT},
	    {"PRIORITY", JR_CELL_NUMBER},
	    {"TRY", JR_CELL_TEXT},
	    {"DUE FOR", JR_CELL_SINCE},
	    {"DEFINITION", JR_CELL_TEXT},
	};

	if (app->json)
		jr_print_documents(result, JR_COUNT(columns));
	else if (PQntuples(result) > 0)
		jr_print_table(result, columns, JR_COUNT(columns));
}

bool
jr_due_print(
    const struct jr_app *app, struct jr_db *db, const char *types, const char *queues, int64_t job, struct jr_err *err)
{
	char id[24];
	const char *values[] = {types, queues, MOST, job > 0 ? jr_pg_print_int(id, job) : NULL};
	PGresult *result = jr_db_query(db, jr_sql_due, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);

	if (result != NULL)
		print_due(app, result);
	PQclear(result);
	return result != NULL;
}
