/*
 * pauses: see pauses.h. If no option names anything, that is an error: a forgotten option must not pause everything.
 */
#include "pauses.h"

#include <stdlib.h>

#include "sql_text.h"

#define MORE_MAX 2

void
jr_pauses_values_init(struct jr_pauses_values *values, const struct jr_pauses *what)
{
	const struct jr_words *words[] = {&what->types, &what->queues, &what->definitions, &what->hosts};

	for (size_t i = 0; i < JR_COUNT(words); i++)
		values->values[i] = values->arrays[i] =
		    jr_pg_array_or_null((const char *const *)words[i]->items, words[i]->count);
	values->values[JR_COUNT(words)] = what->all ? "true" : "false";
}

void
jr_pauses_values_release(struct jr_pauses_values *values)
{
	for (size_t i = 0; i < JR_COUNT(values->arrays); i++)
		free(values->arrays[i]);
}

PGresult *
jr_pauses_ask(const struct jr_app *app, const struct jr_pauses *what, const char *sql, size_t more_count,
    const char *const *more, struct jr_err *err)
{
	struct jr_pauses_values named;
	const char *values[JR_PAUSES_VALUES + MORE_MAX];
	const struct jr_statement statements[] = {
	    {sql, JR_PAUSES_VALUES + more_count, values}, {jr_sql_rollback, 0, NULL}, {jr_sql_begin, 0, NULL}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = NULL;

	jr_pauses_values_init(&named, what);
	for (size_t i = 0; i < JR_PAUSES_VALUES; i++)
		values[i] = named.values[i];
	for (size_t i = 0; i < more_count; i++)
		values[JR_PAUSES_VALUES + i] = more[i];
	if (!what->all && what->types.count + what->queues.count + what->definitions.count + what->hosts.count == 0)
		jr_fail(
		    err, JR_E_USAGE, "name what: --type TYPE, --queue QUEUE, --definition NAME, --host HOST, or --all");
	else
		db = jr_cmd_connect(app, err);
	if (db != NULL &&
	    !jr_db_run(db, statements, what->dry_run ? JR_COUNT(statements) : 1, results, JR_CMD_TIMEOUT_MS, err))
		results[0] = NULL;
	jr_db_close(db);
	for (size_t i = 1; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	jr_pauses_values_release(&named);
	return results[0];
}
