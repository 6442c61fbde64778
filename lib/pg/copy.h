/*
 * copy: send rows through a COPY ... FROM STDIN statement. The caller owns the connection (jr_db_detach) and has begun
 * a transaction on it.
 *
 * Values are escaped and otherwise sent as they are; the server decides whether they are valid. The rows are sent in
 * parts, each a COPY of its own, because the server reports some errors only at the end of a COPY. The server has 30 s
 * for each step, then this module gives up the connection. There is no limit on how long the next row may take to come.
 * After a failure the caller can only roll back or close the connection.
 *
 * Protocol: PostgreSQL manual, "Functions Associated with the COPY Command", and COPY, "Text Format".
 */
#ifndef JR_COPY_H
#define JR_COPY_H

#include <libpq-fe.h>

#include "base/err.h"

struct jr_copy;

struct jr_copy_value {
	const char *data; /* NULL: a null */
	size_t len;
};

/*
 * conn is borrowed. `relation` is the name that the server uses in the context of an error ("COPY new_runs, line 17").
 * Triggers of the relation name the line with the prefix "line 17: " in their messages.
 */
struct jr_copy *jr_copy_new(PGconn *conn, const char *sql, const char *relation) JR_MUST;
void jr_copy_free(struct jr_copy *copy); /* NULL is fine */

/* Add a row. Rows are buffered and sent together, so a later call may report that this row was refused. */
bool jr_copy_row(struct jr_copy *copy, const struct jr_copy_value *values, size_t count, struct jr_err *err) JR_MUST;

/* Wait without a limit until fd can be read. Meanwhile send all buffered rows and read what the server sends. */
bool jr_copy_wait(struct jr_copy *copy, int fd, struct jr_err *err) JR_MUST;

/* End the stream. On success the server has accepted all rows; the caller still has to commit. */
bool jr_copy_end(struct jr_copy *copy, struct jr_err *err) JR_MUST;

/* After a failure: the number of the refused row, from 1; 0: the error is not about one row. */
int64_t jr_copy_refused(const struct jr_copy *copy);

#endif
