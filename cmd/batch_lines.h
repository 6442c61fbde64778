/*
 * batch_lines: send the lines of a file to the server, in parts (enqueue_bulk.sql). While the server works on one part,
 * the caller reads the next.
 *
 * Lines are sent as they are; the server alone parses them. The caller owns the connection (jr_db_detach) and has
 * begun a transaction on it. The server has 30 s for each part, then this module gives up the connection. There is no
 * limit on how long the next line may take to come. After a failure the caller can only roll back or close the
 * connection.
 *
 * Protocol: PostgreSQL manual, PQsendQueryParams; binary arrays as in array_recv() of the server (arrayfuncs.c).
 */
#ifndef JR_BATCH_LINES_H
#define JR_BATCH_LINES_H

#include <libpq-fe.h>

#include "base/err.h"

struct jr_batch_lines;

/* What is the same for all lines: the other parameters of enqueue_bulk.sql. */
struct jr_batch_common {
	const char *type;
	const char *options;
	bool per_run;
};

struct jr_batch_counts {
	int64_t created, existed;
};

/* conn is borrowed, and so are the texts of *common. */
struct jr_batch_lines *jr_batch_lines_new(PGconn *conn, const struct jr_batch_common *common) JR_MUST;
void jr_batch_lines_free(struct jr_batch_lines *lines); /* NULL is fine */

/*
 * Add a line, without its newline; `text` of NULL: an empty one, which only counts. Lines are sent together, so a later
 * call may report that this one was refused.
 */
bool jr_batch_lines_add(struct jr_batch_lines *lines, const char *text, size_t len, struct jr_err *err) JR_MUST;

/* Wait without a limit until fd can be read. Meanwhile send what is there and read what the server says. */
bool jr_batch_lines_wait(struct jr_batch_lines *lines, int fd, struct jr_err *err) JR_MUST;

/* Send the rest. On success the server has accepted all lines; the caller still has to commit. */
bool jr_batch_lines_end(struct jr_batch_lines *lines, struct jr_err *err) JR_MUST;

/* After a success: how many runs are new, and how many existed already. */
struct jr_batch_counts jr_batch_lines_counts(const struct jr_batch_lines *lines);

/* After a failure: the number of the refused line, from 1; 0: the error is not about one line. */
int64_t jr_batch_lines_refused(const struct jr_batch_lines *lines);

#endif
