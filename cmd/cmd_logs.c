/*
 * logs: what an attempt printed, as it was kept: its beginning and its end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "parse.h"
#include "print.h"
#include "sql_text.h"

struct logs_opts {
	int64_t attempt;
};

static const struct logs_opts logs_defaults = {.attempt = 0};

/* clang-format off */
static const struct jr_option logs_options[] = {
	{ .name = "attempt", .arg = "N", .help = "the N-th attempt (the last one)", .type = JR_OPT_INT,
	    .offset = offsetof(struct logs_opts, attempt), .min = 1, .max = INT64_MAX },
	JR_OPTIONS_END,
};
/* clang-format on */

enum column {
	C_STATUS,
	C_ATTEMPTS,
	C_ATTEMPT,
	C_OUTPUT,
	C_DROPPED,
	C_DOC
};

static void
print_logs(const PGresult *result, int64_t id)
{
	const char *output = jr_pg_text(result, 0, C_OUTPUT);
	int64_t dropped = jr_pg_int(result, 0, C_DROPPED, 0);
	bool running = strcmp(PQgetvalue(result, 0, C_STATUS), "running") == 0;

	if (output != NULL)
		jr_print_output(stdout, output);
	fflush(stdout);
	if (dropped > 0)
		fprintf(stderr, "jobrun: %" PRId64 " bytes in the middle were not kept\n", dropped);
	if (!jr_print_is_terminal(stderr))
		return;
	if (running)
		fprintf(stderr,
		    "run %" PRId64 " is running: the output of this attempt comes at its end\n",
		    id);
	else if (output == NULL)
		fprintf(stderr, "run %" PRId64 " has no output\n", id);
}

/* A plain success leaves no row, and so no attempt to show; an attempt that never was is an error. */
static bool
check_attempt(const PGresult *result, int64_t id, int64_t attempt, struct jr_err *err)
{
	if (PQntuples(result) == 0)
		return jr_fail(err, JR_E_NEWS,
		    "there is no run %" PRId64 "; 'jobrun list' shows the newest", id);
	if (attempt > jr_pg_int(result, 0, C_ATTEMPTS, 0) &&
	    jr_pg_text(result, 0, C_ATTEMPT) == NULL)
		return jr_fail(err, JR_E_NEWS,
		    "run %" PRId64 " has no attempt %" PRId64 "; 'jobrun show %" PRId64
		    "' lists them",
		    id, attempt, id);
	return true;
}

static bool
logs(const struct jr_app *app, int64_t id, int64_t attempt, struct jr_err *err)
{
	char id_text[24], attempt_text[24];
	const char *values[] = {jr_pg_print_int(id_text, id),
	    attempt == 0 ? NULL : jr_pg_print_int(attempt_text, attempt)};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;
	bool ok;

	if (db != NULL)
		result =
		    jr_db_query(db, jr_sql_logs, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	ok = result != NULL && check_attempt(result, id, attempt, err);
	if (ok && app->json)
		puts(PQgetvalue(result, 0, C_DOC));
	else if (ok)
		print_logs(result, id);
	PQclear(result);
	return ok;
}

static int
logs_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct logs_opts *opts = values;
	int64_t id;

	(void)argc;
	if (jr_parse_int("ID", argv[0], 1, INT64_MAX, &id, err) &&
	    logs(app, id, opts->attempt, err))
		return 0;
	return (int)err->code;
}

const struct jr_cmd jr_cmd_logs = {
    .name = "logs",
    .group = JR_GROUP_EVERYDAY,
    .summary = "what a run printed",
    .usage = "[OPTION...] ID",
    .options = logs_options,
    .defaults = &logs_defaults,
    .size = sizeof(logs_defaults),
    .min_args = 1,
    .max_args = 1,
    .run = logs_run,
};
