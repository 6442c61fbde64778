/*
 * ids: see ids.h. All ids are parsed before the database is asked: a wrong one changes nothing.
 */
#include "ids.h"

#include <string.h>

#include "parse.h"

PGresult *
jr_ids_ask(const struct jr_app *app, const char *sql, int argc, char **argv, const char *extra,
    struct jr_err *err)
{
	const char *values[] = {NULL, extra};
	struct jr_pg_array ids;
	struct jr_db *db = NULL;
	PGresult *result = NULL;
	int64_t id;
	int i = 0;

	jr_pg_array_init(&ids);
	while (i < argc && jr_parse_int("ID", argv[i], 1, INT64_MAX, &id, err)) {
		jr_pg_array_add_int(&ids, id);
		i++;
	}
	values[0] = jr_pg_array_end(&ids);
	if (i == argc)
		db = jr_cmd_connect(app, err);
	if (db != NULL)
		result =
		    jr_db_query(db, sql, extra == NULL ? 1 : 2, values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	jr_pg_array_release(&ids);
	return result;
}

int
jr_ids_count(const PGresult *result, const char *answer)
{
	int count = 0;

	for (int row = 0; row < PQntuples(result); row++)
		count += strcmp(PQgetvalue(result, row, 1), answer) == 0;
	return count;
}
