/*
 * doubt: what became of a transaction whose COMMIT was sent and not answered, since the connection was lost.
 *
 * The server knows it by the number that the transaction had (txid_current() inside of it), on any connection, also
 * behind a pooler and after a restart.
 */
#ifndef JR_DOUBT_H
#define JR_DOUBT_H

#include "commands.h"

enum jr_fate {
	JR_FATE_COMMITTED,
	JR_FATE_ABORTED,
	JR_FATE_UNKNOWN /* the database stayed away, or has forgotten: *err says what happened last */
};

/* Connect anew (closes *db, which may be NULL, also afterwards) and ask, for up to half a minute. */
enum jr_fate jr_doubt_resolve(
    const struct jr_app *app, struct jr_db **db, const char *number, struct jr_err *err) JR_MUST;

#endif
