/*
 * handler_sql_pool: connections of sql handlers.
 *
 * A connection belongs to one transaction at a time. A transaction that commits also cleans the session; if it is
 * rolled back, the cleaning goes with the ROLLBACK. It does so on a connection that is closed afterwards, too: behind a
 * pooler the session goes on. What must hold: a connection is freed only from the loop, never from inside one of its
 * replies; and it is not used again after a cancel was sent to it, because the cancel may arrive late.
 *
 * Looking up a host name blocks, and must not happen while runs are held. So connections go to the address of the
 * runner's.
 */
#include "handler/handler_sql_parts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "sql_text.h"

#include <stdlib.h>

#define CONNECT_MS 10000
#define ROOM_FROM 16384 /* smaller parameters take little memory */
#define ROOM_RATIO 16 /* while the server reads a jsonb, it takes up to 13 times the text (measured: small payloads) */
#define ROOM_MOST ((size_t)8 << 20) /* what the server keeps has a bound, though larger parameters take more */

static const char *const cleaning[] = {jr_sql_session_reset_user, jr_sql_session_reset_role, jr_sql_session_clean};

static void
close_later(struct jr_handler_sql_conn *conn)
{
	conn->txn = NULL;
	conn->idle = false;
	conn->bad = true;
	jr_timer_set(conn->sql->host->loop, &conn->sql->closing, 0);
}

/* Its transaction has already learned it by a reply. */
static void
on_lost(void *ctx, const struct jr_err *err)
{
	struct jr_handler_sql_conn *conn = ctx;

	if (jr_pg_is_nonsense(err) && conn->sql->host->nonsense != NULL)
		conn->sql->host->nonsense(conn->sql->host->ctx, err);
	close_later(conn);
}

static void
on_warned(void *ctx, const char *text)
{
	const struct jr_handler_sql_conn *conn = ctx;

	if (conn->sql->host->warned != NULL)
		conn->sql->host->warned(conn->sql->host->ctx, text);
}

static struct jr_handler_sql_conn *
open_new(struct jr_handler_sql *sql)
{
	struct jr_handler_sql_conn *conn = jr_xcalloc(1, sizeof(*conn));
	const struct jr_pg_events events = {.lost = on_lost, .warned = on_warned, .ctx = conn};

	conn->sql = sql;
	conn->next = sql->conns;
	sql->conns = conn;
	conn->pg = jr_pg_new(sql->host->loop, sql->host->conninfo, &events);
	jr_pg_needs_grant(conn->pg, "run");
	jr_pg_open_beside(conn->pg, sql->host->beside, CONNECT_MS);
	return conn;
}

struct jr_handler_sql_conn *
jr_handler_sql_conn_take(struct jr_handler_sql *sql, struct jr_handler_sql_txn *txn)
{
	struct jr_handler_sql_conn *conn = sql->conns;

	while (conn != NULL && (!conn->idle || !jr_pg_is_idle(conn->pg)))
		conn = conn->next;
	if (conn == NULL)
		conn = open_new(sql);
	conn->idle = false;
	conn->txn = txn;
	return conn;
}

void
jr_handler_sql_conn_add_cleaning(struct jr_request *request)
{
	for (size_t i = 0; i < JR_COUNT(cleaning); i++)
		jr_request_add(request, cleaning[i], 0, NULL);
}

/*
 * Batches of a thousand runs took a fifth more of the server's processor time without this (session_room.sql). The
 * first transaction of a connection goes without it: often it is the only one. Behind a pooler the next transaction may
 * be in another session, which has not been asked and is only slower; and the one that was asked keeps the memory,
 * whoever uses it then. The limit becomes twice the block, so it is half of the room.
 */
void
jr_handler_sql_conn_add_room(struct jr_handler_sql_conn *conn, struct jr_request *request, size_t bytes)
{
	char block[24];
	const char *values[] = {block};
	size_t room = (size_t)ROOM_FROM * ROOM_RATIO;

	if (!conn->used || bytes < ROOM_FROM)
		return;
	while (room < bytes * ROOM_RATIO && room < ROOM_MOST)
		room *= 2;
	if (room <= conn->room)
		return;
	conn->room = room;
	jr_print_int(block, (int64_t)room / 2 / 1024);
	jr_request_add(request, jr_sql_session_room, JR_COUNT(values), values);
}

void
jr_handler_sql_conn_clean_after(const struct jr_handler_sql_conn *conn, struct jr_request *request)
{
	/* A rehearsal has only one transaction, and the schema may not be there. */
	if (!conn->sql->host->rehearsal)
		jr_request_clean(request, cleaning, JR_COUNT(cleaning));
}

void
jr_handler_sql_conn_give(struct jr_handler_sql_conn *conn)
{
	conn->txn = NULL;
	conn->used = true;
	if (conn->cancelled || conn->sql->host->rehearsal || !jr_pg_is_open(conn->pg))
		close_later(conn);
	else
		conn->idle = true;
}

void
jr_handler_sql_conn_drop(struct jr_handler_sql_conn *conn)
{
	close_later(conn);
}

void
jr_handler_sql_conn_cancel(struct jr_handler_sql_conn *conn)
{
	conn->cancelled = true;
	jr_pg_cancel(conn->pg);
}

static void
close_those(struct jr_handler_sql *sql, bool all)
{
	for (struct jr_handler_sql_conn **at = &sql->conns; *at != NULL;) {
		struct jr_handler_sql_conn *conn = *at;

		if (!all && !conn->bad) {
			at = &conn->next;
			continue;
		}
		*at = conn->next;
		jr_pg_free(conn->pg);
		free(conn);
	}
}

void
jr_handler_sql_conn_close_bad(void *ctx)
{
	close_those(ctx, false);
}

void
jr_handler_sql_conn_close_all(struct jr_handler_sql *sql)
{
	close_those(sql, true);
}
