/*
 * change: see change.h.
 *
 * The request also reads the transaction's number, before COMMIT is sent. If the answer to COMMIT is lost, the server
 * is asked whether that transaction was committed. So the statements never run a second time after a first time that
 * was committed, and the old and new values in their results are right.
 */
#include "change.h"

#include <string.h>

#include "base/clock.h"
#include "doubt.h"
#include "sql_text.h"

#define TRY_MS 30000 /* how long to try again after a lost connection */

enum answer {
	DONE,
	REFUSED, /* the server reported an error, or there is no connection */
	LOST,    /* the connection was lost and nothing was committed */
	DOUBT    /* the connection was lost and it is not known whether it was committed */
};

/* The statements and their results; the last one reads the number of the transaction. */
struct request {
	const struct jr_change *change;
	struct jr_statement statements[JR_CHANGE_MAX + 1];
	PGresult *results[JR_CHANGE_MAX + 1];
	size_t count; /* without the last one */
};

static void
clear_results(struct request *request)
{
	for (size_t i = 0; i <= request->count; i++) {
		PQclear(request->results[i]);
		request->results[i] = NULL;
	}
}

static enum answer
resolve(const struct request *request, struct jr_db **db, struct jr_err *err)
{
	const char *number = PQgetvalue(request->results[request->count], 0, 0);

	switch (jr_doubt_resolve(request->change->app, db, number, err)) {
	case JR_FATE_COMMITTED:
		return DONE;
	case JR_FATE_ABORTED:
		jr_fail(err, JR_E_TEMP, "the connection was lost, and %s",
		    request->change->undone != NULL ? request->change->undone : "nothing changed");
		return LOST;
	case JR_FATE_UNKNOWN:
		break;
	}
	return DOUBT;
}

static enum answer
end(const struct request *request, struct jr_db **db, struct jr_err *err)
{
	if (request->change->dry_run) /* a lost connection is a rollback too */
		return jr_db_roll_back(*db, JR_CMD_TIMEOUT_MS, err) || !jr_db_is_open(*db) ? DONE : REFUSED;
	if (jr_db_commit(*db, JR_CMD_TIMEOUT_MS, err))
		return DONE;
	if (jr_db_is_in_doubt(err))
		return resolve(request, db, err);
	return jr_db_is_open(*db) ? REFUSED : LOST;
}

/* One try, on the open connection or a new one. */
static enum answer
send_once(struct request *request, struct jr_db **db, struct jr_err *err)
{
	enum answer answer;

	if (*db == NULL || !jr_db_is_open(*db)) {
		jr_db_close(*db);
		*db = jr_cmd_connect(request->change->app, err);
	}
	if (*db == NULL)
		return REFUSED;
	if (jr_db_begin(*db, request->statements, request->count + 1, request->results, JR_CMD_TIMEOUT_MS, err))
		answer = end(request, db, err);
	else
		answer = jr_db_is_open(*db) ? REFUSED : LOST;
	if (answer != DONE)
		clear_results(request);
	return answer;
}

bool
jr_change(const struct jr_change *change, const struct jr_statement *statements, size_t count, PGresult **results,
    struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), TRY_MS);
	struct request request = {.change = change, .count = count};
	struct jr_db *own = NULL, **db = change->db != NULL ? change->db : &own;
	struct jr_err last;
	enum answer answer;

	memcpy(request.statements, statements, count * sizeof(*statements));
	request.statements[count] = (struct jr_statement){jr_sql_transaction, 0, NULL};
	do
		answer = send_once(&request, db, &last);
	while (answer == LOST && jr_clock_now_ms() < until);
	jr_db_close(own);
	if (answer == DONE) {
		memcpy(results, request.results, count * sizeof(PGresult *));
		PQclear(request.results[count]);
		return true;
	}
	*err = last;
	if (answer == DOUBT)
		jr_fail(err, last.code, "%s; %s", last.msg,
		    change->perhaps != NULL ? change->perhaps : "it may have been changed: safe to repeat");
	return false;
}
