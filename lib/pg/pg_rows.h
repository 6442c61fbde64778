/*
 * pg_rows: read the rows of a user's statement one by one and bound their size. For pg_request.c and pg.c.
 */
#ifndef JR_PG_ROWS_H
#define JR_PG_ROWS_H

#include <libpq-fe.h>

#include "base/base.h"

struct jr_pg_rows {
	PGresult *kept; /* the first rows, in one result; NULL: no row has come */
	size_t wanted;  /* how many are kept */
	size_t bytes;   /* size of the kept rows */
	size_t arrived; /* bytes read since the last whole message */
};

/* A row came (takes it). false: it is too large, or all kept rows together are. */
bool jr_pg_rows_take(struct jr_pg_rows *rows, PGresult *row) JR_MUST;

/*
 * The result after the last row came (takes it). Returns the result of the statement: the kept rows, or `last` if there
 * are none or it is an error.
 */
PGresult *jr_pg_rows_end(struct jr_pg_rows *rows, PGresult *last) JR_MUST;

/* Has more of one message come than may be read? Then the caller must not read on. */
bool jr_pg_rows_are_many(const struct jr_pg_rows *rows);

/* PQconsumeInput, and count the bytes it read. false: the connection is broken. */
bool jr_pg_rows_consume(struct jr_pg_rows *rows, PGconn *conn) JR_MUST;

void jr_pg_rows_release(struct jr_pg_rows *rows);

#endif
