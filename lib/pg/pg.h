/*
 * pg: one connection to PostgreSQL, never blocking.
 *
 * The owner submits requests. A request is one transaction, sent in pipeline mode in one go: BEGIN with READ COMMITTED,
 * parameters for this transaction (parameters.sql), the owner's statements, COMMIT, Sync. Requests form a FIFO and one
 * is on the wire at a time, so that a lost connection leaves exactly one transaction in doubt. Statements are unnamed
 * and there is no session state, so that this works through PgBouncer in transaction mode.
 *
 * Each request has a deadline, counted from when it is sent. When it passes, the connection is closed.
 *
 * libpq looks up the names of hosts inside jr_pg_open and while it connects (getaddrinfo blocks). With `no_look_up`
 * only hosts are tried whose address is known, the last good one first.
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
	JR_PG_FAILED,  /* the server refused a statement; nothing was committed */
	JR_PG_UNKNOWN, /* connection lost or deadline passed: it may have been committed */
	JR_PG_UNSENT   /* never sent: nothing was committed */
};

struct jr_reply {
	enum jr_pg_end end;
	PGresult *const *results; /* one for each statement added, borrowed; only when DONE */
	size_t result_count;
	size_t failed_at;  /* FAILED: index of the refused statement; == result_count: COMMIT was refused */
	struct jr_err err; /* not DONE: the reason */
	int64_t sent_ms;   /* clock before the request was sent */
};

typedef void jr_reply_fn(void *ctx, const struct jr_reply *reply);

/* How a request's transaction begins and ends. If it stays open, the next request of the FIFO goes on in it. */
enum jr_request_kind {
	JR_REQUEST_WHOLE,   /* BEGIN ... COMMIT */
	JR_REQUEST_OPENING, /* BEGIN ..., left open; DONE says only that the statements ran */
	JR_REQUEST_CLOSING, /* ... COMMIT */
	JR_REQUEST_DROPPING /* ... ROLLBACK */
};

/*
 * A new request. `times` gives statement_timeout, lock_timeout and the deadline (JR_NEVER: none). fn is called exactly
 * once, from the loop, also when the connection is lost; not from inside jr_pg_submit, unless the transaction that the
 * request continues is gone: then it is answered UNSENT at once.
 */
struct jr_request *jr_request_new(enum jr_request_kind kind, const struct jr_lease *times, jr_reply_fn *fn, void *ctx);

/*
 * Send no parameters after BEGIN: the transaction keeps those of the session. For statements of users, who expect their
 * own search_path. Errors are reported in the server's words. Call it before anything is added.
 */
void jr_request_bare(struct jr_request *request);

/*
 * Errors are told to who gave the values, and may quote them. Without this they are fit for a log: what quotes values
 * of rows and of parameters is left out.
 */
void jr_request_told(struct jr_request *request);

/*
 * COMMIT does not wait for the disk (synchronous_commit = off): a crash of the server may undo the transaction within a
 * second, but none that was committed after it with a wait. `times` as before. Before anything is added.
 */
void jr_request_unflushed(struct jr_request *request, const struct jr_lease *times);

/*
 * When the transaction is rolled back, and the connection still stands, these statements (borrowed, without parameters)
 * follow in a transaction of their own, sent together with the ROLLBACK: so behind a pooler they meet the same session.
 * The reply comes after them. If one of them fails, the connection is closed.
 */
void jr_request_clean(struct jr_request *request, const char *const *statements, size_t count);

/* Add a statement with text parameters (copied; NULL is NULL). `sql` is static text of sql_text.h. */
void jr_request_add(struct jr_request *request, const char *sql, size_t count, const char *const *values);

/*
 * The result of the statement that was added last must have this form (borrowed) and least to most rows. If it does
 * not, the connection is closed and the reply is UNKNOWN, since the request may have been committed; jr_pg_is_nonsense
 * is true of its error.
 */
struct jr_form;
void jr_request_expect(struct jr_request *request, const struct jr_form *form, size_t least, size_t most);

/*
 * Add a statement that a user wrote: `sql` is borrowed until the reply, $1 is of type jsonb. Its rows are read one by
 * one: the first `rows` are the result, the others are dropped as they come. When one row or all kept rows are larger
 * than JR_ROWS_BYTES, reading ends: the reply is FAILED with SQLSTATE 54000, nothing is committed, and the connection
 * is closed. COPY is not supported here and ends the same way with 0A000.
 */
#define JR_ROWS_BYTES ((size_t)4 * 1048576)
void jr_request_add_foreign(struct jr_request *request, const char *sql, const char *payload, size_t rows);

void jr_request_free(struct jr_request *request); /* only one that was not submitted; NULL is fine */

/*
 * Callbacks of the owner. opened (may be NULL): the connection is established. lost: it could not be established or was
 * lost; all submitted requests have got their replies before (first the one on the wire, UNKNOWN, then the others,
 * UNSENT). notified (may be NULL): a NOTIFY came on a channel that this session listens to; the payload is borrowed.
 * warned (may be NULL): a function of the schema has a warning for people (SQLSTATE JR001) of something that was
 * committed, or may have been; the text is borrowed. lost, warned and notified are called from the loop, never from
 * inside a call of the owner. idle (may be NULL): the connection is new or something has come, all replies to it were
 * given, and nothing is on the wire or waiting; from the loop, last of all.
 */
struct jr_pg_events {
	void (*opened)(void *ctx);
	void (*lost)(void *ctx, const struct jr_err *err);
	void (*warned)(void *ctx, const char *text);
	void (*notified)(void *ctx, const char *payload);
	void (*idle)(void *ctx);
	void *ctx;
};

/* conninfo: a conninfo string, URI or database name, NULL for libpq's own defaults. Copied. */
struct jr_pg *jr_pg_new(struct jr_loop *loop, const char *conninfo, const struct jr_pg_events *events);

/* The kind of `jobrun grant` that its statements need (static text; NULL: no advice): see jr_pg_advise. */
void jr_pg_needs_grant(struct jr_pg *pg, const char *kind);

void jr_pg_free(struct jr_pg *pg); /* closes the connection; requests without a reply get none */

/*
 * Start to connect. Of several hosts libpq takes the first that answers and accepts writes; each gets an equal part of
 * the time that is left. `opened` or `lost` is called within timeout_ms (plus the name lookups), or, if the connection
 * string or PGCONNECT_TIMEOUT sets connect_timeout, within that for each host. With no_look_up timeout_ms always
 * counts, since leases do not wait. Only while closed.
 */
void jr_pg_open(struct jr_pg *pg, int64_t timeout_ms, bool no_look_up);

/*
 * The same, with the hosts and addresses that `other` knows, and no name is looked up. If `other` is NULL, it is
 * jr_pg_open without no_look_up.
 */
void jr_pg_open_beside(struct jr_pg *pg, const struct jr_pg *other, int64_t timeout_ms);

/*
 * Learn the addresses of all hosts, for tries with no_look_up. It happens apart, so nothing waits for it. A host whose
 * address is not known is not tried then.
 */
void jr_pg_learn_addresses(struct jr_pg *pg);

/*
 * Ask the server to cancel the request on the wire. libpq's PQcancel blocks, so it runs in a process of its own with an
 * alarm. A cancel may arrive late, so use the connection for nothing else afterwards.
 */
void jr_pg_cancel(struct jr_pg *pg);

bool jr_pg_is_in_transaction(const struct jr_pg *pg); /* after an opening request: is its transaction still open? */
bool jr_pg_is_open(const struct jr_pg *pg);
bool jr_pg_has_answered(const struct jr_pg *pg); /* has a request been answered since the last jr_pg_open? */
bool jr_pg_is_idle(const struct jr_pg *pg);      /* open, and nothing on the wire or waiting */

/* Takes the request. While the connection is not open, the request waits in the FIFO. */
void jr_pg_submit(struct jr_pg *pg, struct jr_request *request);

/* The connection, to read facts about it. Borrowed. NULL while closed. */
const PGconn *jr_pg_conn(const struct jr_pg *pg);

#define JR_PG_TELL_MS 700 /* without a connection for so long, people who watch are told */

/* While it connects: from where no answer has come yet. */
void jr_pg_waits_for(const struct jr_pg *pg, struct jr_err *err);

/*
 * Hand the connection over to the caller, out of pipeline mode; jr_pg is closed afterwards. Only while idle. The caller
 * must set its own notice receiver, since the current one uses jr_pg.
 */
PGconn *jr_pg_detach(struct jr_pg *pg) JR_MUST;

/* The last notice that the server sent, NULL if there was none. Borrowed. */
const char *jr_pg_notice(struct jr_pg *pg);

#endif
