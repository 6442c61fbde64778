/*
 * pg_request: the inside of a request, for pg.c alone: its statements, and what has been answered so far.
 *
 * Statements are numbered through: what opens the transaction, then the owner's, then what closes it.
 */
#ifndef JR_PG_REQUEST_H
#define JR_PG_REQUEST_H

#include "pg/pg.h"
#include "pg/pg_rows.h"

struct jr_request_statement {
	const char *sql;
	size_t count;
	char **values;
	bool foreign;               /* a user's: $1 is of type jsonb, and its rows come one by one */
	const struct jr_form *form; /* of the answer; NULL: nobody reads it */
	size_t least, most;         /* rows */
};

struct jr_request {
	struct jr_request *next;
	struct jr_request_statement *statements;
	PGresult **results;
	size_t count;
	size_t first; /* the owner's statements: [first, first + owned) */
	size_t owned;
	size_t at;              /* the one whose answer is awaited; == count: the Sync */
	bool answered;          /* its result has come, its end mark not yet */
	struct jr_pg_rows rows; /* of the foreign statement, if there is one */
	bool bare;              /* of a user's: what is refused is told as the server says it */
	bool failed;
	size_t failed_at; /* as in jr_reply */
	struct jr_err err;
	enum jr_request_kind kind;
	int64_t deadline_ms;
	int64_t sent_ms;
	jr_reply_fn *fn;
	void *ctx;
};

/* One that is not the owner's. */
void jr_request_add_statement(struct jr_request *request, const char *sql, size_t count, const char *const *values);

/* Hand everything to libpq, Sync included. false: the connection is broken. */
bool jr_request_send(struct jr_request *request, PGconn *conn) JR_MUST;

/*
 * A result came (takes it). false: nothing more may be read; request->err says why, and the connection is of no use.
 */
bool jr_request_take(struct jr_request *request, PGresult *result) JR_MUST;
bool jr_request_has_foreign(const struct jr_request *request); /* a statement of a user's is in it... */
bool jr_request_is_foreign(const struct jr_request *request);  /* ...and its answer is awaited */
void jr_request_refuse_rows(struct jr_request *request);       /* too much of it came: as with false above */

/* The end mark of a result came (false: there was no result to end). */
bool jr_request_end_answer(struct jr_request *request, PGconn *conn);

/* All is answered: has each answer the form that is expected? */
bool jr_request_makes_sense(const struct jr_request *request, struct jr_err *err) JR_MUST;

/* Tell the owner and free the request. err: what happened, unless DONE. */
void jr_request_reply(struct jr_request *request, enum jr_pg_end end, const struct jr_err *err);

#endif
