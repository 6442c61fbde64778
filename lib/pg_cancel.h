/*
 * pg_cancel: libpq's cancel, which connects and waits, in a process of its own. For pg.c alone.
 */
#ifndef JR_PG_CANCEL_H
#define JR_PG_CANCEL_H

#include <libpq-fe.h>

#include "loop.h"

/* At most one process at a time; a request while it is there is covered by it. */
struct jr_pg_canceller {
	struct jr_loop *loop;
	struct jr_watch watch; /* its pidfd */
	int64_t pid;           /* 0: none */
};

void jr_pg_canceller_init(struct jr_pg_canceller *canceller, struct jr_loop *loop);
void jr_pg_canceller_send(struct jr_pg_canceller *canceller, PGconn *conn);
void jr_pg_canceller_release(struct jr_pg_canceller *canceller); /* kills and reaps what is left */

#endif
