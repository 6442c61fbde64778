/*
 * pg: see pg.h.
 *
 *	pg.c         one connection and its requests: connect, send, read, reply, lose, hand over
 *	pg_connect.c connection options, and one try to connect, host by host
 *	pg_hosts.c   the hosts of a connection string, in which order they are tried; pg_lookup.c: their addresses
 *	pg_request.c the statements and results of one request
 *	pg_rows.c    rows of a user's statement, one by one
 *	pg_form.c    checks the form of a result
 *	pg_meter.c   bounds what libpq buffers
 *	pg_cancel.c  libpq's cancel, in a process of its own (pg_apart.c)
 *	pg_error.c   errors of the server and of libpq
 *	pg_array.c   arrays as parameters
 *	pg_ask.c     one statement at a time, on a connection that was handed over
 *
 * One request is on the wire at a time. Its statements have one numbering: first those that open the transaction, then
 * the owner's, then the one that closes it. In pipeline mode the server answers each statement with a result, which an
 * end mark (NULL) follows, and the Sync with PGRES_PIPELINE_SYNC. Only then is the request over and the reply given.
 * After an error in an explicit transaction the server skips COMMIT, so a ROLLBACK is sent before the next request.
 * With it goes the cleaning of jr_request_clean: a pooler takes a session back at a Sync outside a transaction.
 *
 * What must hold: every request gets exactly one reply, from the loop. `lost`, too, is called from the loop and never
 * from inside a call of the owner: a failure sets a timer that is due at once.
 */
#include "pg/pg.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_cancel.h"
#include "pg/pg_connect.h"
#include "pg/pg_lookup.h"
#include "pg/pg_meter.h"
#include "pg/pg_request.h"
#include "sql_text.h"

#define CANCEL_EVERY_MS 50 /* the runs of a batch are stopped one by one, and one cancel serves all of them */
#define ROLLBACK_MS 10000  /* deadline of the ROLLBACK and the cleaning, if the request's own is later */

enum state {
	CLOSED,
	CONNECTING,
	OPEN
};

struct jr_pg {
	struct jr_loop *loop;
	struct jr_pg_events events;
	char *conninfo;
	const char *kind; /* see jr_pg_needs_grant */
	PGconn *conn;
	enum state state;
	bool answered; /* a request was answered since jr_pg_open */
	struct jr_watch watch;
	struct jr_timer deadline; /* of the host that is tried, or of the request on the wire */
	struct jr_timer broken;   /* set when the connection has failed: tear_down from the loop */
	struct jr_err why;
	struct jr_request *wire;
	struct jr_request *failed; /* refused; its reply waits for the rollback that is on the wire */
	struct jr_request *head, **tail;
	struct jr_pg_dial dial;
	struct jr_pg_lookup lookup;
	int64_t cancelled_ms;      /* when the last cancel was sent; 0: never */
	struct jr_pg_meter *meter; /* set once a user's statement has answered in more than one read */
	char notice[512];
};

bool
jr_pg_is_open(const struct jr_pg *pg)
{
	return pg->state == OPEN && pg->broken.at_ms == JR_NEVER;
}

bool
jr_pg_is_in_transaction(const struct jr_pg *pg)
{
	return pg->conn != NULL && PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;
}

/* The connection is unusable, pg->why says why. tear_down follows from the loop. */
static void
break_later(struct jr_pg *pg)
{
	jr_watch_remove(&pg->watch);
	jr_timer_cancel(&pg->deadline);
	jr_timer_set(pg->loop, &pg->broken, 0);
}

/* The same, with the reason from libpq. */
static void
break_off(struct jr_pg *pg, const char *what)
{
	jr_pg_conn_error(pg->conn, what, &pg->why);
	break_later(pg);
}

/* Send what libpq has buffered, as far as the socket takes it; false if the connection is broken. */
static bool
flush(struct jr_pg *pg)
{
	int left = PQflush(pg->conn);

	if (left < 0) {
		break_off(pg, "could not send to the database");
		return false;
	}
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), (short)(POLLIN | (left > 0 ? POLLOUT : 0)));
	return true;
}

/* A request that continues a transaction must not run when that transaction is gone. */
static bool
is_orphan(const struct jr_pg *pg, const struct jr_request *request)
{
	return (request->kind == JR_REQUEST_CLOSING || request->kind == JR_REQUEST_DROPPING) &&
	       !jr_pg_is_in_transaction(pg);
}

/*
 * To be called before each read. The first read of an answer takes no more than libpq's buffer holds, and usually it is
 * the whole answer; so only a user's statement that answers in more than one read is metered. If the meter cannot be
 * made (no descriptors), memory is bounded less well, and the request goes on all the same.
 */
static void
meter(struct jr_pg *pg, struct jr_request *request)
{
	if (pg->meter == NULL && request->read && jr_request_has_foreign(request))
		pg->meter = jr_pg_meter_new(pg->loop, PQsocket(pg->conn));
	request->read = true;
}

static void
send_request(struct jr_pg *pg, struct jr_request *request)
{
	pg->wire = request;
	request->sent_ms = jr_clock_now_ms();
	jr_timer_set(pg->loop, &pg->deadline, jr_clock_after(request->sent_ms, request->deadline_ms));
	if (!jr_request_send(request, pg->conn))
		break_off(pg, "could not send to the database");
	else if (flush(pg))
		jr_pg_meter_pass(pg->meter);
}

/* Send the next request, if there is one and nothing is on the wire. */
static void
send_next(struct jr_pg *pg)
{
	struct jr_request *request = pg->head;

	if (!jr_pg_is_open(pg) || pg->wire != NULL || request == NULL)
		return;
	pg->head = request->next;
	if (pg->head == NULL)
		pg->tail = &pg->head;
	if (is_orphan(pg, request)) {
		jr_fail(&request->err, JR_E_TEMP, "the transaction that this request continues is gone");
		jr_request_reply(request, JR_PG_UNSENT, &request->err);
		send_next(pg);
		return;
	}
	if (request->kind == JR_REQUEST_DROPPING)
		jr_request_add_rollback(request, request);
	else if (request->kind != JR_REQUEST_OPENING)
		jr_request_add_statement(request, jr_sql_commit, 0, NULL);
	send_request(pg, request);
}

/* Has the request left a transaction open because it failed and the server skipped its COMMIT? */
static bool
needs_rollback(const struct jr_pg *pg, const struct jr_request *request)
{
	PGTransactionStatusType status = PQtransactionStatus(pg->conn);

	return status == PQTRANS_INERROR || (request->failed && status == PQTRANS_INTRANS);
}

static void
roll_back(struct jr_pg *pg, struct jr_request *failed)
{
	struct jr_request *request = jr_xcalloc(1, sizeof(*request));

	pg->failed = failed;
	request->deadline_ms = failed->deadline_ms < ROLLBACK_MS ? failed->deadline_ms : ROLLBACK_MS;
	jr_request_add_rollback(request, failed);
	send_request(pg, request);
}

/* The Sync of the request on the wire has been answered. */
static void
finish_request(struct jr_pg *pg)
{
	struct jr_request *request = pg->wire, *failed = pg->failed;

	jr_timer_cancel(&pg->deadline);
	pg->answered = true;
	if (failed == NULL && needs_rollback(pg, request)) {
		roll_back(pg, request);
		return;
	}
	if (failed != NULL && request->failed) { /* nobody knows what is left in the session */
		pg->why = request->err;
		break_later(pg);
		return;
	}
	if (!request->failed && !jr_request_makes_sense(request, &pg->why)) {
		break_later(pg);
		return;
	}
	pg->wire = NULL;
	pg->failed = NULL;
	if (failed != NULL) { /* `request` was the ROLLBACK of `failed` */
		jr_request_free(request);
		request = failed;
	}
	if (request->failed && !request->bare)
		jr_pg_advise(&request->err, pg->kind, pg->conn);
	jr_request_reply(request, request->failed ? JR_PG_FAILED : JR_PG_DONE, &request->err);
	send_next(pg);
}

/*
 * The request on the wire has failed and the rest of its answers will not be read. So the connection is closed, and the
 * server rolls back.
 */
static void
give_up(struct jr_pg *pg, struct jr_request *request)
{
	pg->failed = request;
	pg->wire = NULL;
	pg->why = request->err;
	break_later(pg);
}

/* Read what has come, but not more of a user's rows than may be in memory. false: the connection is broken. */
static bool
consume(struct jr_pg *pg)
{
	struct jr_request *request = pg->wire;
	bool foreign = request != NULL && jr_request_is_foreign(request);

	if (foreign && jr_pg_rows_are_many(&request->rows)) {
		jr_request_refuse_rows(request);
		give_up(pg, request);
		return false;
	}
	if (request != NULL)
		meter(pg, request);
	if (foreign ? jr_pg_rows_consume(&request->rows, pg->conn) : PQconsumeInput(pg->conn) == 1)
		return true;
	break_off(pg, "lost the connection to the database");
	return false;
}

/* Take one result, end mark or Sync from libpq. false: nothing more for now. */
static bool
take_result(struct jr_pg *pg)
{
	struct jr_request *request = pg->wire;
	PGresult *result = PQgetResult(pg->conn);

	if (result == NULL) {
		return request != NULL && jr_request_end_answer(request, pg->conn);
	}
	if (request == NULL) {
		PQclear(result);
		return true;
	}
	if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
		PQclear(result);
		finish_request(pg);
		return true;
	}
	if (!jr_request_take(request, result))
		give_up(pg, request);
	return true;
}

/*
 * Called after the replies, so that the owner knows the answers that came before. PQnotifies only returns what was
 * parsed already, so it reads no rows of a user's statement. Notifications are taken even if the owner does not want
 * them, or libpq would keep all of them.
 */
static void
take_notifications(struct jr_pg *pg)
{
	while (jr_pg_is_open(pg)) {
		PGnotify *notification = PQnotifies(pg->conn);

		if (notification == NULL)
			return;
		if (pg->events.notified != NULL)
			pg->events.notified(pg->events.ctx, notification->extra);
		PQfreemem(notification);
	}
}

static void
tell_idle(struct jr_pg *pg)
{
	if (jr_pg_is_idle(pg) && pg->events.idle != NULL)
		pg->events.idle(pg->events.ctx);
}

/* Read answers, and send what could not be sent before. */
static void
serve_wire(struct jr_pg *pg, short revents)
{
	if ((revents & (POLLIN | POLLHUP | POLLERR)) && !consume(pg))
		return;
	if (!flush(pg))
		return;
	while (jr_pg_is_open(pg) && !PQisBusy(pg->conn)) {
		if (!take_result(pg))
			break;
	}
	take_notifications(pg);
	if (jr_pg_is_open(pg) && PQstatus(pg->conn) == CONNECTION_BAD)
		break_off(pg, "lost the connection to the database");
	tell_idle(pg);
}

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

/*
 * The request on the wire first. If it is an opening request that the server has refused, it is not in doubt: it has no
 * COMMIT.
 */
static void
fail_requests(struct jr_pg *pg)
{
	struct jr_request *failed = pg->failed, *wire = pg->wire, *queued = pg->head;
	struct jr_err why = pg->why;

	pg->failed = NULL;
	pg->wire = NULL;
	pg->head = NULL;
	pg->tail = &pg->head;
	if (failed != NULL)
		jr_request_reply(failed, JR_PG_FAILED, &failed->err);
	if (wire != NULL && wire->failed && wire->kind == JR_REQUEST_OPENING)
		jr_request_reply(wire, JR_PG_FAILED, &wire->err);
	else if (wire != NULL)
		jr_request_reply(wire, JR_PG_UNKNOWN, &why);
	jr_request_reply_unsent(queued, &why);
}

/* Close the connection, reply to every request and call `lost`. */
static void
tear_down(void *ctx)
{
	struct jr_pg *pg = ctx;
	struct jr_err why = pg->why;

	hang_up(pg);
	pg->conn = NULL;
	pg->state = CLOSED;
	fail_requests(pg);
	pg->events.lost(pg->events.ctx, &why);
}

static void
on_notice(void *ctx, const PGresult *result)
{
	struct jr_pg *pg = ctx;
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	size_t len = text == NULL ? 0 : strnlen(text, sizeof(pg->notice) - 1);

	if (pg->wire != NULL) {
		pg->wire->rows.arrived = 0; /* the bytes so far were not part of a row */
		jr_request_take_notice(pg->wire, &pg->events, result);
	}
	if (len == 0)
		return;
	memcpy(pg->notice, text, len);
	pg->notice[len] = '\0';
}

static void
await_host(struct jr_pg *pg)
{
	jr_timer_set(pg->loop, &pg->deadline, jr_pg_dial_until_ms(&pg->dial));
}

/* A connection that begins. NULL: there is none, pg->why says why. */
static void
take_new(struct jr_pg *pg, PGconn *conn)
{
	pg->conn = conn;
	if (conn != NULL && PQstatus(conn) != CONNECTION_BAD) {
		PQsetErrorVerbosity(conn, PQERRORS_VERBOSE); /* so that a refusal names its SQLSTATE */
		(void)PQsetNoticeReceiver(conn, on_notice, pg);
		await_host(pg);
		jr_watch_set(pg->loop, &pg->watch, PQsocket(conn), POLLOUT);
		return;
	}
	if (conn != NULL)
		jr_pg_dial_failed(&pg->dial, conn, &pg->why);
	break_later(pg);
}

static void
on_deadline(void *ctx)
{
	struct jr_pg *pg = ctx;

	if (pg->state == CONNECTING) {
		jr_watch_remove(&pg->watch);
		take_new(pg, jr_pg_dial_next(&pg->dial, pg->conninfo, pg->conn, &pg->why));
		return;
	}
	jr_fail(&pg->why, JR_E_TEMP, "the database did not answer in time (%lld ms)", (long long)pg->wire->deadline_ms);
	tear_down(pg);
}

static void
connected(struct jr_pg *pg)
{
	jr_timer_cancel(&pg->deadline);
	if (PQsetnonblocking(pg->conn, 1) != 0 || PQenterPipelineMode(pg->conn) != 1) {
		break_off(pg, "cannot use the connection");
		return;
	}
	jr_pg_dial_done(&pg->dial, pg->conn);
	pg->state = OPEN;
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), POLLIN);
	if (pg->events.opened != NULL)
		pg->events.opened(pg->events.ctx);
	send_next(pg);
	tell_idle(pg);
}

static void
serve_connecting(struct jr_pg *pg)
{
	PostgresPollingStatusType next = PQconnectPoll(pg->conn);

	if (next == PGRES_POLLING_OK) {
		connected(pg);
		return;
	}
	if (next == PGRES_POLLING_FAILED) {
		jr_pg_dial_failed(&pg->dial, pg->conn, &pg->why);
		break_later(pg);
		return;
	}
	if (jr_pg_dial_has_moved(&pg->dial, pg->conn))
		await_host(pg);
	jr_watch_set(pg->loop, &pg->watch, PQsocket(pg->conn), next == PGRES_POLLING_READING ? POLLIN : POLLOUT);
}

static void
on_socket(void *ctx, short revents)
{
	struct jr_pg *pg = ctx;

	if (pg->state == CONNECTING)
		serve_connecting(pg);
	else
		serve_wire(pg, revents);
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
jr_pg_needs_grant(struct jr_pg *pg, const char *kind)
{
	pg->kind = kind;
}

void
jr_pg_free(struct jr_pg *pg)
{
	if (pg == NULL)
		return;
	hang_up(pg);
	jr_request_free(pg->wire);
	jr_request_free(pg->failed);
	for (struct jr_request *next; pg->head != NULL; pg->head = next) {
		next = pg->head->next;
		jr_request_free(pg->head);
	}
	jr_pg_lookup_stop(&pg->lookup);
	jr_pg_hosts_free(&pg->dial.hosts);
	free(pg->conninfo);
	free(pg);
}

void
jr_pg_open(struct jr_pg *pg, int64_t timeout_ms, bool no_look_up)
{
	pg->state = CONNECTING;
	pg->answered = false;
	take_new(pg, jr_pg_dial_begin(&pg->dial, pg->conninfo, timeout_ms, no_look_up, &pg->why));
}

void
jr_pg_open_beside(struct jr_pg *pg, const struct jr_pg *other, int64_t timeout_ms)
{
	if (other != NULL)
		jr_pg_hosts_copy(&pg->dial.hosts, &other->dial.hosts);
	jr_pg_open(pg, timeout_ms, pg->dial.hosts.count > 0);
}

void
jr_pg_learn_addresses(struct jr_pg *pg)
{
	jr_pg_lookup_start(&pg->lookup, pg->loop, &pg->dial.hosts);
}

void
jr_pg_submit(struct jr_pg *pg, struct jr_request *request)
{
	*pg->tail = request;
	pg->tail = &request->next;
	send_next(pg);
}

void
jr_pg_cancel(struct jr_pg *pg)
{
	int64_t now_ms = jr_clock_now_ms();

	if (pg->wire == NULL || pg->broken.at_ms != JR_NEVER)
		return;
	if (pg->failed != NULL) /* it has ended, and its ROLLBACK is on the wire */
		return;
	if (pg->cancelled_ms != 0 && now_ms - pg->cancelled_ms < CANCEL_EVERY_MS)
		return;
	pg->cancelled_ms = now_ms;
	jr_pg_cancel_apart(pg->conn);
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

void
jr_pg_waits_for(const struct jr_pg *pg, struct jr_err *err)
{
	jr_pg_no_answer(pg->conn, err);
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

	assert(pg->meter == NULL); /* or libpq's socket would be one end of the meter's pair */
	jr_watch_remove(&pg->watch);
	PQexitPipelineMode(conn);
	pg->conn = NULL;
	pg->state = CLOSED;
	return conn;
}
