/*
 * pg_meter: a connection's bytes, handed to libpq in small pieces. For pg.c alone.
 *
 * libpq reads a long message in one call for as long as the server keeps up with it, 100 MB if need be, and asks
 * nobody. So the socket is put aside, and libpq has one end of a pair of sockets in its place, under the same number;
 * between the other end and the socket bytes are moved from the loop. It cannot read more than has been moved.
 */
#ifndef JR_PG_METER_H
#define JR_PG_METER_H

#include "base/loop.h"

struct jr_pg_meter;

/* From now on `fd` is one end of the pair. NULL: no descriptors; nothing has changed. */
struct jr_pg_meter *jr_pg_meter_new(struct jr_loop *loop, int fd) JR_MUST;

/* After `fd` was closed. What was written to it last is sent if that can be done at once. NULL is fine. */
void jr_pg_meter_free(struct jr_pg_meter *meter);

#endif
