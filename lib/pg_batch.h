/*
 * pg_batch: the inside of a batch, for pg.c alone: its statements, and what has been answered so far.
 *
 * Statements are numbered through: what opens the transaction, then the owner's, then what closes it.
 */
#ifndef JR_PG_BATCH_H
#define JR_PG_BATCH_H

#include "pg.h"

struct jr_batch_statement {
	const char *sql;
	size_t count;
	char **values;
};

struct jr_batch {
	struct jr_batch *next;
	struct jr_batch_statement *statements;
	PGresult **results;
	size_t count;
	size_t first; /* the owner's statements: [first, first + owned) */
	size_t owned;
	size_t at;     /* the one whose answer is awaited; == count: the Sync */
	bool answered; /* its result has come, its end mark not yet */
	bool failed;
	size_t failed_at; /* as in jr_reply */
	struct jr_err err;
	enum jr_batch_kind kind;
	int64_t deadline_ms;
	int64_t sent_ms;
	jr_reply_fn *fn;
	void *ctx;
};

/* One that is not the owner's. */
void jr_batch_add_statement(
    struct jr_batch *batch, const char *sql, size_t count, const char *const *values);

/* Hand everything to libpq, Sync included. false: the connection is broken. */
bool jr_batch_send(struct jr_batch *batch, PGconn *conn) JR_MUST;

/* A result came (takes it); its end mark came (false: there was no result to end). */
void jr_batch_take(struct jr_batch *batch, PGresult *result);
bool jr_batch_end_answer(struct jr_batch *batch);

/* Tell the owner and free the batch. err: what happened, unless DONE. */
void jr_batch_reply(struct jr_batch *batch, enum jr_pg_end end, const struct jr_err *err);

#endif
