/*
 * pg_error: what the server and libpq say, as a jr_err; and fields of results. No I/O.
 */
#ifndef JR_PG_ERROR_H
#define JR_PG_ERROR_H

#include <libpq-fe.h>

#include "base/err.h"

/* What kind of failure a SQLSTATE means, as an exit status. "" is trouble with the connection: JR_E_TEMP. */
enum jr_errc jr_pg_errc(const char *sqlstate);

/*
 * How long the first part of a CONTEXT is: "JSON data, line 1: ..." with the text that it quotes. 0: it is of something
 * else. Since 14 that is its first line; 12 and 13 quote the last 50 bytes that were read, whatever lines they are of.
 */
size_t jr_pg_json_context(const char *context);

/* The error of a result: primary message, detail and hint on one line, SQLSTATE, code. */
void jr_pg_result_error(const PGresult *result, struct jr_err *err);

/* The same for a statement of a user's: what is missing then is not ours. */
void jr_pg_statement_error(const PGresult *result, struct jr_err *err);

/* An error that this side found, with the SQLSTATE that fits it. Always false. */
bool jr_pg_fail(struct jr_err *err, const char *sqlstate, const char *text);

/*
 * The error of a connection (conn may be NULL: out of memory). libpq gives text only; with PQERRORS_VERBOSE the text
 * of a refusal contains the SQLSTATE, which is taken out of it; what could be of a password is masked (pg_reason.h). A
 * `what` of NULL: the text of libpq says it all.
 */
void jr_pg_conn_error(PGconn *conn, const char *what, struct jr_err *err);

/* Is it worth a new try after a pause (connection trouble, too many clients, starting up, read-only standby)? */
bool jr_pg_is_temporary(const struct jr_err *err);

/* Was it an answer that made no sense? Not the server says so, but this side. */
bool jr_pg_is_nonsense(const struct jr_err *err);

/* A field of a result, NULL for NULL (borrowed from it); as a number, `missing` for NULL; as a boolean. */
const char *jr_pg_text(const PGresult *result, int row, int column);
int64_t jr_pg_int(const PGresult *result, int row, int column, int64_t missing);
bool jr_pg_bool(const PGresult *result, int row, int column);

/* A number as parameter text; `out` has room for 24 bytes. Returns out. */
const char *jr_pg_print_int(char out[24], int64_t value);

#endif
