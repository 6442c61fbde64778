/*
 * copy: a stream of rows for a COPY ... FROM STDIN of lib/sql, on a connection of the caller's (jr_db_detach) that is
 * in a transaction of the caller's.
 *
 * Values are bytes that are escaped and otherwise untouched: what they mean is for the server to say. The stream is
 * sent in parts, each a COPY of its own, so that the server is heard at least once a part; it is heard earlier if it
 * cannot read a row. It has 30 s for each bit of progress, then the connection is given up; whoever makes the rows has
 * all the time there is. After a failure the transaction can only be rolled back, or the connection closed.
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
 * conn is borrowed. `relation`: as the server calls it when it says where a mistake is ("COPY new_runs, line 17"); its
 * triggers do so by "line 17: " in front of the message.
 */
struct jr_copy *jr_copy_new(PGconn *conn, const char *sql, const char *relation) JR_MUST;
void jr_copy_free(struct jr_copy *copy); /* NULL is fine */

/* Add a row. It is sent with others; that one of them was refused may be told by any later call. */
bool jr_copy_row(struct jr_copy *copy, const struct jr_copy_value *values, size_t count, struct jr_err *err) JR_MUST;

/* Wait, for as long as it takes, until fd can be read; meanwhile everything is sent, and the server is listened to. */
bool jr_copy_wait(struct jr_copy *copy, int fd, struct jr_err *err) JR_MUST;

/* The stream is over: everything has been taken by the server, if not yet committed. */
bool jr_copy_end(struct jr_copy *copy, struct jr_err *err) JR_MUST;

/* After a failure: which row was refused, from 1; 0: none in particular. */
int64_t jr_copy_refused(const struct jr_copy *copy);

#endif
