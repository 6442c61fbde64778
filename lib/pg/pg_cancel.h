/*
 * pg_cancel: libpq's cancel, which connects and waits, in a process of its own. For pg.c alone.
 */
#ifndef JR_PG_CANCEL_H
#define JR_PG_CANCEL_H

#include <libpq-fe.h>

/* Ask for it, and leave it to itself: it ends by its own means, within five seconds, whatever becomes of `conn`. */
void jr_pg_cancel_apart(PGconn *conn);

#endif
