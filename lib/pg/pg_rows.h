/*
 * pg_rows: the rows of a user's statement, one by one, and how much of them is read. For pg_request.c and pg.c.
 */
#ifndef JR_PG_ROWS_H
#define JR_PG_ROWS_H

#include <libpq-fe.h>

#include "base/base.h"

struct jr_pg_rows {
	PGresult *kept; /* the first rows, in one result; NULL: none has come */
	size_t wanted;  /* how many are kept */
	size_t bytes;   /* of what is kept */
	size_t arrived; /* bytes read since the last whole message */
};

/* A row came (takes it). false: it is too large, or with it what is kept. */
bool jr_pg_rows_take(struct jr_pg_rows *rows, PGresult *row) JR_MUST;

/* What came behind the last row (takes it): gives the result, which is that one when there were no rows. */
PGresult *jr_pg_rows_end(struct jr_pg_rows *rows, PGresult *last) JR_MUST;

/* Has more of one message come than may be read? Then nothing more is to be. */
bool jr_pg_rows_are_many(const struct jr_pg_rows *rows);

/* PQconsumeInput, and what it read is counted. false: the connection is broken. */
bool jr_pg_rows_consume(struct jr_pg_rows *rows, PGconn *conn) JR_MUST;

void jr_pg_rows_release(struct jr_pg_rows *rows);

#endif
