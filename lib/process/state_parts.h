/*
 * state_parts: what the files of state share. Nobody else includes it.
 *
 *	state.c          which directories
 *	state_permits.c   the permits
 *	state_away.c     what was said of a database that is away
 */
#ifndef JR_STATE_PARTS_H
#define JR_STATE_PARTS_H

#include "process/state.h"

/* FNV-1a: a short name for a file; the directory is private, so nobody looks for collisions. */
uint64_t jr_state_hash(const char *text);

/* The file in that directory that keeps what belongs to `name`. Caller frees. */
char *jr_state_file(const char *directory, const char *name, const char *ending) JR_MUST;

#endif
