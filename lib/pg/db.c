/*
 * db: see db.h. jr_pg enforces the deadlines.
 */
#include "pg/db.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "pg/need.h"
#include "sql_text.h"

#define CONNECT_MS 10000
#define PAUSE_BASE_MS 200
#define PAUSE_CAP_MS 2000

static const char in_doubt[] = "08007"; /* transaction_resolution_unknown */

struct jr_db {
	struct jr_loop *loop;
	struct jr_pg *pg;
	bool settled; /* the event that the call waits for has happened */
	bool opened;
	bool ok;
	PGresult **results; /* where the results of the reply go */
	struct jr_err err;
	const struct jr_db_waits *waits; /* while it is opened */
	int64_t until_ms;                /* so long it tries */
	char *why;                       /* the last try has failed; NULL: none has */
};

bool
jr_db_is_unnamed(const char *option)
{
	static const char *const names[] = {"JOBRUN_DATABASE_URL", "DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGPORT",
	    "PGDATABASE", "PGUSER", "PGSERVICE"};

	for (size_t i = 0; i < JR_COUNT(names); i++) {
		const char *value = getenv(names[i]);

		if (value != NULL && *value != '\0')
			return false;
	}
	return option == NULL;
}

const char *
jr_db_conninfo(const char *option, const char **source)
{
	static const char *const of_libpq[] = {"PGHOST", "PGSERVICE", "PGDATABASE"};
	const char *jobrun = getenv("JOBRUN_DATABASE_URL"), *common = getenv("DATABASE_URL");
	const char *unused;

	if (source == NULL)
		source = &unused;
	*source = "-d";
	if (option != NULL)
		return option;
	*source = "JOBRUN_DATABASE_URL";
	if (jobrun != NULL && *jobrun != '\0')
		return jobrun;
	*source = "libpq defaults";
	for (size_t i = 0; i < JR_COUNT(of_libpq); i++) {
		const char *value = getenv(of_libpq[i]);

		if (value != NULL && *value != '\0')
			return NULL;
	}
	if (common == NULL || *common == '\0')
		return NULL;
	*source = "DATABASE_URL";
	return common;
}

static void
on_opened(void *ctx)
{
	struct jr_db *db = ctx;

	db->settled = true;
	db->opened = true;
}

static void
on_lost(void *ctx, const struct jr_err *err)
{
	struct jr_db *db = ctx;

	db->opened = false;
	if (db->settled)
		return; /* the reply of the request on the wire has reported the loss already */
	db->settled = true;
	db->err = *err;
}

static bool
wait_until_settled(struct jr_db *db, struct jr_err *err)
{
	while (!db->settled) {
		if (!jr_loop_turn(db->loop, err))
			return false;
	}
	return true;
}

static void
on_pause_over(void *ctx)
{
	struct jr_db *db = ctx;

	db->settled = true;
}

bool
jr_db_pause(struct jr_db *db, int64_t ms, struct jr_err *err)
{
	struct jr_timer timer;
	bool ok;

	jr_timer_init(&timer, on_pause_over, db);
	jr_timer_set(db->loop, &timer, jr_clock_after(jr_clock_now_ms(), ms));
	db->settled = false;
	ok = wait_until_settled(db, err);
	jr_timer_cancel(&timer);
	return ok;
}

static bool
open_once(struct jr_db *db, struct jr_err *err)
{
	db->settled = false;
	jr_pg_open(db->pg, CONNECT_MS, false);
	if (!wait_until_settled(db, err))
		return false;
	if (!db->opened)
		*err = db->err;
	return db->opened;
}

static void
on_waits(void *ctx)
{
	struct jr_db *db = ctx;
	struct jr_err err;

	if (db->why == NULL)
		jr_pg_waits_for(db->pg, &err);
	db->waits->tell(db->waits->ctx, db->why == NULL ? err.msg : db->why, db->until_ms - jr_clock_now_ms());
}

static void
remember_why(struct jr_db *db, const char *why)
{
	free(db->why);
	db->why = jr_xstrdup_or_null(why);
}

static bool
try_patiently(struct jr_db *db, struct jr_err *err)
{
	struct jr_random random;
	struct jr_err last;

	jr_random_seed_system(&random);
	for (int64_t n = 1;; n++) {
		int64_t delay = jr_backoff_ms(&random, n, PAUSE_BASE_MS, PAUSE_CAP_MS);

		if (open_once(db, &last))
			return true;
		remember_why(db, last.msg);
		if (!jr_pg_is_temporary(&last) || jr_clock_after(jr_clock_now_ms(), delay) > db->until_ms ||
		    !jr_db_pause(db, delay, &last))
			break;
	}
	*err = last;
	return false;
}

static bool
open_patiently(struct jr_db *db, int64_t patience_ms, struct jr_err *err)
{
	int64_t now_ms = jr_clock_now_ms();
	struct jr_timer timer;
	bool ok;

	db->until_ms = jr_clock_after(now_ms, patience_ms);
	jr_timer_init(&timer, on_waits, db);
	if (db->waits != NULL)
		jr_timer_set(db->loop, &timer, jr_clock_after(now_ms, JR_PG_TELL_MS));
	ok = try_patiently(db, err);
	jr_timer_cancel(&timer);
	remember_why(db, NULL);
	return ok;
}

struct jr_db *
jr_db_open(const char *conninfo, int64_t patience_ms, const struct jr_db_waits *waits, struct jr_err *err)
{
	struct jr_db *db = jr_xcalloc(1, sizeof(*db));
	const struct jr_pg_events events = {.opened = on_opened, .lost = on_lost, .ctx = db};

	db->waits = waits;
	db->loop = jr_loop_new(err);
	if (db->loop != NULL) {
		db->pg = jr_pg_new(db->loop, conninfo, &events);
		if (open_patiently(db, patience_ms, err))
			return db;
	}
	jr_db_close(db);
	return NULL;
}

void
jr_db_needs_grant(struct jr_db *db, const char *kind)
{
	jr_pg_needs_grant(db->pg, kind);
}

void
jr_db_close(struct jr_db *db)
{
	if (db == NULL)
		return;
	jr_pg_free(db->pg);
	if (db->loop != NULL)
		jr_loop_free(db->loop);
	free(db);
}

static PGresult *
copy_result(const PGresult *result)
{
	PGresult *copy = PQcopyResult(result, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);

	if (copy == NULL)
		abort(); /* out of memory, as in mem.c */
	return copy;
}

static void
on_reply(void *ctx, const struct jr_reply *reply)
{
	struct jr_db *db = ctx;

	db->settled = true;
	db->ok = reply->end == JR_PG_DONE;
	if (db->ok) {
		for (size_t i = 0; i < reply->result_count; i++)
			db->results[i] = copy_result(reply->results[i]);
		return;
	}
	db->err = reply->err;
	if (reply->end == JR_PG_UNKNOWN) {
		memcpy(db->err.sqlstate, in_doubt, sizeof(in_doubt));
		db->err.code = JR_E_TEMP;
	}
}

bool
jr_db_is_in_doubt(const struct jr_err *err)
{
	return strcmp(err->sqlstate, in_doubt) == 0;
}

static bool
run_request(struct jr_db *db, enum jr_request_kind kind, const struct jr_statement *statements, size_t count,
    PGresult **results, int64_t timeout_ms, struct jr_err *err)
{
	struct jr_lease times = {
	    .deadline_ms = timeout_ms, .statement_ms = timeout_ms / 5 * 4, .lock_ms = timeout_ms / 5 * 2};
	struct jr_request *request;

	if (!jr_pg_is_open(db->pg))
		return jr_fail(err, JR_E_TEMP, "the connection to the database is gone");
	if (times.lock_ms > JR_DB_LOCK_MS)
		times.lock_ms = JR_DB_LOCK_MS;
	request = jr_request_new(kind, &times, on_reply, db);
	jr_request_told(request);
	for (size_t i = 0; i < count; i++)
		jr_request_add(request, statements[i].sql, statements[i].count, statements[i].values);
	db->settled = false;
	db->results = results;
	jr_pg_submit(db->pg, request);
	if (!wait_until_settled(db, err))
		return false;
	if (!db->ok)
		*err = db->err;
	return db->ok;
}

bool
jr_db_run(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results, int64_t timeout_ms,
    struct jr_err *err)
{
	return run_request(db, JR_REQUEST_WHOLE, statements, count, results, timeout_ms, err);
}

/* The request had no COMMIT, so a lost connection leaves no doubt: nothing was committed. Always false. */
static bool
is_undone(struct jr_err *err)
{
	if (jr_db_is_in_doubt(err))
		err->sqlstate[0] = '\0';
	return false;
}

bool
jr_db_begin(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err)
{
	return run_request(db, JR_REQUEST_OPENING, statements, count, results, timeout_ms, err) || is_undone(err);
}

bool
jr_db_commit(struct jr_db *db, int64_t timeout_ms, struct jr_err *err)
{
	return run_request(db, JR_REQUEST_CLOSING, NULL, 0, NULL, timeout_ms, err);
}

bool
jr_db_roll_back(struct jr_db *db, int64_t timeout_ms, struct jr_err *err)
{
	return jr_db_drop(db, NULL, 0, NULL, timeout_ms, err);
}

bool
jr_db_drop(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err)
{
	return run_request(db, JR_REQUEST_DROPPING, statements, count, results, timeout_ms, err) || is_undone(err);
}

PGresult *
jr_db_query(
    struct jr_db *db, const char *sql, size_t count, const char *const *values, int64_t timeout_ms, struct jr_err *err)
{
	const struct jr_statement statement = {sql, count, values};
	PGresult *result = NULL;

	return jr_db_run(db, &statement, 1, &result, timeout_ms, err) ? result : NULL;
}

bool
jr_db_need_schema(struct jr_db *db, struct jr_err *err)
{
	struct jr_need need;
	PGresult *result;

	jr_need_init(&need);
	result = jr_db_query(db, jr_sql_need, JR_COUNT(need.values), need.values, CONNECT_MS, err);
	if (result == NULL)
		return false;
	if (jr_pg_bool(result, 0, 1))
		jr_db_needs_grant(db, NULL);
	PQclear(result);
	return true;
}

bool
jr_db_is_open(const struct jr_db *db)
{
	return jr_pg_is_open(db->pg);
}

const PGconn *
jr_db_conn(const struct jr_db *db)
{
	return jr_pg_conn(db->pg);
}

const char *
jr_db_notice(const struct jr_db *db)
{
	return jr_pg_notice(db->pg);
}

static void
ignore_notice(void *ctx, const PGresult *result)
{
	(void)ctx;
	(void)result;
}

PGconn *
jr_db_detach(struct jr_db *db)
{
	PGconn *conn = jr_pg_detach(db->pg);

	PQsetNoticeReceiver(conn, ignore_notice, NULL);
	jr_db_close(db);
	return conn;
}
