/*
 * pg_error: turn errors of the server and of libpq into a jr_err, and read fields of results. No I/O.
 */
#ifndef JR_PG_ERROR_H
#define JR_PG_ERROR_H

#include <libpq-fe.h>

#include "base/err.h"

/*
 * Exported for its unit test.
 * Whether the first part of a CONTEXT is "JSON data, line 1: ..." in any language. Sets the line and the quoted text
 * (borrowed). Since PostgreSQL 14 that part is one line. 12 and 13 quote the last 50 bytes read, which may contain
 * newlines; these are followed only where the server speaks English.
 */
bool jr_pg_json_context(const char *context, long *line, const char **quoted, int *quoted_len);

/*
 * The error of a result: primary message, detail and hint on one line, SQLSTATE, code. The server's words are in the
 * language of its lc_messages.
 */
void jr_pg_result_error(const PGresult *result, struct jr_err *err);

/*
 * The same for a statement of the runner, whose errors are logged: without what quotes values of rows and of
 * parameters, since these may be payloads.
 */
void jr_pg_logged_error(const PGresult *result, struct jr_err *err);

/* The same as the first for a user's statement: a missing table is then not reported as a missing schema jobrun. */
void jr_pg_statement_error(const PGresult *result, struct jr_err *err);

/*
 * The server does not know the commands of jobrun. If the error says that the role of the connection lacks a right, add
 * the command that gives it, and to a lock timeout the one that shows who holds the lock. kind: what the role needs
 * ("read"); NULL: no advice on rights.
 */
void jr_pg_advise(struct jr_err *err, const char *kind, const PGconn *conn);

/* An error that jobrun itself found, with a matching SQLSTATE. Always false. */
bool jr_pg_fail(struct jr_err *err, const char *sqlstate, const char *text);

/*
 * The error of a connection (conn may be NULL: out of memory). libpq gives text only. With PQERRORS_VERBOSE that text
 * contains the server's SQLSTATE, which is moved from there to err->sqlstate. Whatever could be part of a password is
 * masked (pg_reason.h). `what` is put in front of the text unless it is NULL.
 */
void jr_pg_conn_error(PGconn *conn, const char *what, struct jr_err *err);

/* A connection that is being made (NULL: there is none): from where no answer has come yet. Masked likewise. */
void jr_pg_no_answer(PGconn *conn, struct jr_err *err);
void jr_pg_silent(PGconn *conn, struct jr_err *err); /* the same when no answer is awaited any more */

/* Is it worth a new try after a pause (connection trouble, too many clients, starting up, read-only standby)? */
bool jr_pg_is_temporary(const struct jr_err *err);

/* Did jobrun, not the server, find that an answer makes no sense (pg_form.h)? */
bool jr_pg_is_nonsense(const struct jr_err *err);

/* A field of a result, NULL for NULL (borrowed from it); as a number, `missing` for NULL; as a boolean. */
const char *jr_pg_text(const PGresult *result, int row, int column);
int64_t jr_pg_int(const PGresult *result, int row, int column, int64_t missing);
bool jr_pg_bool(const PGresult *result, int row, int column);

#endif
