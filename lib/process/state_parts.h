/*
 * state_parts: what the files of state share. No other file includes it.
 *
 *	state.c          finds the directories
 *	state_permits.c  the permits
 *	state_away.c     remembers when a failure to reach the database was last printed
 */
#ifndef JR_STATE_PARTS_H
#define JR_STATE_PARTS_H

#include "process/state.h"

/* FNV-1a, for short file names. The directory is private, so nobody can provoke collisions. */
uint64_t jr_state_hash(const char *text);

/* The path of the file for `name` with that ending. Caller frees. */
char *jr_state_file(const char *directory, const char *name, const char *ending) JR_MUST;

#endif
