/*
 * show: everything about one run: its fields, its attempts, what people did to it, the output of the last attempt.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "commands.h"
#include "here.h"
#include "pager.h"
#include "print.h"
#include "sql_text.h"

/* clang-format off */
static const struct jr_column columns[] = {
	{ "ATTEMPT", JR_CELL_NUMBER },
	{ "OUTCOME", JR_CELL_STATE },
	{ "STARTED", JR_CELL_AGE },
	{ "TOOK", JR_CELL_TOOK },
	{ "CPU", JR_CELL_TOOK },
	{ "MEMORY", JR_CELL_NUMBER },
	{ "EXIT", JR_CELL_NUMBER },
	{ "HOST", JR_CELL_TEXT },
	{ "MESSAGE", JR_CELL_CUT },
};

static const struct jr_column audit_columns[] = {
	{ "WHEN", JR_CELL_AGE },
	{ "WHO", JR_CELL_TEXT },
	{ "DID", JR_CELL_TEXT },
	{ "BEFORE", JR_CELL_STATE },
	{ "REASON", JR_CELL_CUT },
};
/* clang-format on */

enum part {
	FIELDS,
	ATTEMPTS,
	AUDIT,
	OUTPUT,
	PART_COUNT
};

static void
print_part(const PGresult *rows, const struct jr_column *its, size_t count)
{
	if (PQntuples(rows) == 0)
		return;
	putchar('\n');
	jr_print_table(rows, its, count);
}

static void
print_run(PGresult *const *parts)
{
	const char *output = jr_pg_text(parts[OUTPUT], 0, 1);
	bool running = strcmp(PQgetvalue(parts[OUTPUT], 0, 0), "running") == 0;

	jr_print_fields(parts[FIELDS]);
	print_part(parts[ATTEMPTS], columns, JR_COUNT(columns));
	print_part(parts[AUDIT], audit_columns, JR_COUNT(audit_columns));
	if (output != NULL) {
		fputs(running ? "\noutput so far\n" : "\noutput of the last attempt\n", stdout);
		jr_print_output(stdout, output);
	}
}

static bool
show_fields(const struct jr_app *app, const char *id, struct jr_err *err)
{
	struct jr_here here;
	const char *values[] = {id, here.host, NULL};
	const struct jr_statement statements[] = {{jr_sql_show, JR_COUNT(values), values},
	    {jr_sql_show_attempts, 1, values}, {jr_sql_show_audit, 1, values}, {jr_sql_show_output, 1, values}};
	PGresult *parts[PART_COUNT] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool found;

	_Static_assert(JR_COUNT(statements) == PART_COUNT, "one result for each");
	jr_here_read(&here);
	values[2] = here.types;
	found = db != NULL && jr_db_run(db, statements, PART_COUNT, parts, JR_CMD_TIMEOUT_MS, err);
	jr_here_release(&here);
	jr_db_close(db);
	if (!found)
		return false;
	found = PQntuples(parts[FIELDS]) > 0 && PQntuples(parts[OUTPUT]) > 0;
	jr_pager_open(found && !app->no_pager);
	if (found)
		print_run(parts);
	for (size_t i = 0; i < PART_COUNT; i++)
		PQclear(parts[i]);
	return found || jr_fail(err, JR_E_NEWS, "there is no run %s; 'jobrun list' shows the newest", id);
}

static bool
show_document(const struct jr_app *app, const char *id, struct jr_err *err)
{
	const char *values[] = {id};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = db == NULL ? NULL : jr_db_query(db, jr_sql_show_doc, 1, values, JR_CMD_TIMEOUT_MS, err);
	bool found = result != NULL && PQntuples(result) > 0;

	jr_db_close(db);
	if (result == NULL)
		return false;
	jr_pager_open(found && !app->no_pager);
	if (found)
		jr_print_document(PQgetvalue(result, 0, 0));
	PQclear(result);
	return found || jr_fail(err, JR_E_NEWS, "there is no run %s; 'jobrun list' shows the newest", id);
}

static int
show_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	char id[24];
	int64_t number;
	bool ok;

	(void)values;
	(void)argc;
	if (!jr_parse_int("ID", argv[0], 1, INT64_MAX, &number, err))
		return (int)err->code;
	jr_print_int(id, number);
	ok = app->json ? show_document(app, id, err) : show_fields(app, id, err);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_show = {
    .name = "show",
    .group = JR_GROUP_EVERYDAY,
    .summary = "show one run: fields, attempts, who did what to it, output",
    .usage = "[OPTION...] ID",
    .min_args = 1,
    .max_args = 1,
    .kind = "read",
    .run = show_run,
};
