/*
 * status: is it all right? Who runs here, a line for each job type, and what somebody should look at.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "commands.h"
#include "parse.h"
#include "print.h"
#include "sql_text.h"

/* clang-format off */
static const struct jr_column columns[] = {
	{ "TYPE", JR_CELL_TEXT },
	{ "QUEUED", JR_CELL_NUMBER },
	{ "RETRYING", JR_CELL_NUMBER },
	{ "RUNNING", JR_CELL_NUMBER },
	{ "DEAD", JR_CELL_NUMBER },
	{ "DONE 24H", JR_CELL_NUMBER },
	{ "OLDEST DUE", JR_CELL_SINCE },
	{ "LAST OK", JR_CELL_AGE },
};
/* clang-format on */

enum part {
	HEAD,
	TYPES,
	PROBLEMS,
	PART_COUNT
};

static void
print_head(const PGresult *head, const PGconn *conn)
{
	enum {
		SERVER,
		SCHEMA,
		AGE,
		HOST,
		RUNNING
	};
	const char *schema = jr_pg_text(head, 0, SCHEMA), *host = jr_pg_text(head, 0, HOST);

	printf("jobrun %s, database %s (PostgreSQL %s), schema %s, ", JR_VERSION, PQdb(conn),
	    PQgetvalue(head, 0, SERVER), schema == NULL ? "?" : schema);
	if (host == NULL)
		fputs("no runner yet", stdout);
	else {
		char *age = jr_format_age(jr_pg_int(head, 0, AGE, 0));

		printf("last runner seen %s on %s", age, host);
		free(age);
	}
	printf(", %s running\n", PQgetvalue(head, 0, RUNNING));
}

static void
print_status(const struct jr_app *app, PGresult *const *parts, const PGconn *conn)
{
	if (app->json) {
		printf("{\"jobrun\":\"%s\",\n\"database\":%s,\n\"types\":", JR_VERSION,
		    PQgetvalue(parts[HEAD], 0, 5));
		jr_print_documents(parts[TYPES], JR_COUNT(columns));
		fputs(",\"problems\":", stdout);
		jr_print_documents(parts[PROBLEMS], 1);
		puts("}");
		return;
	}
	print_head(parts[HEAD], conn);
	if (PQntuples(parts[TYPES]) > 0)
		jr_print_table(parts[TYPES], columns, JR_COUNT(columns));
	for (int row = 0; row < PQntuples(parts[PROBLEMS]); row++)
		jr_print_line(stdout, "! ", PQgetvalue(parts[PROBLEMS], row, 0));
}

static bool
ask_and_print(const struct jr_app *app, struct jr_db *db, const char *types, struct jr_err *err)
{
	const char *values[] = {types};
	const struct jr_statement statements[] = {{jr_sql_status_head, 0, NULL},
	    {jr_sql_status_types, 1, values}, {jr_sql_status_problems, 1, values}};
	PGresult *parts[PART_COUNT] = {NULL};

	_Static_assert(JR_COUNT(statements) == PART_COUNT, "one result for each");
	if (!jr_db_run(db, statements, PART_COUNT, parts, JR_CMD_TIMEOUT_MS, err))
		return false;
	print_status(app, parts, jr_db_conn(db));
	for (size_t i = 0; i < PART_COUNT; i++)
		PQclear(parts[i]);
	return true;
}

static int
status_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct jr_db *db;
	char *types;
	bool ok;

	(void)values;
	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return (int)err->code;
	}
	db = jr_cmd_connect(app, err);
	if (db == NULL)
		return (int)err->code;
	types = argc == 0 ? NULL : jr_pg_array_of((const char *const *)argv, (size_t)argc);
	ok = ask_and_print(app, db, types, err);
	free(types);
	jr_db_close(db);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_status = {
    .name = "status",
    .group = JR_GROUP_EVERYDAY,
    .summary = "a line for each job type, and what needs a look",
    .usage = "[OPTION...] [TYPE...]",
    .max_args = -1,
    .run = status_run,
};
