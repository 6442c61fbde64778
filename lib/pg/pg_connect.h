/*
 * pg_connect: how a connection is begun.
 */
#ifndef JR_PG_CONNECT_H
#define JR_PG_CONNECT_H

#include <libpq-fe.h>

#include "base/err.h"

/* Where a connection went, so that the next one needs no name lookup. Empty for a Unix socket, which needs none. */
struct jr_pg_address {
	char host[256], address[64], port[16];
};

void jr_pg_address_of(const PGconn *conn, struct jr_pg_address *address);

/*
 * PQconnectStartParams with our defaults and, if `fixed` is not NULL and not empty, to that address. NULL, JR_E_CONFIG:
 * the connection string cannot be read.
 */
PGconn *jr_pg_connect(const char *conninfo, const struct jr_pg_address *fixed, struct jr_err *err) JR_MUST;

/*
 * How long to try: connect_timeout, if people gave one (libpq itself heeds it only when it blocks), else otherwise_ms.
 */
int64_t jr_pg_connect_ms(PGconn *conn, int64_t otherwise_ms);

#endif
