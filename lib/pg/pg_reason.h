/*
 * pg_reason: what libpq says of a connection string or a connection that failed, fit to be shown. No I/O.
 *
 * A mistyped connection string puts pieces of a password where a host, a port or a database is expected, and libpq and
 * the server quote what they do not understand. So what they quote is shown as "***", but for the names that are no
 * secret: those of host, database, user, port and service that the connection was made with, if they look like names;
 * files and sockets; numeric addresses; and options of libpq.
 */
#ifndef JR_PG_REASON_H
#define JR_PG_REASON_H

#include <libpq-fe.h>

#include "base/base.h"

/* Why `conninfo` could not be read, in libpq's words: of what it quotes nothing is shown. Caller frees. */
char *jr_pg_reason_of_string(const char *text, const char *conninfo) JR_MUST;

/*
 * Why a connection failed. If one of the names it was made with looks like a piece of something else (an @ in the name
 * of a database, letters in a port), nothing that is quoted is shown, and what to look for is said. Caller frees.
 */
char *jr_pg_reason_of_connection(const char *text, PGconn *conn) JR_MUST;

#endif
