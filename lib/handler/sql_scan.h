/*
 * sql_scan: is this text one statement that a handler may run? Pure.
 *
 * It knows the lexical rules of PostgreSQL (quotes, E'' strings, dollar quotes, nested comments, BEGIN ATOMIC bodies)
 * but not its grammar: the server finds all other errors. It refuses an empty text, a second statement, and a statement
 * that would end the runner's transaction or needs another protocol (BEGIN, START, COMMIT, END, ROLLBACK, ABORT,
 * SAVEPOINT, RELEASE, PREPARE TRANSACTION, COPY).
 */
#ifndef JR_SQL_SCAN_H
#define JR_SQL_SCAN_H

#include "base/err.h"

/*
 * JR_E_CONFIG; the message begins with "LINE:COLUMN: ", so that the caller can put the file's name before it. A NUL
 * byte is refused too.
 */
bool jr_handler_sql_scan(const char *text, size_t len, struct jr_err *err) JR_MUST;

#endif
