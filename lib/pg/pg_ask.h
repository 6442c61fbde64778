/*
 * pg_ask: one statement at a time on a connection that the caller owns (jr_db_detach), non-blocking and not in pipeline
 * mode.
 *
 * For what pipeline mode does not allow: scripts of several statements, and a transaction that lasts. Every wait has a
 * deadline. After a failure of the connection (not of a statement) the connection is unusable.
 */
#ifndef JR_PG_ASK_H
#define JR_PG_ASK_H

#include "pg/pg_error.h"

/*
 * Send `sql` and return its result, which the caller clears; NULL on failure. With `values` of NULL, `sql` may be a
 * script, whose last result is returned.
 */
PGresult *jr_pg_ask(PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err) JR_MUST;

/* The same, when the caller does not need the result. */
bool jr_pg_say(PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err) JR_MUST;

/*
 * Send an embedded script. If it names a table or function that does not exist, that is a bug of the script (JR_E_BUG)
 * and not something that people could mend in the schema.
 */
bool jr_pg_script(PGconn *conn, const char *script, int64_t timeout_ms, struct jr_err *err) JR_MUST;

/*
 * Wait for the answer to what has been sent already: the result with the first error, else the last result. NULL: the
 * connection is lost, or the time is over.
 */
PGresult *jr_pg_answer(PGconn *conn, int64_t timeout_ms, struct jr_err *err) JR_MUST;

bool jr_pg_is_error(const PGresult *result);

#endif
