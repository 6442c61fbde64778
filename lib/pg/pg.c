/*
 * pg: see pg.h.
 *
 * The life of a connection: made without blocking, watched, lost, given away. What must hold: a loss is told from the
 * loop and never from inside a call of the owner (failures are put off to a timer that is due at once).
 */
#include "pg/pg.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_parts.h"

#define CANCEL_EVERY_MS 50 /* the runs of a set are stopped one by one, and one cancel is for all */

static void
hang_up(struct jr_pg *pg)
{
	jr_watch_remove(&pg->watch);
	jr_timer_cancel(&pg->deadline);
	jr_timer_cancel(&pg->broken);
	PQfinish(pg->conn);
	jr_pg_meter_free(pg->meter);
	pg->meter = NULL;
}

/* The connection is over: tell everybody. */
static void
tear_down(void *ctx)
{
	struct jr_pg *pg = ctx;
	struct jr_err why = pg->why;

	hang_up(pg);
	pg->conn = NULL;
	pg->state = JR_PG_CLOSED;
	jr_pg_fail_batches(pg);
	pg->events.lost(pg->events.ctx, &why);
}

void
jr_pg_break_later(struct jr_pg *pg)
{
	jr_watch_remove(&pg->watch);
	jr_timer_cancel(&pg->deadline);
	jr_timer_set(pg->loop, &pg->broken, 0);
}

void
jr_pg_break(struct jr_pg *pg, const char *what)
{
	jr_pg_conn_error(pg->conn, what, &pg->why);
	jr_pg_break_later(pg);
}

static void
on_deadline(void *ctx)
{
	struct jr_pg *pg = ctx;

	if (pg->state == JR_PG_CONNECTING)
		jr_fail(&pg->why, JR_E_TEMP, "could not connect to the database in time");
	else
		jr_fail(&pg->why, JR_E_TEMP, "the database did not answer in time (%lld ms)",
		    (long long)pg->wire->deadline_ms);
	tear_down(pg);
}

static void
connected(struct jr_pg *pg)
{
	jr_timer_cancel(&pg->deadline);
	if (PQsetnonblocking(pg->conn, 1) != 0 || PQenterPipelineMode(pg->conn) != 1) {
		jr_pg_break(pg, "cannot use the connection");
		return;
	}
	jr_pg_address_of(pg->conn, &pg->address);
	pg->state = JR_PG_OPEN;
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLIN);
	pg->events.opened(pg->events.ctx);
	jr_pg_send_next(pg);
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
		jr_pg_break(pg, NULL);
}

static void
on_socket(void *ctx, short revents)
{
	struct jr_pg *pg = ctx;

	if (pg->state == JR_PG_CONNECTING)
		serve_connecting(pg);
	else
		jr_pg_serve_wire(pg, revents);
}

static void
on_notice(void *ctx, const PGresult *result)
{
	struct jr_pg *pg = ctx;
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	size_t len = text == NULL ? 0 : strnlen(text, sizeof(pg->notice) - 1);

	if (pg->wire != NULL)
		pg->wire->rows.arrived = 0; /* what came is not part of a row */
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
	pg->state = JR_PG_CONNECTING;
	pg->answered = false;
	pg->conn = jr_pg_connect(pg->conninfo, same_address ? &pg->address : NULL, &pg->why);
	if (pg->conn == NULL || PQstatus(pg->conn) == CONNECTION_BAD) {
		if (pg->conn != NULL)
			jr_pg_conn_error(pg->conn, NULL, &pg->why);
		jr_pg_break_later(pg);
		return;
	}
	PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE); /* so that a refusal names its SQLSTATE */
	(void)PQsetNoticeReceiver(pg->conn, on_notice, pg);
	if (!same_address)
		timeout_ms = jr_pg_connect_ms(pg->conn, timeout_ms);
	jr_timer_set(pg->loop, &pg->deadline, jr_clock_after(jr_clock_now_ms(), timeout_ms));
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLOUT);
}

void
jr_pg_set_address(struct jr_pg *pg, const struct jr_pg_address *address)
{
	pg->address = *address;
}

void
jr_pg_get_address(const struct jr_pg *pg, struct jr_pg_address *address)
{
	*address = pg->address;
}

void
jr_pg_cancel(struct jr_pg *pg)
{
	int64_t now_ms = jr_clock_now_ms();

	if (pg->wire == NULL || pg->broken.at_ms != JR_NEVER)
		return;
	if (pg->cancelled_ms != 0 && now_ms - pg->cancelled_ms < CANCEL_EVERY_MS)
		return;
	pg->cancelled_ms = now_ms;
	jr_pg_cancel_apart(pg->conn);
}

bool
jr_pg_is_in_transaction(const struct jr_pg *pg)
{
	return pg->conn != NULL && PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;
}

bool
jr_pg_is_open(const struct jr_pg *pg)
{
	return pg->state == JR_PG_OPEN && pg->broken.at_ms == JR_NEVER;
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

	assert(pg->meter == NULL); /* its socket would not be one */
	jr_watch_remove(&pg->watch);
	PQexitPipelineMode(conn);
	pg->conn = NULL;
	pg->state = JR_PG_CLOSED;
	return conn;
}
