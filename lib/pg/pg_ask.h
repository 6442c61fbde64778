/*
 * pg_ask: one question at a time on a connection of the caller's (jr_db_detach), which is non-blocking and in no
 * pipeline.
 *
 * For what a pipeline does not have: scripts of several statements, and COPY. Every wait has a deadline. After a
 * failure of the connection (not of a statement) it is of no use any more.
 */
#ifndef JR_PG_ASK_H
#define JR_PG_ASK_H

#include "pg/pg_error.h"

/*
 * Send it and take the answer, which is the caller's (PQclear); NULL on failure. `values` of NULL: a script, sent as it
 * is, of which the last answer counts; or a COPY, whose answer is PGRES_COPY_IN and after which rows are due.
 */
PGresult *jr_pg_ask(PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err) JR_MUST;

/* The same, when there is nothing to read in the answer. */
bool jr_pg_say(PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err) JR_MUST;

/*
 * Send a script of this program's own. A table or function that it does not find is its fault (JR_E_BUG), not one of
 * the schema that people could mend.
 */
bool jr_pg_script(PGconn *conn, const char *script, int64_t timeout_ms, struct jr_err *err) JR_MUST;

/*
 * The answer to what has been sent already: the first error of the server's, which may be looked at, else the last
 * result. NULL: the connection is lost, or the time is over.
 */
PGresult *jr_pg_answer(PGconn *conn, int64_t timeout_ms, struct jr_err *err) JR_MUST;

bool jr_pg_is_error(const PGresult *result);

#endif
