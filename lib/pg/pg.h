/*
 * pg: one connection to PostgreSQL, never blocking.
 *
 * Work is handed over as requests. A request is one transaction, READ COMMITTED said by the client, sent in pipeline
 * mode in one go: BEGIN, settings (lock_timeout, statement_timeout, synchronous_commit on, search_path pg_catalog,
 * TimeZone UTC, DateStyle ISO; all transaction-local), the statements, COMMIT, Sync. Requests form a FIFO and one is on
 * the wire at a time, so that a lost connection leaves exactly one transaction in doubt. Statements are unnamed and
 * there is no session state: it works through PgBouncer in transaction mode.
 *
 * Each request has a deadline, counted from when it is sent. A request past its deadline costs the connection.
 *
 * The name of the host is looked up by libpq inside jr_pg_open (getaddrinfo blocks); with `same_address` the address of
 * the last good connection is used and nothing is looked up.
 *
 * Protocol: PostgreSQL manual, "libpq: Pipeline Mode" and "Extended Query".
 */
#ifndef JR_PG_H
#define JR_PG_H

#include <libpq-fe.h>

#include "base/lease.h"
#include "base/loop.h"
#include "pg/pg_error.h"

struct jr_pg;
struct jr_request;

enum jr_pg_end {
	JR_PG_DONE,    /* committed */
	JR_PG_FAILED,  /* the server refused a statement; nothing of the request happened */
	JR_PG_UNKNOWN, /* connection lost or deadline passed: it may have been committed */
	JR_PG_UNSENT   /* never sent: nothing of it happened */
};

struct jr_reply {
	enum jr_pg_end end;
	PGresult *const *results; /* one for each statement added, borrowed; only when DONE */
	size_t result_count;
	size_t failed_at;  /* FAILED: the statement, 0-based; == result_count when it was COMMIT */
	struct jr_err err; /* not DONE: what happened */
	int64_t sent_ms;   /* clock before the request was sent */
};

typedef void jr_reply_fn(void *ctx, const struct jr_reply *reply);

/* How a request's transaction begins and ends. An open transaction is continued by the next request of the FIFO. */
enum jr_request_kind {
	JR_REQUEST_WHOLE,   /* BEGIN ... COMMIT */
	JR_REQUEST_OPENING, /* BEGIN ... and stays open; the reply says only that the statements ran */
	JR_REQUEST_CLOSING, /* ... COMMIT */
	JR_REQUEST_DROPPING /* ... ROLLBACK */
};

/*
 * A new request. `times` gives statement_timeout, lock_timeout and the deadline (JR_NEVER: none). fn is called exactly
 * once, from the loop, also when the connection is lost; never from inside jr_pg_submit.
 */
struct jr_request *jr_request_new(enum jr_request_kind kind, const struct jr_lease *times, jr_reply_fn *fn, void *ctx);

/*
 * The transaction begins with BEGIN alone, READ COMMITTED, and has the settings of the session: for statements of
 * users, who expect their own search_path; and what the server refuses is told in its words. Before anything is added.
 */
void jr_request_bare(struct jr_request *request);

/* Add a statement with text parameters (copied; NULL is NULL). `sql` is static text of sql_text.h. */
void jr_request_add(struct jr_request *request, const char *sql, size_t count, const char *const *values);

/*
 * The answer of the statement that was added last must have this form (borrowed) and least to most rows. If it has not,
 * the reply is UNKNOWN, since all of it may have been committed, and the connection is lost, with an error of which
 * jr_pg_is_nonsense is true.
 */
struct jr_form;
void jr_request_expect(struct jr_request *request, const struct jr_form *form, size_t least, size_t most);

/*
 * Add a statement of a user's: `sql` is borrowed until the reply, $1 is of type jsonb. Its rows are read one by one:
 * the first `rows` are the result, the others are dropped as they come. When more than JR_ROWS_BYTES come for one row
 * or for all that are kept, reading ends: the request FAILED with SQLSTATE 54000, nothing of it happened, and the
 * connection is lost. COPY, which cannot be answered here, ends the same way with 0A000.
 */
#define JR_ROWS_BYTES ((size_t)4 * 1048576)
void jr_request_add_foreign(struct jr_request *request, const char *sql, const char *payload, size_t rows);

void jr_request_free(struct jr_request *request); /* only one that was not submitted; NULL is fine */

/*
 * What the owner is told. opened: the connection stands. lost: it could not be made or is gone, after the replies of
 * everything submitted (first the request on the wire, UNKNOWN, then the others, UNSENT) were given. notified (may be
 * NULL): a NOTIFY on a channel that this session listens to; from the loop, never from inside a call of the owner. The
 * payload is borrowed. idle (may be NULL): something has come, all replies to it were given, and nothing is on the wire
 * or waiting; from the loop, last of all.
 */
struct jr_pg_events {
	void (*opened)(void *ctx);
	void (*lost)(void *ctx, const struct jr_err *err);
	void (*notified)(void *ctx, const char *payload);
	void (*idle)(void *ctx);
	void *ctx;
};

/* conninfo: a conninfo string, URI or database name, NULL for libpq's own defaults. Copied. */
struct jr_pg *jr_pg_new(struct jr_loop *loop, const char *conninfo, const struct jr_pg_events *events);
void jr_pg_free(struct jr_pg *pg); /* closes; replies that are still owed are not given */

/*
 * Start to connect; ends in opened or lost within timeout_ms (name lookup apart), or connect_timeout if the connection
 * string or PGCONNECT_TIMEOUT has one. With same_address timeout_ms stands: leases do not wait. Only while closed.
 */
void jr_pg_open(struct jr_pg *pg, int64_t timeout_ms, bool same_address);

/*
 * Ask the server to cancel what is on the wire, by libpq's cancel (which blocks: in a process of its own under an
 * alarm). A cancel may arrive late: the connection is not to be used for anything else afterwards.
 */
void jr_pg_cancel(struct jr_pg *pg);

/* What same_address is about, from one connection to another. Before jr_pg_open; only of one that is open. */
struct jr_pg_address;
void jr_pg_set_address(struct jr_pg *pg, const struct jr_pg_address *address);
void jr_pg_get_address(const struct jr_pg *pg, struct jr_pg_address *address);

bool jr_pg_is_in_transaction(const struct jr_pg *pg); /* after an opening request: does its transaction still stand? */
bool jr_pg_is_open(const struct jr_pg *pg);
bool jr_pg_has_answered(const struct jr_pg *pg); /* any request since the last jr_pg_open */
bool jr_pg_is_idle(const struct jr_pg *pg);      /* open, and nothing on the wire or waiting */

/* Takes the request. If the connection is closed it waits for it to open. */
void jr_pg_submit(struct jr_pg *pg, struct jr_request *request);

/* Borrowed; facts for people. NULL while closed. */
const PGconn *jr_pg_conn(const struct jr_pg *pg);

/*
 * Give the connection away, out of pipeline mode. Only while idle; it is closed for jr_pg afterwards. The caller sets a
 * notice receiver of its own, since this one's goes with jr_pg.
 */
PGconn *jr_pg_detach(struct jr_pg *pg) JR_MUST;

/* The last notice of the server, NULL if there was none. Borrowed. */
const char *jr_pg_notice(struct jr_pg *pg);

#endif
