/*
 * pg_lookup: learn the addresses of the names among the hosts, for tries that must not look them up (pg_hosts.h).
 *
 * The look-up blocks, so it runs in a process of its own; the addresses come through the loop.
 */
#ifndef JR_PG_LOOKUP_H
#define JR_PG_LOOKUP_H

#include "base/buf.h"
#include "base/loop.h"
#include "pg/pg_hosts.h"

/* Zeroed: nothing is looked up. */
struct jr_pg_lookup {
	struct jr_pg_hosts *hosts; /* NULL: nothing is looked up now */
	struct jr_watch watch;
	struct jr_buf answer;
	int fd;
};

/*
 * Begin, unless a look-up is under way or there is one host only. A name that cannot be looked up keeps what is known
 * of it.
 */
void jr_pg_lookup_start(struct jr_pg_lookup *lookup, struct jr_loop *loop, struct jr_pg_hosts *hosts);
void jr_pg_lookup_stop(struct jr_pg_lookup *lookup); /* nothing more comes */

#endif
