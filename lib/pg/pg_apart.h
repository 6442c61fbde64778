/*
 * pg_apart: a process of its own for a call of a library that blocks.
 */
#ifndef JR_PG_APART_H
#define JR_PG_APART_H

#include "base/base.h"

/*
 * Run `work` in a process that is no child of this one. It has no descriptors but `keep` (0: none), and ends after so
 * many seconds. Returns 0 or an errno.
 */
int jr_pg_apart(void (*work)(void *ctx), void *ctx, int keep, unsigned seconds);

#endif
