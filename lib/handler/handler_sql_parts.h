/*
 * handler_sql_parts: what the files of the sql handlers share. Nobody else includes it. Each calls only what stands
 * above it; what comes back up comes through a function that was given at the start.
 *
 *	handler_sql_pool.c    connections
 *	handler_sql_watch.c   until when the runner may live that has such transactions
 *	handler_sql_end.c     how runs end, and those that are over and not told yet
 *	handler_sql_text.c    what the statement is given and what it answers; pure
 *	handler_sql_settle.c  what is written of the runs in front of COMMIT
 *	handler_sql_txn.c     one transaction: the opening, the look at the answer, the commit
 *	handler_sql_group.c   runs that share a transaction, and go one by one after a failure
 *	handler_sql.c         the kind: start, stop, end of one run
 *
 * A run is always in a group: alone, or with others of its handler when the settings say "batch". A group has one
 * transaction at a time, and that a connection. What must hold: a run's end is told only when its transaction is over
 * or the connection is closed, and never from inside start, stop or free.
 */
#ifndef JR_HANDLER_SQL_PARTS_H
#define JR_HANDLER_SQL_PARTS_H

#include "handler/handler.h"
#include "pg/pg.h"
#include "pg/pg_array.h"
#include "pg/pg_connect.h"

struct jr_handler_sql_group;
struct jr_handler_sql_txn;

#define JR_SQL_RESULT_MAX JR_PAYLOAD_MAX         /* text of a result */
#define JR_SQL_GROUP_BYTES ((size_t)8 * 1048576) /* payloads in one transaction, but for a single large one */

/* How a run ended; `error` and `result` are owned. */
struct jr_handler_sql_end {
	enum jr_verdict verdict;
	bool settled, in_doubt, unsent;
	char code[32]; /* "" with JR_DONE */
	char *error;
	char *result; /* a line {"result": ...}; only of a rehearsal */
};

struct jr_handler_sql_work {
	struct jr_work work; /* first */
	struct jr_handler_sql *sql;
	struct jr_handler_sql_group *group;                   /* NULL: it is over */
	struct jr_handler_sql_work *next;                     /* of those that are over and not told yet */
	struct jr_handler_sql_work *watch_next, **watch_prev; /* of those that are watched; NULL: it is not */
	const struct jr_run *run;
	int64_t run_deadline_ms;
	int64_t lease_end_ms; /* of one that is watched */
	bool stopped;         /* asked to end */
	bool over;
	struct jr_handler_sql_end
	    end; /* with a group: what the statement said of it so far; JR_DONE unless it said otherwise */
	struct jr_outcome outcome; /* of a batch: what the transaction writes, or has written, of it */
	struct jr_owner owner;
};

struct jr_handler_sql_conn {
	struct jr_handler_sql_conn *next;
	struct jr_handler_sql *sql;
	struct jr_pg *pg;
	struct jr_handler_sql_txn *txn; /* which has it; NULL: idle, being cleaned or to be closed */
	bool idle, bad;                 /* bad: to be closed */
	bool cancelled;                 /* a cancel may still arrive */
};

/* What all sql handlers of a runner share. */
struct jr_handler_sql {
	struct jr_host *host;
	struct jr_handler_sql_conn *conns;
	struct jr_handler_sql_group *groups;
	struct jr_handler_sql_work *over, **over_tail;
	struct jr_timer closing; /* bad connections are closed, before... */
	struct jr_timer reporting; /* ...the ends that depend on it are told */
	struct jr_pg_address address;
	struct jr_handler_sql_work *watched;
	struct jr_timer watching; /* the watchdog is to be told a later time */
	int64_t watched_ms;       /* what it was told */
};

/* handler_sql_pool.c: an idle connection or a new one, which opens by itself. */
struct jr_handler_sql_conn *jr_handler_sql_conn_take(
    struct jr_handler_sql *sql, struct jr_handler_sql_txn *txn) JR_MUST;
void jr_handler_sql_conn_give(
    struct jr_handler_sql_conn *conn, bool clean); /* !clean: cleaned before it is used again */
void jr_handler_sql_conn_drop(
    struct jr_handler_sql_conn *conn); /* closed in the next turn; no reply of it comes any more */
void jr_handler_sql_conn_cancel(struct jr_handler_sql_conn *conn);
void jr_handler_sql_conn_add_cleaning(struct jr_request *request);
void jr_handler_sql_conn_close_bad(void *ctx); /* a timer's */
void jr_handler_sql_conn_close_all(struct jr_handler_sql *sql);

/*
 * handler_sql_watch.c: deadline_ms is when everything of this work must be gone, by its handler's start or renewal. It
 * is watched until nothing of it is on a connection any more.
 */
void jr_handler_sql_watch_init(struct jr_handler_sql *sql);
void jr_handler_sql_watch(struct jr_handler_sql_work *work, int64_t deadline_ms);
void jr_handler_sql_unwatch(struct jr_handler_sql_work *work); /* one that is not watched is fine */
void jr_handler_sql_watch_end(struct jr_handler_sql *sql);

/* handler_sql_end.c: the text is cleaned and cut. */
struct jr_handler_sql_end jr_handler_sql_end_of(enum jr_verdict verdict, const char *code, const char *error);
struct jr_handler_sql_end jr_handler_sql_end_of_err(const struct jr_rules *rules, const struct jr_err *err, bool sent);
struct jr_handler_sql_end jr_handler_sql_end_copy(const struct jr_handler_sql_end *end);
void jr_handler_sql_end_release(struct jr_handler_sql_end *end);
struct jr_work_end jr_handler_sql_end_report(const struct jr_handler_sql_end *end); /* what it borrows is *end's */

/* It is over, which is told in the next turn of the loop. Takes what *end owns. */
void jr_handler_sql_work_end(struct jr_handler_sql_work *work, struct jr_handler_sql_end *end);
void jr_handler_sql_work_forget(struct jr_handler_sql_work *work); /* nobody is to be told of it any more */
void jr_handler_sql_report_ends(void *ctx);                         /* a timer's */

/* handler_sql_text.c */
struct jr_handler_sql_params {
	char run_id[24], claim[24], attempt[24], timeout[24], idle[24], check[24];
	const char *values[8]; /* of session_parameters.sql */
};

/* run NULL: of a group. timeout_ms < 0: none. lease NULL: none. */
void jr_handler_sql_params_fill(
    struct jr_handler_sql_params *params, const struct jr_run *run, int64_t timeout_ms, const struct jr_lease *lease);

/* The JSON array that a group's statement gets. Caller frees. */
char *jr_handler_sql_group_payload(struct jr_handler_sql_work *const *works, size_t count) JR_MUST;

/* Was it a statement that begins, ends or divides transactions? */
bool jr_handler_sql_is_control(PGresult *result);

/*
 * The result of a run's statement: *text is borrowed from `result`, NULL: none. false: *end says why it cannot be
 * taken.
 */
bool jr_handler_sql_read_result(const PGresult *result, const char **text, struct jr_handler_sql_end *end) JR_MUST;

/* What a group's statement said of which run, into works[]->end. false: *end says what is wrong in which row. */
bool jr_handler_sql_read_answer(const PGresult *result, struct jr_handler_sql_work *const *works, size_t count,
    struct jr_handler_sql_end *end) JR_MUST;

/*
 * handler_sql_settle.c: the last statement before COMMIT. It raises an error when a claim is lost. What the runs of a
 * batch come to is asked of their owners first; false: of one of them nothing may be written. result: of a single run,
 * NULL if there is none.
 */
bool jr_handler_sql_settle_judge(struct jr_handler_sql_work *const *works, size_t count) JR_MUST;
void jr_handler_sql_settle_add_one(struct jr_request *request, const struct jr_run *run, const char *result);
void jr_handler_sql_settle_add_batch(
    struct jr_request *request, struct jr_handler_sql_work *const *works, size_t count);
void jr_handler_sql_settle_read(
    const PGresult *result, struct jr_handler_sql_work *const *works, size_t count); /* after add_set */

/*
 *	OPENING    settings and the statement are on the wire
 *	CLOSING    cleaning, the settle and COMMIT are on the wire
 *	DROPPING   ROLLBACK is on the wire; how all of them end is known
 */
enum jr_handler_sql_phase {
	JR_SQL_OPENING,
	JR_SQL_CLOSING,
	JR_SQL_DROPPING
};

/* How a transaction ended. From REFUSED on an error says more. */
enum jr_sql_fate {
	JR_SQL_COMMITTED,
	JR_SQL_DROPPED, /* nothing of it has happened, and its end says why */
	JR_SQL_LEFT,    /* the statement itself ended it, and perhaps kept something; its end says so */
	JR_SQL_REFUSED, /* the server refused something, and nothing of it has happened */
	JR_SQL_FENCED,  /* a claim of the batch is lost, so nothing of it has happened */
	JR_SQL_UNSENT,  /* the statement was not even sent */
	JR_SQL_LOST,    /* the connection was lost, and no COMMIT had been sent */
	JR_SQL_IN_DOUBT /* COMMIT was not answered */
};

/* err: NULL before REFUSED. The transaction may be freed in it. */
typedef void jr_handler_sql_txn_fn(void *ctx, enum jr_sql_fate fate, const struct jr_err *err);

/* Its owner's storage, used for one transaction after the other. */
struct jr_handler_sql_txn {
	struct jr_handler_sql *sql;
	const struct jr_handler *handler;
	struct jr_handler_sql_work *const
	    *works; /* those that are in it; borrowed, and the same until it is over or abandoned */
	size_t count;
	enum jr_handler_sql_phase phase;
	struct jr_handler_sql_conn *conn; /* NULL: it has not begun, or is over */
	struct jr_timer cancel_again;
	struct jr_handler_sql_end end; /* DROPPING, DROPPED, LEFT: how the runs end that have no end of their own */
	jr_handler_sql_txn_fn *over;
	void *ctx;
};

/* handler_sql_txn.c: `over` is called once for each begin, from the loop, unless it was abandoned. */
bool jr_handler_sql_is_batched(const struct jr_handler *handler); /* the statement gets an array of runs */
void jr_handler_sql_txn_init(struct jr_handler_sql_txn *txn, struct jr_handler_sql *sql,
    const struct jr_handler *handler, jr_handler_sql_txn_fn *over, void *ctx);
void jr_handler_sql_txn_begin(struct jr_handler_sql_txn *txn, struct jr_handler_sql_work *const *works, size_t count);
bool jr_handler_sql_txn_is_sent(const struct jr_handler_sql_txn *txn); /* the connection that it waited for stands */
void jr_handler_sql_txn_cancel(
    struct jr_handler_sql_txn *txn); /* ask the server to end the statement, again and again */
void jr_handler_sql_txn_abandon(
    struct jr_handler_sql_txn *txn); /* what is on the wire is given up with the connection */
void jr_handler_sql_txn_release(struct jr_handler_sql_txn *txn); /* what is left of one that is over or abandoned */

/* handler_sql_group.c */
void jr_handler_sql_group_add(
    struct jr_handler_sql *sql, const struct jr_handler *handler, struct jr_handler_sql_work *work);
void jr_handler_sql_group_stop(struct jr_handler_sql_group *group, struct jr_handler_sql_work *work, bool kill);
void jr_handler_sql_group_remove(
    struct jr_handler_sql_group *group, struct jr_handler_sql_work *work); /* without an end */

#endif
