/*
 * handler_sql_parts: shared by the files of the sql handlers; no other file includes it. A file calls only functions of
 * the files above it in this list. It reports to the files below it through callbacks that they set at the start.
 *
 *	handler_sql_pool.c    connections
 *	handler_sql_watch.c   how long a runner with open transactions may live
 *	handler_sql_end.c     how runs end, and the runs whose end is still to be reported
 *	handler_sql_text.c    the parameters of the statement and its result; pure
 *	handler_sql_settle.c  the statement before COMMIT, which settles the runs
 *	handler_sql_txn.c     one transaction: open it, check the result, commit
 *	handler_sql_group.c   runs that share a transaction; after a failure they run one by one
 *	handler_sql.c         the handler kind: start, stop and end of one run
 *
 * A run is always in a group: alone, or with other runs of its handler if the settings have "batch". A group has one
 * transaction at a time, and a transaction has one connection. What must hold: the end of a run is reported only when
 * its transaction is over or the connection is closed, and never from inside start, stop or free.
 */
#ifndef JR_HANDLER_SQL_PARTS_H
#define JR_HANDLER_SQL_PARTS_H

#include "handler/handler.h"
#include "pg/pg.h"
#include "pg/pg_array.h"

struct jr_handler_sql_group;
struct jr_handler_sql_txn;

#define JR_SQL_RESULT_MAX JR_PAYLOAD_MAX         /* text of a result */
#define JR_SQL_GROUP_BYTES ((size_t)8 * 1048576) /* payloads in one transaction; one larger payload goes alone */

/* How a run ended; `error` and `result` are owned. */
struct jr_handler_sql_end {
	enum jr_verdict verdict;
	bool settled, in_doubt, unsent;
	char code[32]; /* "" with JR_DONE */
	char *error;
	char *result; /* a line {"result": ...}; only in a rehearsal */
};

struct jr_handler_sql_work {
	struct jr_work work; /* first */
	struct jr_handler_sql *sql;
	struct jr_handler_sql_group *group;                   /* NULL: it is over */
	struct jr_handler_sql_work *next;                     /* in the list of ends to report */
	struct jr_handler_sql_work *watch_next, **watch_prev; /* in the list of watched works; NULL: not watched */
	const struct jr_run *run;
	int64_t run_deadline_ms;
	int64_t lease_end_ms; /* while it is watched */
	bool stopped;         /* stop was called */
	bool over;            /* in the list of ends to report */
	/* While it is in a group: the verdict that the statement returned for it; JR_DONE if it returned none. */
	struct jr_handler_sql_end end;
	struct jr_outcome outcome; /* in a batch: what the transaction writes, or has written, for this run */
	struct jr_owner owner;
};

struct jr_handler_sql_conn {
	struct jr_handler_sql_conn *next;
	struct jr_handler_sql *sql;
	struct jr_pg *pg;
	struct jr_handler_sql_txn *txn; /* its user; NULL: it is idle or to be closed */
	bool idle, bad;                 /* bad: to be closed */
	bool cancelled;                 /* a cancel was sent, and may still arrive */
	bool used;                      /* it has had a transaction before this one */
	size_t room;                    /* jr_handler_sql_conn_add_room has asked for so many bytes */
};

/* The state that all sql handlers of a runner share. */
struct jr_handler_sql {
	struct jr_host *host;
	struct jr_handler_sql_conn *conns;
	struct jr_handler_sql_group *groups;
	struct jr_handler_sql_work *over, **over_tail;
	struct jr_timer closing;   /* closes bad connections before... */
	struct jr_timer reporting; /* ...this one reports the ends that depend on it */
	/* In the order in which they were started, which is most often that of the ends of their leases. */
	struct jr_handler_sql_work *watched, **watched_tail;
	struct jr_timer watching; /* sends the watchdog a later time */
	int64_t watched_ms;       /* the time that the watchdog has */
};

/* handler_sql_pool.c: take an idle connection, or a new one that is still being opened. */
struct jr_handler_sql_conn *jr_handler_sql_conn_take(
    struct jr_handler_sql *sql, struct jr_handler_sql_txn *txn) JR_MUST;
void jr_handler_sql_conn_give(struct jr_handler_sql_conn *conn); /* its session is clean */
void jr_handler_sql_conn_drop(
    struct jr_handler_sql_conn *conn); /* close it in the next turn of the loop; ignore its replies from now on */
void jr_handler_sql_conn_cancel(struct jr_handler_sql_conn *conn);
/* Before a statement whose parameter has so many bytes: let the server keep the memory that such a statement takes. */
void jr_handler_sql_conn_add_room(struct jr_handler_sql_conn *conn, struct jr_request *request, size_t bytes);
void jr_handler_sql_conn_add_cleaning(struct jr_request *request);
void jr_handler_sql_conn_clean_after(
    const struct jr_handler_sql_conn *conn, struct jr_request *request); /* clean the session if it is rolled back */
void jr_handler_sql_conn_close_bad(void *ctx);                           /* called by a timer */
void jr_handler_sql_conn_close_all(struct jr_handler_sql *sql);

/*
 * handler_sql_watch.c: deadline_ms is the time by which everything of this work must be gone, as in `start` and `move`
 * of the kind. A work is watched until its transaction is on no connection any more.
 */
void jr_handler_sql_watch_init(struct jr_handler_sql *sql);
void jr_handler_sql_watch(struct jr_handler_sql_work *work, int64_t deadline_ms);
void jr_handler_sql_unwatch(struct jr_handler_sql_work *work); /* no effect if it is not watched */
void jr_handler_sql_watch_end(struct jr_handler_sql *sql);

/* handler_sql_end.c: `error` is cleaned and truncated. */
struct jr_handler_sql_end jr_handler_sql_end_of(enum jr_verdict verdict, const char *code, const char *error);
struct jr_handler_sql_end jr_handler_sql_end_of_err(const struct jr_rules *rules, const struct jr_err *err, bool sent);
struct jr_handler_sql_end jr_handler_sql_end_copy(const struct jr_handler_sql_end *end);
void jr_handler_sql_end_release(struct jr_handler_sql_end *end);
struct jr_work_end jr_handler_sql_end_report(const struct jr_handler_sql_end *end); /* borrows from *end */

/* End this work; its owner learns it in the next turn of the loop. Takes what *end owns. */
void jr_handler_sql_work_end(struct jr_handler_sql_work *work, struct jr_handler_sql_end *end);
void jr_handler_sql_work_forget(struct jr_handler_sql_work *work); /* do not report its end */
void jr_handler_sql_report_ends(void *ctx);                        /* called by a timer */

/* handler_sql_text.c */
#define JR_SQL_PARAMS_OF_RUN 6 /* the first ones, without those of the lease */
struct jr_handler_sql_params {
	char run_id[24], claim[24], attempt[24], timeout[24], idle[24], check[24];
	const char *values[8]; /* of session_open.sql */
};

/* run NULL: for a group. timeout_ms < 0: no timeout. lease NULL: no lease (jobrun try). */
void jr_handler_sql_params_fill(
    struct jr_handler_sql_params *params, const struct jr_run *run, int64_t timeout_ms, const struct jr_lease *lease);

/* The JSON array that is the parameter of a group's statement. Caller frees. */
char *jr_handler_sql_group_payload(struct jr_handler_sql_work *const *works, size_t count) JR_MUST;

/* Was it a statement that begins, ends or divides transactions? */
bool jr_handler_sql_is_control(PGresult *result);

/*
 * The result of a run's statement: *text is borrowed from `result`; NULL: there is none. false: it cannot be kept, and
 * *end says why.
 */
bool jr_handler_sql_read_result(const PGresult *result, const char **text, struct jr_handler_sql_end *end) JR_MUST;

/*
 * The work of the run; NULL: there is none. `place` is where it is if rows come in the order of works, as they usually
 * do: a thousand rows are then found in a thousand steps, not in half a million.
 */
struct jr_handler_sql_work *jr_handler_sql_find_work(
    struct jr_handler_sql_work *const *works, size_t count, size_t place, int64_t id);

/*
 * Read the verdicts that a group's statement returned into works[]->end. false: *end says which row is wrong, and why.
 */
bool jr_handler_sql_read_answer(const PGresult *result, struct jr_handler_sql_work *const *works, size_t count,
    struct jr_handler_sql_end *end) JR_MUST;

/*
 * handler_sql_settle.c: the last statement before COMMIT. It raises an error when a claim is lost. For a batch, call
 * `judge` first: it asks the owner of each run what to write. It returns false if nothing may be written for one of
 * them. `result` is the result of a single run; NULL: there is none.
 */
bool jr_handler_sql_settle_judge(struct jr_handler_sql_work *const *works, size_t count) JR_MUST;
void jr_handler_sql_settle_add_one(struct jr_request *request, const struct jr_run *run, const char *result);
void jr_handler_sql_settle_add_batch(
    struct jr_request *request, struct jr_handler_sql_work *const *works, size_t count);
void jr_handler_sql_settle_read(
    const PGresult *result, struct jr_handler_sql_work *const *works, size_t count); /* the result of add_batch */

/*
 *	OPENING    settings and the statement are on the wire
 *	CLOSING    cleaning, the settle and COMMIT are on the wire
 *	DROPPING   ROLLBACK and the cleaning are on the wire; how the runs end is known
 */
enum jr_handler_sql_phase {
	JR_SQL_OPENING,
	JR_SQL_CLOSING,
	JR_SQL_DROPPING
};

/* How a transaction ended. REFUSED and all after it come with an error. */
enum jr_sql_fate {
	JR_SQL_COMMITTED,
	JR_SQL_DROPPED, /* we rolled it back; txn->end says why */
	JR_SQL_LEFT,    /* the statement itself ended it, and may have committed something; txn->end says so */
	JR_SQL_REFUSED, /* the server returned an error; everything is rolled back */
	JR_SQL_LOCKED,  /* somebody keeps the row of a run locked; everything is rolled back */
	JR_SQL_FENCED,  /* a claim of the batch is lost; everything is rolled back */
	JR_SQL_UNSENT,  /* the statement was not sent */
	JR_SQL_LOST,    /* the connection was lost before COMMIT was sent */
	JR_SQL_IN_DOUBT /* COMMIT was not answered */
};

/* err: NULL for the fates before REFUSED. The callback may free the transaction. */
typedef void jr_handler_sql_txn_fn(void *ctx, enum jr_sql_fate fate, const struct jr_err *err);

/* Stored in its owner, who uses it for one transaction after the other. */
struct jr_handler_sql_txn {
	struct jr_handler_sql *sql;
	const struct jr_handler *handler;
	/* The runs of the transaction: borrowed, and unchanged until it is over or abandoned. */
	struct jr_handler_sql_work *const *works;
	size_t count;
	enum jr_handler_sql_phase phase;
	struct jr_handler_sql_conn *conn; /* NULL: the transaction has not begun, or is over */
	struct jr_timer cancel_again;
	struct jr_handler_sql_end end; /* DROPPING, DROPPED, LEFT: the end of every run that has none of its own */
	jr_handler_sql_txn_fn *over;
	void *ctx;
};

/* handler_sql_txn.c: `over` is called once for each begin, from the loop, unless the transaction is abandoned. */
bool jr_handler_sql_is_batched(const struct jr_handler *handler); /* the statement gets an array of runs */
void jr_handler_sql_txn_init(struct jr_handler_sql_txn *txn, struct jr_handler_sql *sql,
    const struct jr_handler *handler, jr_handler_sql_txn_fn *over, void *ctx);
void jr_handler_sql_txn_begin(struct jr_handler_sql_txn *txn, struct jr_handler_sql_work *const *works, size_t count);
bool jr_handler_sql_txn_is_sent(const struct jr_handler_sql_txn *txn); /* the connection is open */
void jr_handler_sql_txn_cancel(struct jr_handler_sql_txn *txn);        /* send cancels until the statement ends */
void jr_handler_sql_txn_abandon(struct jr_handler_sql_txn *txn);       /* close the connection at once */
void jr_handler_sql_txn_release(struct jr_handler_sql_txn *txn);       /* after it is over or abandoned */

/* handler_sql_group.c */
void jr_handler_sql_group_add(
    struct jr_handler_sql *sql, const struct jr_handler *handler, struct jr_handler_sql_work *work);
void jr_handler_sql_group_stop(struct jr_handler_sql_group *group, struct jr_handler_sql_work *work, bool kill);
void jr_handler_sql_group_remove(
    struct jr_handler_sql_group *group, struct jr_handler_sql_work *work); /* without reporting an end */

#endif
