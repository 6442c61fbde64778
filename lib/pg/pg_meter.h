/*
 * pg_meter: bounds what libpq buffers. For pg.c alone.
 *
 * PQconsumeInput reads a long message in one call as long as more bytes are there, up to 100 MB and more. So this
 * module moves the socket to another descriptor and gives libpq one end of a socket pair under the old number. The loop
 * copies bytes between the other end and the socket in small pieces, and libpq can read no more than was copied.
 */
#ifndef JR_PG_METER_H
#define JR_PG_METER_H

#include "base/loop.h"

struct jr_pg_meter;

/* Make `fd` one end of the pair. NULL: there are no descriptors left, and nothing has changed. */
struct jr_pg_meter *jr_pg_meter_new(struct jr_loop *loop, int fd) JR_MUST;

/* libpq has sent something: pass it on at once, not in the next turn of the loop. NULL is fine. */
void jr_pg_meter_pass(struct jr_pg_meter *meter);

/* Call it after `fd` was closed. Bytes that are not sent yet are sent if that works at once. NULL is fine. */
void jr_pg_meter_free(struct jr_pg_meter *meter);

#endif
