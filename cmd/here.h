/*
 * here: what this host says of itself when it asks why a run does not start: its runners tell the database what they
 * can do at each tick, so what has come since is known here alone.
 */
#ifndef JR_HERE_H
#define JR_HERE_H

#include "base/base.h"

struct jr_here {
	char host[256]; /* as its runners call themselves */
	char *types;    /* the job types with a handler here, an array literal; NULL: none, or they cannot be read */
};

void jr_here_read(struct jr_here *here);
void jr_here_release(struct jr_here *here);

#endif
