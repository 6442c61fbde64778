/*
 * sweep: end the processes that stopped handlers have left in other groups of their sessions (group.h).
 *
 * To find them every process of the host is read, which takes long where there are many. So all handlers of a runner
 * share a look: what is asked for within SWEEP_MS is done by one, however many handlers are stopped at once.
 */
#ifndef JR_SWEEP_H
#define JR_SWEEP_H

#include "base/loop.h"

/* One for each runner. All zero at first; it holds nothing while nobody has asked. */
struct jr_sweep {
	struct jr_swept *first;
	struct jr_timer timer;
	int64_t last_ms;
};

enum jr_swept_state {
	JR_SWEPT_WANTED, /* the look that was asked for is still to come */
	JR_SWEPT_FOUND,  /* it has found somebody, who has got the signal */
	JR_SWEPT_CLEAR   /* it has found nobody */
};

/* One for each handler, all zero at first. */
struct jr_swept {
	struct jr_sweep *sweep; /* NULL: it is not asked for */
	struct jr_swept *next, **prev;
	int64_t session;
	int signo;
	enum jr_swept_state state;
};

/* Send this signal to the other groups of the session soon. What was found before does not count any more. */
void jr_sweep_ask(struct jr_sweep *sweep, struct jr_loop *loop, struct jr_swept *swept, int64_t session, int signo);

/* Ask no more. Before the number of the session can belong to somebody else, and before *swept is freed. */
void jr_sweep_leave(struct jr_swept *swept);

#endif
