/*
 * doubt: see doubt.h. While the server has not noticed that the connection is lost, it says "in progress": ask again.
 */
#include "doubt.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "sql_text.h"

#define DOUBT_MS 30000
#define PAUSE_MS 200

/* false: its fate is not known yet. */
static bool
ask(struct jr_db *db, const char *number, enum jr_fate *fate, struct jr_err *err)
{
	PGresult *result = jr_db_query(db, jr_sql_fate, 1, &number, JR_CMD_TIMEOUT_MS, err);
	const char *status = result == NULL ? NULL : jr_pg_text(result, 0, 0);
	bool known = false;

	if (status != NULL) {
		known = strcmp(status, "committed") == 0 || strcmp(status, "aborted") == 0;
		*fate = status[0] == 'c' ? JR_FATE_COMMITTED : JR_FATE_ABORTED;
		jr_fail(err, JR_E_TEMP, "the last transaction is still %s", status);
	} else if (result != NULL)
		jr_fail(err, JR_E_TEMP, "the database does not know the last transaction");
	PQclear(result);
	return known;
}

enum jr_fate
jr_doubt_resolve(const struct jr_app *app, struct jr_db **db, const char *number, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), DOUBT_MS);
	enum jr_fate fate = JR_FATE_UNKNOWN;

	for (;;) {
		if (*db == NULL || !jr_db_is_open(*db)) {
			jr_db_close(*db);
			*db = jr_cmd_connect(app, err);
		}
		if (*db != NULL && ask(*db, number, &fate, err))
			return fate;
		if (err->code != JR_E_TEMP || jr_clock_now_ms() >= until)
			return JR_FATE_UNKNOWN;
		poll(NULL, 0, PAUSE_MS);
	}
}
