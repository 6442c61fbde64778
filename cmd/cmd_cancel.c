/*
 * cancel: waiting runs end at once; of running ones it is asked for, and their runner sees it at its next heartbeat.
 */
#include <string.h>

#include "ids.h"
#include "print.h"
#include "sql_text.h"

static void
tell_done(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = PQgetvalue(result, row, 1);

		if (strcmp(answer, "cancelled") == 0)
			printf("run %s: cancelled\n", id);
		else if (strcmp(answer, "requested") == 0)
			printf(
			    "run %s: cancel requested; its runner sees it at the next heartbeat\n",
			    id);
	}
}

/* How many could not be cancelled. */
static int
tell_refused(const PGresult *result)
{
	int count = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		const char *id = PQgetvalue(result, row, 0), *answer = jr_pg_text(result, row, 1);

		if (answer != NULL &&
		    (strcmp(answer, "cancelled") == 0 || strcmp(answer, "requested") == 0))
			continue;
		count++;
		if (answer == NULL)
			fprintf(stderr, "jobrun: there is no run %s\n", id);
		else
			fprintf(stderr, "jobrun: run %s had ended already: %s\n", id, answer);
	}
	return count;
}

static int
cancel_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	PGresult *result = jr_ids_ask(app, jr_sql_cancel, argc, argv, NULL, err);
	int refused;

	(void)values;
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_documents(result, 2);
	else
		tell_done(result);
	fflush(stdout);
	refused = tell_refused(result);
	PQclear(result);
	return refused == 0 ? 0 : JR_E_NEWS;
}

const struct jr_cmd jr_cmd_cancel = {
    .name = "cancel",
    .group = JR_GROUP_REPAIR,
    .summary = "stop runs that wait or are running",
    .usage = "[OPTION...] ID...",
    .min_args = 1,
    .max_args = -1,
    .run = cancel_run,
};
