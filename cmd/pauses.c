/*
 * pauses: see pauses.h. If no option names anything, that is an error: a forgotten option must not pause everything.
 */
#include "pauses.h"

#include <stdlib.h>

#include "sql_text.h"

#define NAMED 3
#define MORE_MAX 2

PGresult *
jr_pauses_ask(const struct jr_app *app, const struct jr_pauses *what, const char *sql, size_t more_count,
    const char *const *more, struct jr_err *err)
{
	char *arrays[NAMED] = {jr_pg_array_or_null((const char *const *)what->types.items, what->types.count),
	    jr_pg_array_or_null((const char *const *)what->queues.items, what->queues.count),
	    jr_pg_array_or_null((const char *const *)what->definitions.items, what->definitions.count)};
	const char *values[NAMED + MORE_MAX] = {arrays[0], arrays[1], arrays[2]};
	const struct jr_statement statements[] = {
	    {sql, NAMED + more_count, values}, {jr_sql_rollback, 0, NULL}, {jr_sql_begin, 0, NULL}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = NULL;

	for (size_t i = 0; i < more_count; i++)
		values[NAMED + i] = more[i];
	if (what->types.count + what->queues.count + what->definitions.count == 0)
		jr_fail(err, JR_E_USAGE, "name what: --type TYPE, --queue QUEUE or --definition NAME");
	else
		db = jr_cmd_connect(app, err);
	if (db != NULL &&
	    !jr_db_run(db, statements, what->dry_run ? JR_COUNT(statements) : 1, results, JR_CMD_TIMEOUT_MS, err))
		results[0] = NULL;
	jr_db_close(db);
	for (size_t i = 1; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	for (size_t i = 0; i < NAMED; i++)
		free(arrays[i]);
	return results[0];
}
