/*
 * handler_sql_txn: one transaction, from its opening to COMMIT. See handler_sql_parts.h.
 *
 * The statement holds no lock on its runs. The last statement before COMMIT is the settle, which raises an error when a
 * claim is lost; so the effects and the ends of the runs commit together or not at all. What must hold: a transaction
 * gives its connection back before it reports to its owner.
 */
#include "handler/handler_sql_parts.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sql_text.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_SLACK_MS 1000 /* the attempt's own timer fires first */
#define DROP_MS 10000         /* a ROLLBACK and the cleaning */
#define CANCEL_AGAIN_MS 1000  /* a cancel that arrives between two statements has no effect */

bool
jr_handler_sql_is_batched(const struct jr_handler *handler)
{
	return handler->settings.batch > 0;
}

/* --- the end of the transaction --- */

/* Give the connection back: the transaction is not on it any more. */
static void
give_back(struct jr_handler_sql_txn *txn, enum jr_pg_end end)
{
	jr_timer_cancel(&txn->cancel_again);
	if (end == JR_PG_DONE || end == JR_PG_FAILED)
		jr_handler_sql_conn_give(txn->conn);
	else
		jr_handler_sql_conn_drop(txn->conn);
	txn->conn = NULL;
}

/* The session is clean when the transaction is over, however it ends. */
static struct jr_request *
new_request(const struct jr_handler_sql_txn *txn, enum jr_request_kind kind, int64_t deadline_ms, jr_reply_fn *fn)
{
	const struct jr_lease times = {.deadline_ms = deadline_ms};
	struct jr_request *request = jr_request_new(kind, &times, fn, txn->conn);

	jr_handler_sql_conn_clean_after(txn->conn, request);
	return request;
}

static void
on_dropped(void *ctx, const struct jr_reply *reply)
{
	struct jr_handler_sql_txn *txn = ((struct jr_handler_sql_conn *)ctx)->txn;

	if (txn == NULL)
		return;
	give_back(txn, reply->end);
	if (txn->sql->host->rehearsal && reply->end == JR_PG_FAILED)
		txn->over(txn->ctx, JR_SQL_REFUSED, &reply->err);
	else
		txn->over(txn->ctx, JR_SQL_DROPPED, NULL);
}

/* Roll back. The runs end with *end, which is taken. */
static void
drop(struct jr_handler_sql_txn *txn, struct jr_handler_sql_end *end)
{
	bool rehearsal = txn->sql->host->rehearsal; /* its deferred triggers take what time they need */
	struct jr_request *request;

	txn->end = *end;
	txn->phase = JR_SQL_DROPPING;
	request = new_request(txn, JR_REQUEST_DROPPING, rehearsal ? JR_NEVER : DROP_MS, on_dropped);
	if (end->verdict == JR_DONE)
		jr_request_add(request, jr_sql_session_constraints, 0, NULL);
	jr_pg_submit(txn->conn->pg, request);
}

/*
 * Why the server refused: the settle is the last statement. Of a batch it says JR074 when a claim is lost; when it
 * waited too long for the row of a run it fails with 55P03, which says nothing of the handler's statement.
 */
static enum jr_sql_fate
fate_of_refused(const struct jr_handler_sql_txn *txn, const struct jr_reply *reply)
{
	if (reply->failed_at + 1 != reply->result_count)
		return JR_SQL_REFUSED;
	if (strcmp(reply->err.sqlstate, "55P03") == 0)
		return JR_SQL_LOCKED;
	if (jr_handler_sql_is_batched(txn->handler) && strcmp(reply->err.sqlstate, "JR074") == 0)
		return JR_SQL_FENCED;
	return JR_SQL_REFUSED;
}

static void
on_closed(void *ctx, const struct jr_reply *reply)
{
	struct jr_handler_sql_txn *txn = ((struct jr_handler_sql_conn *)ctx)->txn;

	if (txn == NULL)
		return;
	give_back(txn, reply->end);
	switch (reply->end) {
	case JR_PG_DONE:
		if (jr_handler_sql_is_batched(txn->handler))
			jr_handler_sql_settle_read(reply->results[reply->result_count - 1], txn->works, txn->count);
		txn->over(txn->ctx, JR_SQL_COMMITTED, NULL);
		return;
	case JR_PG_FAILED:
		txn->over(txn->ctx, fate_of_refused(txn, reply), &reply->err);
		return;
	case JR_PG_UNKNOWN:
		txn->over(txn->ctx, JR_SQL_IN_DOUBT, &reply->err);
		return;
	case JR_PG_UNSENT:
		txn->over(txn->ctx, JR_SQL_LOST, &reply->err);
		return;
	}
}

/* The statement_timeout of the next statement, from the earliest deadline of the runs. -1: no run has a deadline. */
static int64_t
timeout_of(const struct jr_handler_sql_txn *txn)
{
	int64_t first_ms = JR_NEVER, now_ms = jr_clock_now_ms();

	for (size_t i = 0; i < txn->count; i++) {
		if (txn->works[i]->run_deadline_ms < first_ms)
			first_ms = txn->works[i]->run_deadline_ms;
	}
	if (first_ms == JR_NEVER)
		return -1;
	if (txn->count > 1) /* the other half of the time is for running them one by one */
		return first_ms > now_ms + 1 ? (first_ms - now_ms) / 2 : 1;
	return (first_ms > now_ms ? first_ms - now_ms : 0) + TIMEOUT_SLACK_MS;
}

/*
 * The settle of a batch may wait for a lock on the row of one of its runs, for a sixth of the lease (session_clean).
 * The cleaning has reset statement_timeout, so it is set again, from the time that is left now.
 */
static void
add_settle_of_batch(struct jr_request *request, const struct jr_handler_sql_txn *txn)
{
	int64_t timeout_ms = timeout_of(txn);
	char text[24];
	const char *value = jr_print_int(text, timeout_ms);

	if (timeout_ms >= 0)
		jr_request_add(request, jr_sql_session_timeout, 1, &value);
	jr_handler_sql_settle_add_batch(request, txn->works, txn->count);
}

/* The statement has succeeded. `result` is the result of a single run; NULL: there is none. */
static void
finish(struct jr_handler_sql_txn *txn, const char *result)
{
	bool batched = jr_handler_sql_is_batched(txn->handler);
	struct jr_request *request;

	if (txn->sql->host->rehearsal) {
		struct jr_handler_sql_end end = {.verdict = JR_DONE};

		if (result != NULL)
			end.result = jr_xasprintf("{\"result\": %s}", result);
		drop(txn, &end);
		return;
	}
	if (batched && !jr_handler_sql_settle_judge(txn->works, txn->count)) {
		struct jr_handler_sql_end end =
		    jr_handler_sql_end_of(JR_FAIL, "sqlstate:57014", "stopped while the statement ran");

		drop(txn, &end);
		return;
	}
	txn->phase = JR_SQL_CLOSING;
	request = new_request(txn, JR_REQUEST_CLOSING, JR_NEVER, on_closed);
	jr_request_bare(request);
	/* Deferred constraints and triggers belong to the handler: run them before its role and settings are reset. */
	jr_request_add(request, jr_sql_session_constraints, 0, NULL);
	jr_handler_sql_conn_add_cleaning(request);
	if (batched)
		add_settle_of_batch(request, txn);
	else
		jr_handler_sql_settle_add_one(request, txn->works[0]->run, result);
	jr_pg_submit(txn->conn->pg, request);
}

/* --- the statement --- */

static void
leave(struct jr_handler_sql_txn *txn)
{
	struct jr_handler_sql_end end = jr_handler_sql_end_of(JR_FAIL, "left-transaction",
	    "the statement begins or ends a transaction: what it did before may have been committed without the run's completion; leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT to jobrun");

	if (jr_pg_is_in_transaction(txn->conn->pg)) {
		drop(txn, &end);
		return;
	}
	jr_handler_sql_txn_abandon(txn); /* what it has left in the session ends with the connection */
	txn->end = end;
	txn->over(txn->ctx, JR_SQL_LEFT, NULL);
}

static void
judge(struct jr_handler_sql_txn *txn, PGresult *answer)
{
	struct jr_handler_sql_end end = {.error = NULL};
	const char *result = NULL;
	bool good;

	if (!jr_pg_is_in_transaction(txn->conn->pg) || jr_handler_sql_is_control(answer)) {
		leave(txn);
		return;
	}
	good = jr_handler_sql_is_batched(txn->handler)
		   ? jr_handler_sql_read_answer(answer, txn->works, txn->count, &end)
		   : jr_handler_sql_read_result(answer, &result, &end);
	if (good)
		finish(txn, result);
	else
		drop(txn, &end);
}

static void
on_opened(void *ctx, const struct jr_reply *reply)
{
	struct jr_handler_sql_txn *txn = ((struct jr_handler_sql_conn *)ctx)->txn;

	if (txn == NULL)
		return;
	if (reply->end == JR_PG_DONE) {
		judge(txn, reply->results[reply->result_count - 1]);
		return;
	}
	give_back(txn, reply->end);
	if (reply->end == JR_PG_FAILED)
		txn->over(txn->ctx, JR_SQL_REFUSED, &reply->err);
	else if (reply->end == JR_PG_UNKNOWN)
		txn->over(txn->ctx, JR_SQL_LOST, &reply->err);
	else
		txn->over(txn->ctx, JR_SQL_UNSENT, &reply->err);
}

/* A rehearsal needs no function of the schema, and has no lease. */
static void
add_parameters(struct jr_request *request, const struct jr_handler_sql_txn *txn)
{
	const struct jr_host *host = txn->sql->host;
	struct jr_handler_sql_params params;

	jr_handler_sql_params_fill(
	    &params, jr_handler_sql_is_batched(txn->handler) ? NULL : txn->works[0]->run, timeout_of(txn), host->lease);
	if (host->rehearsal)
		jr_request_add(request, jr_sql_session_parameters, JR_SQL_PARAMS_OF_RUN, params.values);
	else
		jr_request_add(request, jr_sql_session_open, JR_COUNT(params.values), params.values);
}

static void
add_statement(struct jr_request *request, const struct jr_handler_sql_txn *txn)
{
	const char *sql = txn->handler->sql, *own = txn->works[0]->run->payload;
	char *payload;

	if (!jr_handler_sql_is_batched(txn->handler)) {
		jr_handler_sql_conn_add_room(txn->conn, request, own == NULL ? 0 : strlen(own));
		jr_request_add_foreign(request, sql, own, 1);
		return;
	}
	/* Ask for one row more than there are runs: that is enough to see that there are too many. */
	payload = jr_handler_sql_group_payload(txn->works, txn->count);
	jr_handler_sql_conn_add_room(txn->conn, request, strlen(payload));
	jr_request_add_foreign(request, sql, payload, txn->count + 1);
	free(payload);
}

/* --- from outside --- */

static void
on_cancel_again(void *ctx)
{
	jr_handler_sql_txn_cancel(ctx);
}

void
jr_handler_sql_txn_init(struct jr_handler_sql_txn *txn, struct jr_handler_sql *sql, const struct jr_handler *handler,
    jr_handler_sql_txn_fn *over, void *ctx)
{
	*txn = (struct jr_handler_sql_txn){.sql = sql, .handler = handler, .over = over, .ctx = ctx};
	jr_timer_init(&txn->cancel_again, on_cancel_again, txn);
}

void
jr_handler_sql_txn_begin(struct jr_handler_sql_txn *txn, struct jr_handler_sql_work *const *works, size_t count)
{
	struct jr_request *request;

	txn->works = works;
	txn->count = count;
	txn->phase = JR_SQL_OPENING;
	txn->conn = jr_handler_sql_conn_take(txn->sql, txn);
	request = new_request(txn, JR_REQUEST_OPENING, JR_NEVER, on_opened);
	jr_request_bare(request);
	add_parameters(request, txn);
	add_statement(request, txn);
	jr_pg_submit(txn->conn->pg, request);
}

bool
jr_handler_sql_txn_is_sent(const struct jr_handler_sql_txn *txn)
{
	return jr_pg_is_open(txn->conn->pg);
}

void
jr_handler_sql_txn_cancel(struct jr_handler_sql_txn *txn)
{
	jr_handler_sql_conn_cancel(txn->conn);
	jr_timer_set(txn->sql->host->loop, &txn->cancel_again, jr_clock_now_ms() + CANCEL_AGAIN_MS);
}

void
jr_handler_sql_txn_abandon(struct jr_handler_sql_txn *txn)
{
	jr_timer_cancel(&txn->cancel_again);
	jr_handler_sql_conn_drop(txn->conn);
	txn->conn = NULL;
}

void
jr_handler_sql_txn_release(struct jr_handler_sql_txn *txn)
{
	jr_handler_sql_end_release(&txn->end);
}
