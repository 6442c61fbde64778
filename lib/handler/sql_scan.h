/*
 * sql_scan: is this text one statement that may be a handler? Pure.
 *
 * It knows the lexical rules of PostgreSQL (quotes, E'' strings, dollar quotes, comments that nest, BEGIN ATOMIC
 * bodies) and nothing of its grammar: the server has the last word. What it finds early: nothing at all, a second
 * statement, and a statement that would leave the transaction or the protocol of the runner (BEGIN, START, COMMIT, END,
 * ROLLBACK, ABORT, SAVEPOINT, RELEASE, PREPARE TRANSACTION, COPY).
 */
#ifndef JR_SQL_SCAN_H
#define JR_SQL_SCAN_H

#include "base/err.h"

/*
 * JR_E_CONFIG with "LINE:COLUMN: " in front, for a caller who puts the file's name before it, and what to do. Bytes
 * that are no text (NUL) are refused too.
 */
bool jr_handler_sql_scan(const char *text, size_t len, struct jr_err *err) JR_MUST;

#endif
