/*
 * pg_request: the statements of a request and the answers that have come so far. For pg.c alone.
 *
 * The statements have one numbering: first those that open the transaction, then the owner's, then the one that closes
 * it.
 */
#ifndef JR_PG_REQUEST_H
#define JR_PG_REQUEST_H

#include "pg/pg.h"
#include "pg/pg_rows.h"

struct jr_request_statement {
	const char *sql;
	size_t count;
	char **values;
	bool foreign;               /* a user's statement: $1 is of type jsonb, and its rows come one by one */
	const struct jr_form *form; /* of the result; NULL: it is not checked */
	size_t least, most;         /* rows */
};

struct jr_request {
	struct jr_request *next;
	struct jr_request_statement *statements;
	PGresult **results;
	size_t count;
	size_t first; /* the owner's statements: [first, first + owned) */
	size_t owned;
	size_t at;                   /* the statement whose answer is awaited; == count: the Sync */
	bool read;                   /* something of the answers was read */
	bool answered;               /* its result has come, its end mark not yet */
	struct jr_pg_rows rows;      /* of the foreign statement, if there is one */
	bool bare;                   /* see jr_request_bare: errors are reported in the server's words */
	const char *const *cleaning; /* see jr_request_clean */
	size_t cleaning_count;
	bool told;       /* see jr_request_told: errors may quote values */
	char **warnings; /* for people, in the order in which they came */
	size_t warning_count;
	const struct jr_pg_events *events; /* who is told of them */
	bool failed;
	size_t failed_at; /* as in jr_reply */
	struct jr_err err;
	enum jr_request_kind kind;
	int64_t deadline_ms;
	int64_t sent_ms;
	jr_reply_fn *fn;
	void *ctx;
};

/*
 * A notice has come. If it is a warning for people of a function of the schema (a user's statement has no say in it),
 * the owner is told behind the reply, unless it is certain that nothing was committed.
 */
void jr_request_take_notice(struct jr_request *request, const struct jr_pg_events *events, const PGresult *notice);

/* Add a statement that is not the owner's. */
void jr_request_add_statement(struct jr_request *request, const char *sql, size_t count, const char *const *values);

/* Add ROLLBACK, and the cleaning that `of` asks for; they may be the same request. */
void jr_request_add_rollback(struct jr_request *request, const struct jr_request *of);

/* Pass all statements and the Sync to libpq. false: the connection is broken. */
bool jr_request_send(struct jr_request *request, PGconn *conn) JR_MUST;

/*
 * A result came (takes it). false: nothing more may be read, request->err says why, and the connection must be closed.
 */
bool jr_request_take(struct jr_request *request, PGresult *result) JR_MUST;
bool jr_request_has_foreign(const struct jr_request *request); /* does it contain a user's statement? */
bool jr_request_is_foreign(const struct jr_request *request);  /* is the answer of a user's statement awaited? */
void jr_request_refuse_rows(struct jr_request *request);       /* its rows are too large: fail the request */

/* The end mark of a result came. false: no result came before it. */
bool jr_request_end_answer(struct jr_request *request, PGconn *conn);

/* Has each answer the expected form? Call it when all have come. */
bool jr_request_makes_sense(const struct jr_request *request, struct jr_err *err) JR_MUST;

/* Give the owner the reply, and the warnings behind it, and free the request. err: the reason, unless DONE. */
void jr_request_reply(struct jr_request *request, enum jr_pg_end end, const struct jr_err *err);

/* The same for a request and all behind it, which were not sent. */
void jr_request_reply_unsent(struct jr_request *request, const struct jr_err *err);

#endif
