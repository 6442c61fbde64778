/*
 * handler_sql_parts: what the files of the sql handlers share. Nobody else includes it.
 *
 *	handler_sql.c         the kind: start, stop, end of one run
 *	handler_sql_group.c   runs that share a transaction, and go one by one after a failure
 *	handler_sql_txn.c     one transaction: the opening, the look at the answer, the commit
 *	handler_sql_text.c    what the statement is given and what it answers; pure
 *	handler_sql_pool.c    connections
 *
 * A run is always in a group: alone, or with others of its handler when the settings say "batch". A group has a
 * connection and one transaction at a time. What must hold: a run's end is told only when its transaction is over or
 * the connection is closed, and never from inside start, stop or free.
 */
#ifndef JR_HANDLER_SQL_PARTS_H
#define JR_HANDLER_SQL_PARTS_H

#include "handler/handler.h"
#include "pg/pg.h"
#include "pg/pg_array.h"
#include "pg/pg_connect.h"

struct jr_sql_group;

#define JR_SQL_RESULT_MAX JR_PAYLOAD_MAX         /* text of a result */
#define JR_SQL_GROUP_BYTES ((size_t)8 * 1048576) /* payloads in one transaction, but for a single large one */

/* How a run ended; `error` and `result` are owned. */
struct jr_sql_end {
	enum jr_verdict verdict;
	bool settled, in_doubt, unsent;
	char code[32]; /* "" with JR_DONE */
	char *error;
	char *result; /* a line {"result": ...}; only of a rehearsal */
};

struct jr_sql_work {
	struct jr_work work; /* first */
	struct jr_sql *sql;
	struct jr_sql_group *group; /* NULL: it is over */
	struct jr_sql_work *next;   /* of those that are over and not told yet */
	const struct jr_run *run;
	int64_t run_deadline_ms;
	bool stopped; /* asked to end */
	bool over;
	struct jr_sql_end
	    end; /* with a group: what the statement said of it so far; JR_DONE unless it said otherwise */
	jr_work_fn *ended;
	void *ctx;
};

struct jr_sql_conn {
	struct jr_sql_conn *next;
	struct jr_sql *sql;
	struct jr_pg *pg;
	struct jr_sql_group *group; /* who has it; NULL: idle, being cleaned or to be closed */
	bool idle, bad;             /* bad: to be closed */
	bool cancelled;             /* a cancel may still arrive */
};

/* What all sql handlers of a runner share. */
struct jr_sql {
	struct jr_host *host;
	struct jr_sql_conn *conns;
	struct jr_sql_group *groups;
	struct jr_sql_work *over, **over_tail;
	struct jr_timer closing; /* bad connections are closed, before... */
	struct jr_timer telling; /* ...the ends that depend on it are told */
	struct jr_pg_address address;
};

/* handler_sql.c: it is over, which is told in the next turn of the loop. Takes what *end owns. */
void jr_sql_work_end(struct jr_sql_work *work, struct jr_sql_end *end);

/*
 *	WAITING    more runs may join, or the next transaction is about to begin
 *	OPENING    settings and the statement are on the wire
 *	CLOSING    cleaning, settle_done and COMMIT are on the wire
 *	DROPPING   ROLLBACK is on the wire; how all of them end is known
 */
enum jr_sql_phase {
	JR_SQL_WAITING,
	JR_SQL_OPENING,
	JR_SQL_CLOSING,
	JR_SQL_DROPPING
};

struct jr_sql_group {
	struct jr_sql *sql;
	struct jr_sql_group *next, **prev;
	const struct jr_handler *handler;
	struct jr_sql_work **works; /* those that are not over */
	size_t count, active;
	bool gathering; /* others may join */
	bool single;    /* one by one, after a failure */
	enum jr_sql_phase phase;
	struct jr_sql_conn *conn;
	struct jr_timer timer;     /* JR_SQL_WAITING: begin; else: cancel again */
	struct jr_sql_end dropped; /* JR_SQL_DROPPING: how the active ones end that have no end of their own */
};

/* handler_sql_group.c */
bool jr_sql_is_set_based(const struct jr_sql_group *group); /* the statement gets an array of runs */
void jr_sql_group_add(struct jr_sql *sql, const struct jr_handler *handler, struct jr_sql_work *work);
void jr_sql_group_stop(struct jr_sql_group *group, struct jr_sql_work *work, bool kill);
void jr_sql_group_remove(struct jr_sql_group *group, struct jr_sql_work *work); /* without an end */

/*
 * The transaction is over, and the connection not the group's any more. All that were in it end like *end (taken), but
 * for `own`: of whom the statement said something else; by an error, sent: the statement had been; refused: the server
 * refused something, which sends more than one run on one by one; lost: with the connection, before COMMIT; in doubt.
 */
void jr_sql_group_end_all(struct jr_sql_group *group, struct jr_sql_end *end, bool own);
void jr_sql_group_end_failed(struct jr_sql_group *group, const struct jr_err *err, bool sent);
void jr_sql_group_end_refused(struct jr_sql_group *group, const struct jr_err *err);
void jr_sql_group_end_dropped(struct jr_sql_group *group); /* as group->dropped says */
void jr_sql_group_end_lost(struct jr_sql_group *group, const struct jr_err *why);
void jr_sql_group_end_in_doubt(struct jr_sql_group *group, const char *why);

/* handler_sql_txn.c */
void jr_sql_txn_begin(struct jr_sql_group *group);

/* handler_sql_pool.c: an idle connection or a new one, which opens by itself. */
struct jr_sql_conn *jr_sql_conn_take(struct jr_sql *sql, struct jr_sql_group *group) JR_MUST;
void jr_sql_conn_give(struct jr_sql_conn *conn, bool clean); /* !clean: cleaned before it is used again */
void jr_sql_conn_drop(struct jr_sql_conn *conn); /* closed in the next turn; no reply of it comes any more */
void jr_sql_conn_cancel(struct jr_sql_conn *conn);
void jr_sql_conn_add_cleaning(struct jr_batch *batch);
void jr_sql_conn_close_bad(void *ctx); /* a timer's */
void jr_sql_conn_close_all(struct jr_sql *sql);

/* handler_sql_text.c */
struct jr_sql_params {
	char run_id[24], claim[24], attempt[24], timeout[24];
	const char *values[6]; /* of sql_settings.sql */
};

/* run NULL: of a group. timeout_ms < 0: none. */
void jr_sql_params_fill(struct jr_sql_params *params, const struct jr_run *run, int64_t timeout_ms);

/* The JSON array that a group's statement gets. Caller frees. */
char *jr_sql_group_payload(struct jr_sql_work *const *works, size_t count) JR_MUST;

/* Was it a statement that begins, ends or divides transactions? */
bool jr_sql_is_control(PGresult *result);

/*
 * The result of a run's statement: *text is borrowed from `result`, NULL: none. false: *end says why it cannot be taken.
 */
bool jr_sql_read_result(const PGresult *result, const char **text, struct jr_sql_end *end) JR_MUST;

/* What a group's statement said of which run, into works[]->end. false: *end says what is wrong in which row. */
bool jr_sql_read_answer(
    const PGresult *result, struct jr_sql_work *const *works, size_t count, struct jr_sql_end *end) JR_MUST;

/* Ends. The text is cleaned and cut. */
struct jr_sql_end jr_sql_end_of(enum jr_verdict verdict, const char *code, const char *error);
struct jr_sql_end jr_sql_end_of_err(const struct jr_rules *rules, const struct jr_err *err, bool sent);
struct jr_sql_end jr_sql_end_copy(const struct jr_sql_end *end);
void jr_sql_end_release(struct jr_sql_end *end);

#endif
