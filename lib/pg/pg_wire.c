/*
 * pg_wire: see pg_parts.h.
 *
 * One batch is on the wire at a time. Its statements are numbered through: first what opens the transaction, then the
 * owner's, then what closes it. In pipeline mode each statement answers with a result and an end mark (NULL), and the
 * Sync behind them with PGRES_PIPELINE_SYNC; only then is the batch over and the reply given. After an error inside an
 * explicit transaction the server has skipped COMMIT, so a ROLLBACK is put in front of everything else.
 *
 * What must hold: every batch gets exactly one reply, from the loop.
 */
#include <poll.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_parts.h"
#include "sql_text.h"

#define ROLLBACK_MS 10000 /* of a batch without a deadline */

/* Bytes out; false if the connection is broken. */
static bool
flush(struct jr_pg *pg)
{
	int left = PQflush(pg->conn);

	if (left < 0) {
		jr_pg_break(pg, "could not send to the database");
		return false;
	}
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), (short)(POLLIN | (left > 0 ? POLLOUT : 0)));
	return true;
}

/* A batch that goes on with a transaction which is gone must not run on its own. */
static bool
is_orphan(const struct jr_pg *pg, const struct jr_batch *batch)
{
	return (batch->kind == JR_BATCH_CLOSING || batch->kind == JR_BATCH_DROPPING) && !jr_pg_is_in_transaction(pg);
}

/* Without it (no descriptors) reading is bounded less well; that is no reason not to work. */
static void
meter(struct jr_pg *pg, const struct jr_batch *batch)
{
	if (pg->meter == NULL && jr_batch_has_foreign(batch))
		pg->meter = jr_pg_meter_new(pg->loop, PQsocket(pg->conn));
}

static void
send_batch(struct jr_pg *pg, struct jr_batch *batch)
{
	pg->wire = batch;
	meter(pg, batch);
	batch->sent_ms = jr_clock_now_ms();
	jr_timer_set(pg->loop, &pg->deadline, jr_clock_after(batch->sent_ms, batch->deadline_ms));
	if (jr_batch_send(batch, pg->conn))
		flush(pg);
	else
		jr_pg_break(pg, "could not send to the database");
}

void
jr_pg_send_next(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->head;

	if (pg->state != JR_PG_OPEN || pg->wire != NULL || batch == NULL || pg->broken.at_ms != JR_NEVER)
		return;
	pg->head = batch->next;
	if (pg->head == NULL)
		pg->tail = &pg->head;
	if (is_orphan(pg, batch)) {
		jr_fail(&batch->err, JR_E_TEMP, "the transaction it belongs to is gone");
		jr_batch_reply(batch, JR_PG_UNSENT, &batch->err);
		jr_pg_send_next(pg);
		return;
	}
	if (batch->kind == JR_BATCH_DROPPING)
		jr_batch_add_statement(batch, jr_sql_rollback, 0, NULL);
	else if (batch->kind != JR_BATCH_OPENING)
		jr_batch_add_statement(batch, jr_sql_commit, 0, NULL);
	send_batch(pg, batch);
}

/* Has it left a transaction open that it must not: since it failed, and what would have closed it was skipped? */
static bool
needs_rollback(const struct jr_pg *pg, const struct jr_batch *batch)
{
	PGTransactionStatusType status = PQtransactionStatus(pg->conn);

	return status == PQTRANS_INERROR || (batch->failed && status == PQTRANS_INTRANS);
}

static void
roll_back(struct jr_pg *pg, struct jr_batch *failed)
{
	struct jr_batch *batch = jr_xcalloc(1, sizeof(*batch));

	pg->failed = failed;
	batch->deadline_ms = failed->deadline_ms < ROLLBACK_MS ? failed->deadline_ms : ROLLBACK_MS;
	jr_batch_add_statement(batch, jr_sql_rollback, 0, NULL);
	send_batch(pg, batch);
}

/* The Sync of the batch on the wire has been answered. */
static void
finish_batch(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->wire, *failed = pg->failed;

	jr_timer_cancel(&pg->deadline);
	pg->answered = true;
	if (failed == NULL && needs_rollback(pg, batch)) {
		roll_back(pg, batch);
		return;
	}
	pg->wire = NULL;
	pg->failed = NULL;
	if (failed != NULL) { /* batch was its rollback */
		jr_batch_free(batch);
		batch = failed;
	}
	jr_batch_reply(batch, batch->failed ? JR_PG_FAILED : JR_PG_DONE, &batch->err);
	jr_pg_send_next(pg);
}

/*
 * What the batch on the wire has still to say is not read: it has failed, and the connection is of no use any more. The
 * server finds it closed and rolls back.
 */
static void
give_up(struct jr_pg *pg, struct jr_batch *batch)
{
	pg->failed = batch;
	pg->wire = NULL;
	pg->why = batch->err;
	jr_pg_break_later(pg);
}

/* What has come is read; not more of a user's rows than may be in memory. false: the connection is broken. */
static bool
consume(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->wire;
	bool foreign = batch != NULL && jr_batch_is_foreign(batch);

	if (foreign && jr_pg_rows_are_many(&batch->rows)) {
		jr_batch_refuse_rows(batch);
		give_up(pg, batch);
		return false;
	}
	if (foreign ? jr_pg_rows_consume(&batch->rows, pg->conn) : PQconsumeInput(pg->conn) == 1)
		return true;
	jr_pg_break(pg, "lost the connection to the database");
	return false;
}

/* One thing that libpq had to say. false: nothing more for now. */
static bool
take_result(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->wire;
	PGresult *result = PQgetResult(pg->conn);

	if (result == NULL) {
		return batch != NULL && jr_batch_end_answer(batch, pg->conn);
	}
	if (batch == NULL) {
		PQclear(result);
		return true;
	}
	if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
		PQclear(result);
		finish_batch(pg);
		return true;
	}
	if (!jr_batch_take(batch, result))
		give_up(pg, batch);
	return true;
}

static bool
is_usable(const struct jr_pg *pg)
{
	return pg->state == JR_PG_OPEN && pg->broken.at_ms == JR_NEVER;
}

/*
 * Behind the replies, so that the owner knows what was answered before. What has come is already parsed: no row of a
 * user's is touched here. Taken also when nobody wants it, or libpq would keep all of it.
 */
static void
take_notifications(struct jr_pg *pg)
{
	while (is_usable(pg)) {
		PGnotify *notification = PQnotifies(pg->conn);

		if (notification == NULL)
			return;
		if (pg->events.notified != NULL)
			pg->events.notified(pg->events.ctx, notification->extra);
		PQfreemem(notification);
	}
}

void
jr_pg_serve_wire(struct jr_pg *pg, short revents)
{
	if ((revents & (POLLIN | POLLHUP | POLLERR)) && !consume(pg))
		return;
	if (!flush(pg))
		return;
	while (is_usable(pg) && !PQisBusy(pg->conn)) {
		if (!take_result(pg))
			break;
	}
	take_notifications(pg);
	if (is_usable(pg) && PQstatus(pg->conn) == CONNECTION_BAD)
		jr_pg_break(pg, "lost the connection to the database");
}

void
jr_pg_submit(struct jr_pg *pg, struct jr_batch *batch)
{
	*pg->tail = batch;
	pg->tail = &batch->next;
	jr_pg_send_next(pg);
}

/* The batch on the wire first. An opening batch that the server has refused has no commit that could have happened. */
void
jr_pg_fail_batches(struct jr_pg *pg)
{
	struct jr_batch *failed = pg->failed, *wire = pg->wire, *queued = pg->head;
	struct jr_err why = pg->why;

	pg->failed = NULL;
	pg->wire = NULL;
	pg->head = NULL;
	pg->tail = &pg->head;
	if (failed != NULL)
		jr_batch_reply(failed, JR_PG_FAILED, &failed->err);
	if (wire != NULL && wire->failed && wire->kind == JR_BATCH_OPENING)
		jr_batch_reply(wire, JR_PG_FAILED, &wire->err);
	else if (wire != NULL)
		jr_batch_reply(wire, JR_PG_UNKNOWN, &why);
	while (queued != NULL) {
		struct jr_batch *next = queued->next;

		jr_batch_reply(queued, JR_PG_UNSENT, &why);
		queued = next;
	}
}
