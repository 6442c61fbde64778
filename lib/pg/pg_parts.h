/*
 * pg_parts: what the files of pg share. Nobody else includes it.
 *
 *	pg.c         one connection: made, lost, given away
 *	pg_wire.c    batches: sent, answered, replied to
 *	pg_batch.c   the inside of one batch
 *	pg_rows.c    rows of a user's statement
 *	pg_meter.c   not more at once than may be in memory
 *	pg_cancel.c  libpq's cancel, in a process of its own
 */
#ifndef JR_PG_PARTS_H
#define JR_PG_PARTS_H

#include "pg/pg_batch.h"
#include "pg/pg_cancel.h"
#include "pg/pg_connect.h"
#include "pg/pg_meter.h"

enum jr_pg_state {
	JR_PG_CLOSED,
	JR_PG_CONNECTING,
	JR_PG_OPEN
};

struct jr_pg {
	struct jr_loop *loop;
	struct jr_pg_events events;
	char *conninfo;
	PGconn *conn;
	enum jr_pg_state state;
	bool answered; /* a batch, since it was opened */
	struct jr_watch watch;
	struct jr_timer deadline; /* of connecting, or of the batch on the wire */
	struct jr_timer broken;   /* a failure to be told from the loop */
	struct jr_err why;
	struct jr_batch *wire;
	struct jr_batch *failed; /* refused; its reply waits for the rollback that is on the wire */
	struct jr_batch *head, **tail;
	struct jr_pg_address address; /* of the last good connection */
	int64_t cancelled_ms;         /* when a cancel was sent last; 0: never */
	struct jr_pg_meter *meter;    /* once a user's statement was sent */
	char notice[512];
};

/* pg.c: the connection is no good any more, which is told from the loop; `why` is filled, or libpq says it. */
void jr_pg_break_later(struct jr_pg *pg);
void jr_pg_break(struct jr_pg *pg, const char *what);

/* pg_wire.c: the next batch, if there is one and nothing is on the wire; what the socket has; everybody is told. */
void jr_pg_send_next(struct jr_pg *pg);
void jr_pg_serve_wire(struct jr_pg *pg, short revents);
void jr_pg_fail_batches(struct jr_pg *pg);

#endif
