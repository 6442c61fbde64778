/*
 * status: is everything all right? The last runner, a line for each job type, and what somebody should look at.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "print.h"
#include "sql_text.h"

#define COUNTED_MOST "10000" /* a count goes no further without --exact */

struct status_opts {
	bool exact;
};

static const struct status_opts status_defaults;

/* clang-format off */
static const struct jr_option status_options[] = {
	{ .name = "exact", .help = "count all waiting and dead runs, however many there are (else up to 10000 of each type)", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct status_opts, exact) },
	JR_OPTIONS_END,
};

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
		RUNNING,
		LINGERING
	};
	const char *schema = jr_pg_text(head, 0, SCHEMA), *host = jr_pg_text(head, 0, HOST);
	char *age = host == NULL ? NULL : jr_format_age(jr_pg_int(head, 0, AGE, 0));
	char *seen = host == NULL ? jr_xstrdup("no runner yet") : jr_xasprintf("last runner seen %s on %s", age, host);
	char *lingering = jr_pg_int(head, 0, LINGERING, 0) > 0
			      ? jr_xasprintf(" (%s lingering)", PQgetvalue(head, 0, LINGERING))
			      : jr_xstrdup("");
	char *line = jr_xasprintf("jobrun %s, database %s (PostgreSQL %s), schema %s, %s%s, %s running", JR_VERSION,
	    PQdb(conn), PQgetvalue(head, 0, SERVER), schema == NULL ? "?" : schema, seen, lingering,
	    PQgetvalue(head, 0, RUNNING));

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

static void
print_status(const struct jr_app *app, PGresult *const *parts, const PGconn *conn)
{
	if (app->json) {
		jr_print_document_begin("{\"jobrun_version\":\"" JR_VERSION "\"}");
		fputs(",\"database\":", stdout);
		jr_print_json(PQgetvalue(parts[HEAD], 0, 6));
		jr_print_document_list("types", parts[TYPES], JR_COUNT(columns));
		jr_print_document_list("problems", parts[PROBLEMS], 3);
		jr_print_document_end();
		return;
	}
	print_head(parts[HEAD], conn);
	if (PQntuples(parts[TYPES]) > 0)
		jr_print_table(parts[TYPES], columns, JR_COUNT(columns));
	for (int row = 0; row < PQntuples(parts[PROBLEMS]); row++)
		print_problem(parts[PROBLEMS], row);
}

static bool
is_among(const PGresult *types, const char *type)
{
	for (int row = 0; row < PQntuples(types); row++) {
		if (strcmp(PQgetvalue(types, row, 0), type) == 0)
			return true;
	}
	return false;
}

/*
 * If the user named a type, a missing line must not look like good news: report each type without runs. The last one
 * goes into *err.
 */
static bool
check_found(const PGresult *types, int argc, char **argv, struct jr_err *err)
{
	bool found = true;

	for (int i = 0; i < argc; i++) {
		if (is_among(types, argv[i]))
			continue;
		if (found)
			fflush(stdout);
		else
			fprintf(stderr, "jobrun: %s\n", err->msg);
		found = jr_fail(err, JR_E_NEWS,
		    "no runs of type %s in the last 24h; 'jobrun list --type %s' has older ones", argv[i], argv[i]);
	}
	return found;
}

static bool
ask_and_print(const struct jr_app *app, const struct status_opts *opts, struct jr_db *db, int argc, char **argv,
    struct jr_err *err)
{
	char *types = jr_pg_array_or_null((const char *const *)argv, (size_t)argc);
	const char *values[] = {types, opts->exact ? NULL : COUNTED_MOST};
	const struct jr_statement statements[] = {
	    {jr_sql_status_head, 0, NULL}, {jr_sql_status_types, 2, values}, {jr_sql_status_problems, 1, values}};
	PGresult *parts[PART_COUNT] = {NULL};
	bool ok = jr_db_run(db, statements, PART_COUNT, parts, JR_CMD_TIMEOUT_MS, err);

	_Static_assert(JR_COUNT(statements) == PART_COUNT, "one result for each");
	free(types);
	if (ok) {
		print_status(app, parts, jr_db_conn(db));
		ok = check_found(parts[TYPES], argc, argv, err);
	}
	for (size_t i = 0; i < PART_COUNT; i++)
		PQclear(parts[i]);
	return ok;
}

static int
status_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct jr_db *db;
	bool ok;

	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return (int)err->code;
	}
	db = jr_cmd_connect(app, err);
	if (db == NULL)
		return (int)err->code;
	ok = ask_and_print(app, values, db, argc, argv, err);
	jr_db_close(db);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_status = {
    .name = "status",
    .group = JR_GROUP_EVERYDAY,
    .summary = "a line for each job type, and what needs a look",
    .usage = "[OPTION...] [TYPE...]",
    .options = status_options,
    .defaults = &status_defaults,
    .size = sizeof(status_defaults),
    .max_args = -1,
    .run = status_run,
};
