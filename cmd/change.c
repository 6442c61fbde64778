/*
 * change: see change.h.
 *
 * The number of the transaction is asked for with the statements, before COMMIT is sent. If its answer is lost, the server
 * says whether it happened: so what is told of old and new values is never that of a second try behind a first that
 * counted.
 */
#include "change.h"

#include <string.h>

#include "clock.h"
#include "doubt.h"
#include "sql_text.h"

#define TRY_MS 30000 /* how long a lost connection is no failure */

enum answer {
	DONE,
	REFUSED, /* by the server */
	LOST,    /* with the connection; nothing happened */
	DOUBT    /* nobody knows what happened */
};

/* A batch, and behind its results that of the number of the transaction. */
struct change {
	const struct jr_app *app;
	struct jr_statement statements[JR_CHANGE_MAX + 1];
	PGresult *results[JR_CHANGE_MAX + 1];
	size_t count; /* without the number */
	bool dry_run;
};

static void
clear_results(struct change *change)
{
	for (size_t i = 0; i <= change->count; i++) {
		PQclear(change->results[i]);
		change->results[i] = NULL;
	}
}

static enum answer
resolve(const struct change *change, struct jr_db **db, struct jr_err *err)
{
	const char *number = PQgetvalue(change->results[change->count], 0, 0);

	switch (jr_doubt_resolve(change->app, db, number, err)) {
	case JR_FATE_COMMITTED:
		return DONE;
	case JR_FATE_ABORTED:
		jr_fail(err, JR_E_TEMP, "the connection was lost, and nothing changed");
		return LOST;
	case JR_FATE_UNKNOWN:
		break;
	}
	return DOUBT;
}

static enum answer
end(const struct change *change, struct jr_db **db, struct jr_err *err)
{
	if (change->dry_run) /* a lost connection is a rollback too */
		return jr_db_roll_back(*db, JR_CMD_TIMEOUT_MS, err) || !jr_db_is_open(*db)
			   ? DONE
			   : REFUSED;
	if (jr_db_commit(*db, JR_CMD_TIMEOUT_MS, err))
		return DONE;
	if (jr_db_is_in_doubt(err))
		return resolve(change, db, err);
	return jr_db_is_open(*db) ? REFUSED : LOST;
}

static enum answer
send_once(struct change *change, struct jr_db **db, struct jr_err *err)
{
	enum answer answer;

	if (*db == NULL || !jr_db_is_open(*db)) {
		jr_db_close(*db);
		*db = jr_cmd_connect(change->app, err);
	}
	if (*db == NULL)
		return REFUSED;
	if (jr_db_begin(*db, change->statements, change->count + 1, change->results,
		JR_CMD_TIMEOUT_MS, err))
		answer = end(change, db, err);
	else
		answer = jr_db_is_open(*db) ? REFUSED : LOST;
	if (answer != DONE)
		clear_results(change);
	return answer;
}

bool
jr_change(const struct jr_app *app, const struct jr_statement *statements, size_t count,
    bool dry_run, PGresult **results, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), TRY_MS);
	struct change change = {.app = app, .count = count, .dry_run = dry_run};
	struct jr_db *db = NULL;
	struct jr_err last;
	enum answer answer;

	memcpy(change.statements, statements, count * sizeof(*statements));
	change.statements[count] = (struct jr_statement){jr_sql_transaction, 0, NULL};
	do
		answer = send_once(&change, &db, &last);
	while (answer == LOST && jr_clock_now_ms() < until);
	jr_db_close(db);
	if (answer == DONE) {
		memcpy(results, change.results, count * sizeof(PGresult *));
		PQclear(change.results[count]);
		return true;
	}
	*err = last;
	if (answer == DOUBT)
		jr_fail(err, last.code, "%s; it may have been changed: safe to repeat", last.msg);
	return false;
}
