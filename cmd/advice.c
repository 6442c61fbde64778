/*
 * advice: see advice.h. What must hold: the advice is at the end, and so it is the reason that is cut when it is long.
 */
#include "advice.h"

#include <stdlib.h>
#include <string.h>

static bool
lacks_database(const struct jr_app *app)
{
	static const char *const of_libpq[] = {"PGHOST", "PGSERVICE", "PGDATABASE"};
	const char *run_id = getenv("JOBRUN_RUN_ID");

	for (size_t i = 0; i < JR_COUNT(of_libpq); i++) {
		if (getenv(of_libpq[i]) != NULL)
			return false;
	}
	return run_id != NULL && *run_id != '\0' && jr_db_conninfo(app->dbname, NULL) == NULL;
}

void
jr_advise_database(const struct jr_app *app, struct jr_err *err)
{
	struct jr_err why = *err;

	if (!lacks_database(app))
		return;
	jr_fail(err, why.code,
	    "%.700s; set JOBRUN_HANDLER_DATABASE_URL for the runner, or keep the password in ~/.pgpass", why.msg);
	memcpy(err->sqlstate, why.sqlstate, sizeof(err->sqlstate));
}
