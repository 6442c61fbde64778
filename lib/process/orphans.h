/*
 * orphans: reap what handlers have left, when we are process 1.
 *
 * A process whose parent has ended becomes a child of process 1 of its PID namespace. In a container whose command is
 * jobrun that is the runner. If nobody reaps them, they stay as zombies until no process can be started any more. So
 * such a runner looks each second for children that have ended and that it has not started itself. It does nothing if
 * it is an ordinary process.
 */
#ifndef JR_ORPHANS_H
#define JR_ORPHANS_H

#include <sys/types.h>

#include "base/loop.h"

/* A child that we have started, and that its owner reaps. */
struct jr_own {
	pid_t pid;
	struct jr_own *next, **prev; /* NULL: it is not on the list */
};

/* One for each runner. All zero at first. */
struct jr_orphans {
	struct jr_own *first;
	struct jr_loop *loop; /* NULL: nobody looks */
	struct jr_timer timer;
};

void jr_orphans_keep(struct jr_orphans *orphans, struct jr_own *own, pid_t pid); /* before the next turn of the loop */
void jr_orphans_leave(struct jr_own *own); /* it has been reaped; no harm if it is not on the list */

/* Look from now on, until the end. Both may be called again. */
void jr_orphans_begin(struct jr_orphans *orphans, struct jr_loop *loop);
void jr_orphans_end(struct jr_orphans *orphans);

#endif
