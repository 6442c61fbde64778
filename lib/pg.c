/*
 * pg: see pg.h.
 *
 * One batch is on the wire at a time. Its statements are numbered through: first what opens the transaction, then the
 * owner's, then what closes it. In pipeline mode each statement answers with a result and an end mark (NULL), and the
 * Sync behind them with PGRES_PIPELINE_SYNC; only then is the batch over and the reply given. After an error inside an
 * explicit transaction the server has skipped COMMIT, so a ROLLBACK is put in front of everything else.
 *
 * What must hold: every batch gets exactly one reply, and none is given from inside a call of the owner (failures are
 * put off to a timer that is due at once).
 */
#include "pg.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "pg_batch.h"
#include "pg_connect.h"
#include "pg_error.h"
#include "sql_text.h"

enum state {
	CLOSED,
	CONNECTING,
	OPEN
};

struct jr_pg {
	struct jr_loop *loop;
	struct jr_pg_events events;
	char *conninfo;
	PGconn *conn;
	enum state state;
	bool answered; /* a batch, since it was opened */
	struct jr_watch watch;
	struct jr_timer deadline; /* of connecting, or of the batch on the wire */
	struct jr_timer broken;   /* a failure to be told from the loop */
	struct jr_err why;
	struct jr_batch *wire;
	struct jr_batch *failed; /* refused; its reply waits for the rollback that is on the wire */
	struct jr_batch *head, **tail;
	struct jr_pg_address address; /* of the last good connection */
	char notice[512];
};

static void
hang_up(struct jr_pg *pg)
{
	jr_watch_remove(&pg->watch);
	jr_timer_cancel(&pg->deadline);
	jr_timer_cancel(&pg->broken);
	PQfinish(pg->conn);
}

/* The connection is over: tell everybody, the batch on the wire first. */
static void
tear_down(void *ctx)
{
	struct jr_pg *pg = ctx;
	struct jr_batch *failed = pg->failed, *wire = pg->wire, *queued = pg->head;
	struct jr_err why = pg->why;

	hang_up(pg);
	pg->conn = NULL;
	pg->state = CLOSED;
	pg->failed = NULL;
	pg->wire = NULL;
	pg->head = NULL;
	pg->tail = &pg->head;
	if (failed != NULL)
		jr_batch_reply(failed, JR_PG_FAILED, &failed->err);
	if (wire != NULL)
		jr_batch_reply(wire, JR_PG_UNKNOWN, &why);
	while (queued != NULL) {
		struct jr_batch *next = queued->next;

		jr_batch_reply(queued, JR_PG_UNSENT, &why);
		queued = next;
	}
	pg->events.lost(pg->events.ctx, &why);
}

/* From anywhere: the connection is no good any more. Told from the loop. */
static void
break_later(struct jr_pg *pg)
{
	jr_watch_remove(&pg->watch);
	jr_timer_cancel(&pg->deadline);
	jr_timer_set(pg->loop, &pg->broken, 0);
}

static void
break_with_libpq(struct jr_pg *pg, const char *what)
{
	jr_pg_conn_error(pg->conn, what, &pg->why);
	break_later(pg);
}

static void
on_deadline(void *ctx)
{
	struct jr_pg *pg = ctx;

	if (pg->state == CONNECTING)
		jr_fail(&pg->why, JR_E_TEMP, "could not connect to the database in time");
	else
		jr_fail(&pg->why, JR_E_TEMP, "the database did not answer in time (%lld ms)",
		    (long long)pg->wire->deadline_ms);
	tear_down(pg);
}

/* Bytes out; false if the connection is broken. */
static bool
flush(struct jr_pg *pg)
{
	int left = PQflush(pg->conn);

	if (left < 0) {
		break_with_libpq(pg, "could not send to the database");
		return false;
	}
	jr_watch_set(
	    pg->loop, &pg->watch, PQsocket(pg->conn), (short)(POLLIN | (left > 0 ? POLLOUT : 0)));
	return true;
}

/* A batch that goes on with a transaction which is gone must not run on its own. */
static bool
is_orphan(const struct jr_pg *pg, const struct jr_batch *batch)
{
	return batch->kind == JR_BATCH_CLOSING && PQtransactionStatus(pg->conn) != PQTRANS_INTRANS;
}

static void
send_batch(struct jr_pg *pg, struct jr_batch *batch)
{
	pg->wire = batch;
	batch->sent_ms = jr_clock_now_ms();
	jr_timer_set(pg->loop, &pg->deadline, jr_clock_after(batch->sent_ms, batch->deadline_ms));
	if (jr_batch_send(batch, pg->conn))
		flush(pg);
	else
		break_with_libpq(pg, "could not send to the database");
}

static void
send_next(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->head;

	if (pg->state != OPEN || pg->wire != NULL || batch == NULL || pg->broken.at_ms != JR_NEVER)
		return;
	pg->head = batch->next;
	if (pg->head == NULL)
		pg->tail = &pg->head;
	if (is_orphan(pg, batch)) {
		jr_fail(&batch->err, JR_E_TEMP, "the transaction it belongs to is gone");
		jr_batch_reply(batch, JR_PG_UNSENT, &batch->err);
		send_next(pg);
		return;
	}
	if (batch->kind != JR_BATCH_OPENING)
		jr_batch_add_statement(batch, jr_sql_commit, 0, NULL);
	send_batch(pg, batch);
}

/* An explicit transaction that failed is still open on the server, since COMMIT was skipped. */
static void
roll_back(struct jr_pg *pg, struct jr_batch *failed)
{
	struct jr_batch *batch = jr_xcalloc(1, sizeof(*batch));

	pg->failed = failed;
	batch->deadline_ms = failed->deadline_ms;
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
	if (failed == NULL && PQtransactionStatus(pg->conn) == PQTRANS_INERROR) {
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
	send_next(pg);
}

/* One thing that libpq had to say. false: nothing more for now. */
static bool
take_result(struct jr_pg *pg)
{
	struct jr_batch *batch = pg->wire;
	PGresult *result = PQgetResult(pg->conn);

	if (result == NULL) {
		return batch != NULL && jr_batch_end_answer(batch);
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
	jr_batch_take(batch, result);
	return true;
}

static void
serve_open(struct jr_pg *pg, short revents)
{
	if ((revents & (POLLIN | POLLHUP | POLLERR)) && !PQconsumeInput(pg->conn)) {
		break_with_libpq(pg, "lost the connection to the database");
		return;
	}
	if (!flush(pg))
		return;
	while (pg->state == OPEN && pg->broken.at_ms == JR_NEVER && !PQisBusy(pg->conn)) {
		if (!take_result(pg))
			break;
	}
	if (pg->state == OPEN && pg->broken.at_ms == JR_NEVER &&
	    PQstatus(pg->conn) == CONNECTION_BAD)
		break_with_libpq(pg, "lost the connection to the database");
}

static void
connected(struct jr_pg *pg)
{
	jr_timer_cancel(&pg->deadline);
	if (PQsetnonblocking(pg->conn, 1) != 0 || PQenterPipelineMode(pg->conn) != 1) {
		break_with_libpq(pg, "cannot use the connection");
		return;
	}
	jr_pg_address_of(pg->conn, &pg->address);
	pg->state = OPEN;
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLIN);
	pg->events.opened(pg->events.ctx);
	send_next(pg);
}

static void
serve_connecting(struct jr_pg *pg)
{
	PostgresPollingStatusType next = PQconnectPoll(pg->conn);

	if (next == PGRES_POLLING_OK)
		connected(pg);
	else if (next == PGRES_POLLING_READING)
		jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLIN);
	else if (next == PGRES_POLLING_WRITING)
		jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLOUT);
	else
		break_with_libpq(pg, NULL);
}

static void
on_socket(void *ctx, short revents)
{
	struct jr_pg *pg = ctx;

	if (pg->state == CONNECTING)
		serve_connecting(pg);
	else
		serve_open(pg, revents);
}

static void
on_notice(void *ctx, const PGresult *result)
{
	struct jr_pg *pg = ctx;
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	size_t len = text == NULL ? 0 : strnlen(text, sizeof(pg->notice) - 1);

	if (len == 0)
		return;
	memcpy(pg->notice, text, len);
	pg->notice[len] = '\0';
}

struct jr_pg *
jr_pg_new(struct jr_loop *loop, const char *conninfo, const struct jr_pg_events *events)
{
	struct jr_pg *pg = jr_xcalloc(1, sizeof(*pg));

	pg->loop = loop;
	pg->events = *events;
	pg->conninfo = jr_xstrdup_or_null(conninfo);
	pg->tail = &pg->head;
	jr_watch_init(&pg->watch, on_socket, pg);
	jr_timer_init(&pg->deadline, on_deadline, pg);
	jr_timer_init(&pg->broken, tear_down, pg);
	return pg;
}

void
jr_pg_free(struct jr_pg *pg)
{
	if (pg == NULL)
		return;
	hang_up(pg);
	jr_batch_free(pg->wire);
	jr_batch_free(pg->failed);
	for (struct jr_batch *next; pg->head != NULL; pg->head = next) {
		next = pg->head->next;
		jr_batch_free(pg->head);
	}
	free(pg->conninfo);
	free(pg);
}

void
jr_pg_open(struct jr_pg *pg, int64_t timeout_ms, bool same_address)
{
	pg->state = CONNECTING;
	pg->answered = false;
	pg->conn = jr_pg_connect(pg->conninfo, same_address ? &pg->address : NULL, &pg->why);
	if (pg->conn == NULL || PQstatus(pg->conn) == CONNECTION_BAD) {
		if (pg->conn != NULL)
			jr_pg_conn_error(pg->conn, NULL, &pg->why);
		break_later(pg);
		return;
	}
	PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE); /* so that a refusal names its SQLSTATE */
	(void)PQsetNoticeReceiver(pg->conn, on_notice, pg);
	if (!same_address)
		timeout_ms = jr_pg_connect_ms(pg->conn, timeout_ms);
	jr_timer_set(pg->loop, &pg->deadline, jr_clock_after(jr_clock_now_ms(), timeout_ms));
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLOUT);
}

bool
jr_pg_is_open(const struct jr_pg *pg)
{
	return pg->state == OPEN && pg->broken.at_ms == JR_NEVER;
}

bool
jr_pg_has_answered(const struct jr_pg *pg)
{
	return pg->answered;
}

bool
jr_pg_is_idle(const struct jr_pg *pg)
{
	return jr_pg_is_open(pg) && pg->wire == NULL && pg->head == NULL;
}

void
jr_pg_submit(struct jr_pg *pg, struct jr_batch *batch)
{
	*pg->tail = batch;
	pg->tail = &batch->next;
	send_next(pg);
}

const PGconn *
jr_pg_conn(const struct jr_pg *pg)
{
	return pg->conn;
}

const char *
jr_pg_notice(struct jr_pg *pg)
{
	return pg->notice[0] == '\0' ? NULL : pg->notice;
}

PGconn *
jr_pg_detach(struct jr_pg *pg)
{
	PGconn *conn = pg->conn;

	jr_watch_remove(&pg->watch);
	PQexitPipelineMode(conn);
	pg->conn = NULL;
	pg->state = CLOSED;
	return conn;
}
