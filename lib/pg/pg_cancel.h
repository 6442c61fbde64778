/*
 * pg_cancel: run libpq's PQcancel, which connects and waits, in a process of its own. For pg.c alone.
 */
#ifndef JR_PG_CANCEL_H
#define JR_PG_CANCEL_H

#include <libpq-fe.h>

/* Start the cancel and do not wait for it. Its process ends within five seconds, whatever becomes of `conn`. */
void jr_pg_cancel_apart(PGconn *conn);

#endif
