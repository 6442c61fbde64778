/*
 * doubt: find out whether a transaction was committed when the connection was lost before COMMIT was answered.
 *
 * The transaction reads its number (txid_current()) before. With that number the server knows its fate on any
 * connection, behind a pooler and after a restart too.
 */
#ifndef JR_DOUBT_H
#define JR_DOUBT_H

#include "commands.h"

enum jr_fate {
	JR_FATE_COMMITTED,
	JR_FATE_ABORTED,
	JR_FATE_UNKNOWN /* no connection, or the server does not know it any more: *err has the last reason */
};

/*
 * Ask the server for up to half a minute. *db may be NULL; if it is not open, it is closed and replaced by a new
 * connection, or by NULL on failure.
 */
enum jr_fate jr_doubt_resolve(
    const struct jr_app *app, struct jr_db **db, const char *number, struct jr_err *err) JR_MUST;

#endif
