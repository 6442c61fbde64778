/*
 * status: see status.h.
 */
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "print.h"
#include "sql_text.h"

#define COUNTED_MOST "10000" /* a count goes no further without --exact */

/* Of status_head.sql. */
enum {
	HEAD_SERVER,
	HEAD_SCHEMA,
	HEAD_AGE,
	HEAD_HOST,
	HEAD_RUNNING,
	HEAD_LINGERING,
	HEAD_DOCUMENT,
	HEAD_NAME,
	HEAD_IS_CAPPED
};

/* Of status_types.sql. */
enum {
	TYPES_DONE = 5,
	TYPES_LAST_OK = 7
};

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
	{ "NEXT SLOT", JR_CELL_AGE },
};

static const struct jr_column running_columns[] = {
	{ "RUNNING", JR_CELL_NUMBER },
	{ "TYPE", JR_CELL_TEXT },
	{ "TRY", JR_CELL_NUMBER },
	{ "HOST", JR_CELL_TEXT },
	{ "FOR", JR_CELL_SINCE },
	{ "PROGRESS", JR_CELL_CUT },
};
/* clang-format on */

bool
jr_status_is_capped(const struct jr_status *status)
{
	return jr_pg_bool(status->parts[JR_STATUS_HEAD], 0, HEAD_IS_CAPPED);
}

static void
set_value(PGresult *rows, int row, int column, char *value)
{
	if (PQsetvalue(rows, row, column, value, (int)strlen(value)) == 0)
		abort();
}

/* Not all that succeeded was counted: "3+", and a last success that was not seen is not known. */
static void
mark_capped(PGresult *types)
{
	for (int row = 0; row < PQntuples(types); row++) {
		char *done = jr_xasprintf("%s+", PQgetvalue(types, row, TYPES_DONE));
		char unknown[] = "?";

		set_value(types, row, TYPES_DONE, done);
		if (PQgetisnull(types, row, TYPES_LAST_OK))
			set_value(types, row, TYPES_LAST_OK, unknown);
		free(done);
	}
}

bool
jr_status_ask(struct jr_status *status, struct jr_db *db, const char *types, bool exact, bool running,
    int64_t timeout_ms, struct jr_err *err)
{
	const char *values[] = {types, exact ? NULL : COUNTED_MOST};
	const struct jr_statement statements[] = {[JR_STATUS_HEAD] = {jr_sql_status_head, 1, &values[1]},
	    [JR_STATUS_TYPES] = {jr_sql_status_types, 2, values},
	    [JR_STATUS_PROBLEMS] = {jr_sql_status_problems, 1, values},
	    [JR_STATUS_RUNNING] = {jr_sql_status_running, 1, values}};
	struct jr_status now = {.parts = {NULL}};

	_Static_assert(JR_COUNT(statements) == JR_STATUS_PARTS, "one result for each");
	if (!jr_db_run(db, statements, running ? JR_STATUS_PARTS : JR_STATUS_RUNNING, now.parts, timeout_ms, err)) {
		jr_status_release(&now);
		return false;
	}
	if (jr_status_is_capped(&now))
		mark_capped(now.parts[JR_STATUS_TYPES]);
	jr_status_release(status);
	*status = now;
	return true;
}

void
jr_status_release(struct jr_status *status)
{
	for (size_t i = 0; i < JR_STATUS_PARTS; i++)
		PQclear(status->parts[i]);
	*status = (struct jr_status){.parts = {NULL}};
}

static void
print_head(const PGresult *head)
{
	const char *schema = jr_pg_text(head, 0, HEAD_SCHEMA), *host = jr_pg_text(head, 0, HEAD_HOST);
	char *age = host == NULL ? NULL : jr_format_age(jr_pg_int(head, 0, HEAD_AGE, 0));
	char *seen = host == NULL ? jr_xstrdup("no runner yet") : jr_xasprintf("last runner seen %s on %s", age, host);
	char *lingering = jr_pg_int(head, 0, HEAD_LINGERING, 0) > 0
			      ? jr_xasprintf(" (%s lingering)", PQgetvalue(head, 0, HEAD_LINGERING))
			      : jr_xstrdup("");
	char *line = jr_xasprintf("jobrun %s, database %s (PostgreSQL %s), schema %s, %s%s, %s running", JR_VERSION,
	    PQgetvalue(head, 0, HEAD_NAME), PQgetvalue(head, 0, HEAD_SERVER), schema == NULL ? "?" : schema, seen,
	    lingering, PQgetvalue(head, 0, HEAD_RUNNING));

	jr_print_paragraph(line, 0);
	free(age);
	free(seen);
	free(lingering);
	free(line);
}

/* "queue mail: paused until 14:35:00+01:00 by ada: the relay is down (jobrun resume --queue mail)" */
static void
print_problem(const PGresult *problems, int row)
{
	enum {
		TEXT,
		UNTIL,
		REST
	};
	char *until =
	    PQgetisnull(problems, row, UNTIL) ? NULL : jr_format_local_time(jr_pg_int(problems, row, UNTIL, 0));
	char *line = jr_xasprintf("! %s%s%s%s", PQgetvalue(problems, row, TEXT), until == NULL ? "" : " until ",
	    until == NULL ? "" : until, PQgetvalue(problems, row, REST));

	jr_print_paragraph(line, 2);
	free(line);
	free(until);
}

void
jr_status_print(const struct jr_status *status)
{
	const PGresult *types = status->parts[JR_STATUS_TYPES], *problems = status->parts[JR_STATUS_PROBLEMS];

	print_head(status->parts[JR_STATUS_HEAD]);
	if (PQntuples(types) > 0)
		jr_print_table(types, columns, JR_COUNT(columns));
	if (jr_status_is_capped(status))
		jr_print_paragraph("only the newest 50,000 successes of this hour were counted; --exact counts all", 0);
	for (int row = 0; row < PQntuples(problems); row++)
		print_problem(problems, row);
}

void
jr_status_print_running(const struct jr_status *status)
{
	const PGresult *running = status->parts[JR_STATUS_RUNNING];

	if (running == NULL || PQntuples(running) == 0)
		return;
	putchar('\n');
	jr_print_table(running, running_columns, JR_COUNT(running_columns));
}

void
jr_status_print_json(const struct jr_status *status)
{
	jr_print_document_begin("{\"jobrun_version\":\"" JR_VERSION "\"}");
	fputs(",\"database\":", stdout);
	jr_print_compact(PQgetvalue(status->parts[JR_STATUS_HEAD], 0, HEAD_DOCUMENT));
	jr_print_document_list("types", status->parts[JR_STATUS_TYPES], JR_COUNT(columns));
	jr_print_document_list("problems", status->parts[JR_STATUS_PROBLEMS], 3);
	jr_print_document_end();
}

bool
jr_status_has(const struct jr_status *status, const char *type)
{
	const PGresult *types = status->parts[JR_STATUS_TYPES];

	for (int row = 0; row < PQntuples(types); row++) {
		if (strcmp(PQgetvalue(types, row, 0), type) == 0)
			return true;
	}
	return false;
}
