/*
 * pg_connect: connection options, and one try to connect, host by host.
 */
#ifndef JR_PG_CONNECT_H
#define JR_PG_CONNECT_H

#include <libpq-fe.h>

#include "base/err.h"
#include "pg/pg_hosts.h"

/*
 * PQconnectStartParams with our defaults; with `lists` not NULL to these hosts instead of those of the connection
 * string. NULL with JR_E_CONFIG: the connection string cannot be read.
 */
PGconn *jr_pg_connect(const char *conninfo, const struct jr_pg_lists *lists, struct jr_err *err) JR_MUST;

/*
 * One try. libpq goes on to the next host if one refuses. If one does not answer, jr_pg_dial_next leaves it out. Hosts
 * are remembered from try to try (pg_hosts.h).
 */
struct jr_pg_dial {
	struct jr_pg_hosts hosts; /* empty before the first try */
	size_t at;                /* the host whose answer is awaited */
	int64_t each_ms;          /* for each host: connect_timeout; 0: not set, or it does not count */
	int64_t end_ms;           /* of the try, if each_ms is 0 */
	char silent[400];         /* who has not answered */
};

/*
 * Begin a try. pinned: no name is looked up, and connect_timeout does not count. The connection is the caller's, and
 * may have failed already. NULL with JR_E_CONFIG as in jr_pg_connect.
 */
PGconn *jr_pg_dial_begin(
    struct jr_pg_dial *dial, const char *conninfo, int64_t timeout_ms, bool pinned, struct jr_err *err) JR_MUST;

/* Has libpq gone on to another host? */
bool jr_pg_dial_has_moved(struct jr_pg_dial *dial, PGconn *conn);

/* Until when to wait for the host whose answer is awaited. */
int64_t jr_pg_dial_until_ms(const struct jr_pg_dial *dial);

/*
 * That host has not answered: close this connection, and make one to the others. NULL with JR_E_TEMP: no host is left.
 */
PGconn *jr_pg_dial_next(struct jr_pg_dial *dial, const char *conninfo, PGconn *conn, struct jr_err *err) JR_MUST;

void jr_pg_dial_done(struct jr_pg_dial *dial, PGconn *conn); /* connected */

/* The connection has failed: libpq's reason, and who has not answered. */
void jr_pg_dial_failed(const struct jr_pg_dial *dial, PGconn *conn, struct jr_err *err);

#endif
