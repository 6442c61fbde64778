/*
 * enqueue_send: see enqueue_send.h.
 *
 * The run, and the number of the transaction, are known before COMMIT is sent. If its answer is lost, the server says
 * whether it happened: then what is known is true, or nothing is, and all of it is done again. So a kept or replaced run
 * is not taken for another one, and a run of this very command not for one that was there.
 */
#include "enqueue_send.h"

#include "clock.h"
#include "doubt.h"
#include "payload.h"
#include "sql_text.h"

#define TRY_MS 30000 /* how long a lost connection is no failure */

enum answer {
	DONE,
	REFUSED, /* by the server */
	LOST,    /* with the connection; nothing happened */
	DOUBT    /* nobody knows what happened */
};

/* Inside the transaction: everything but its end. */
static enum answer
begin(struct jr_db *db, const struct jr_request *request, PGresult **result, struct jr_err *err)
{
	const char *const *v = request->values;
	const char *of_definition[] = {v[JR_REQUEST_TYPE], v[JR_REQUEST_PAYLOAD], v[JR_REQUEST_IN],
	    v[JR_REQUEST_AT], v[JR_REQUEST_KEY], v[JR_REQUEST_PARENT], v[JR_REQUEST_TRACE],
	    v[JR_REQUEST_KEY_IS_RANDOM], v[JR_REQUEST_DRY_RUN]};
	const struct jr_statement of_type = {jr_sql_enqueue, JR_REQUEST_COUNT, v};
	const struct jr_statement now = {
	    jr_sql_enqueue_definition, JR_COUNT(of_definition), of_definition};
	const struct jr_statement statement = request->is_definition ? now : of_type;

	if (jr_db_begin(db, &statement, 1, result, JR_CMD_TIMEOUT_MS, err))
		return DONE;
	return jr_db_is_open(db) ? REFUSED : LOST;
}

static enum answer
end(const struct jr_app *app, struct jr_db **db, const PGresult *result, bool dry_run,
    struct jr_err *err)
{
	if (dry_run) /* a lost connection is a rollback too */
		return jr_db_roll_back(*db, JR_CMD_TIMEOUT_MS, err) || !jr_db_is_open(*db)
			   ? DONE
			   : REFUSED;
	if (jr_db_commit(*db, JR_CMD_TIMEOUT_MS, err))
		return DONE;
	if (!jr_db_is_in_doubt(err))
		return jr_db_is_open(*db) ? REFUSED : LOST;
	switch (jr_doubt_resolve(app, db, PQgetvalue(result, 0, JR_SENT_TRANSACTION), err)) {
	case JR_FATE_COMMITTED:
		return DONE;
	case JR_FATE_ABORTED:
		jr_fail(err, JR_E_TEMP, "the connection was lost, and nothing queued");
		return LOST;
	case JR_FATE_UNKNOWN:
		break;
	}
	return DOUBT;
}

/* On a connection that stands, or a new one. */
static enum answer
send_once(const struct jr_app *app, struct jr_db **db, const struct jr_request *request,
    bool dry_run, PGresult **result, struct jr_err *err)
{
	enum answer answer;

	if (*db == NULL || !jr_db_is_open(*db)) {
		jr_db_close(*db);
		*db = jr_cmd_connect(app, err);
	}
	if (*db == NULL)
		return REFUSED;
	answer = begin(*db, request, result, err);
	if (answer != DONE)
		return answer;
	answer = end(app, db, *result, dry_run, err);
	if (answer != DONE) {
		PQclear(*result);
		*result = NULL;
	}
	return answer;
}

PGresult *
jr_enqueue_send(const struct jr_app *app, struct jr_db **db, const struct jr_request *request,
    bool dry_run, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), TRY_MS);
	PGresult *result = NULL;
	struct jr_err last;
	enum answer answer;

	do
		answer = send_once(app, db, request, dry_run, &result, &last);
	while (answer == LOST && jr_clock_now_ms() < until);
	if (answer == DONE)
		return result;
	*err = last;
	if (answer == DOUBT)
		jr_fail(err, last.code,
		    "%s; the run may have been queued: safe to repeat with --idempotency-key %s",
		    last.msg, request->values[JR_REQUEST_KEY]);
	if (err->code == JR_E_DATA && request->payload != NULL)
		jr_payload_locate(request->payload, err);
	return NULL;
}
