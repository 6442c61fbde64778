/*
 * pg_reason: mask secrets in libpq's messages about a connection string or a failed connection. No I/O.
 *
 * A mistyped connection string can put pieces of a password where a host, a port or a database is expected, and libpq
 * and the server quote such pieces. So quoted text is shown as "***", except for names that are no secret: the host,
 * database, user, port and service of the connection if they look like names; files and sockets; numeric addresses; and
 * options of libpq.
 */
#ifndef JR_PG_REASON_H
#define JR_PG_REASON_H

#include <libpq-fe.h>

#include "base/base.h"

/* libpq's message `text` about a `conninfo` that it cannot read, with everything it quotes masked. Caller frees. */
char *jr_pg_reason_of_string(const char *text, const char *conninfo) JR_MUST;

/*
 * libpq's message `text` about a failed connection. If one of its names looks like a piece of something else (an @ in
 * the name of a database, letters in a port), all quoted text is masked and a hint about URIs is added. Caller frees.
 */
char *jr_pg_reason_of_connection(const char *text, PGconn *conn) JR_MUST;

#endif
