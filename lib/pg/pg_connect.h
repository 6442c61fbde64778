/*
 * pg_connect: connection options and addresses.
 */
#ifndef JR_PG_CONNECT_H
#define JR_PG_CONNECT_H

#include <libpq-fe.h>

#include "base/err.h"

/* The address of a connection, so that the next one needs no name lookup. Empty for a Unix socket. */
struct jr_pg_address {
	char host[256], address[64], port[16];
};

void jr_pg_address_of(const PGconn *conn, struct jr_pg_address *address);

/*
 * PQconnectStartParams with our defaults; if `fixed` is not NULL and not empty, to that address. NULL with JR_E_CONFIG:
 * the connection string cannot be read.
 */
PGconn *jr_pg_connect(const char *conninfo, const struct jr_pg_address *fixed, struct jr_err *err) JR_MUST;

/*
 * How long to try: connect_timeout if it is set, else otherwise_ms. libpq itself applies connect_timeout only when it
 * blocks.
 */
int64_t jr_pg_connect_ms(PGconn *conn, int64_t otherwise_ms);

#endif
