/*
 * rehearse: one attempt of a handler, here and now, for `jobrun try`.
 *
 * The handler is started, stopped and judged by the same attempt as in a runner; what is missing is everything around
 * it: no claim, no lease, no permit, no row, nothing written. The run is made up. A sql handler works in its database,
 * in a transaction that is rolled back.
 */
#ifndef JR_REHEARSE_H
#define JR_REHEARSE_H

#include "handler/handlers.h"

#define JR_REHEARSAL_RUN 0 /* id and claim of the run that is made up: no real one has them */

/* All borrowed. */
struct jr_rehearsal {
	const struct jr_handler *handler;
	const char *conninfo; /* for a sql handler; NULL: libpq's defaults */
	const char *payload;
	const char *key;        /* JOBRUN_KEY */
	const char *checkpoint; /* NULL: none */
	int64_t attempt, max_attempts;
	int64_t timeout_ms; /* -1: the handler's; 0: none */
	bool raw;           /* what it prints goes to a terminal as it is */
};

/* What it came to. */
struct jr_rehearsed {
	struct jr_outcome outcome;
	int64_t took_ms;
	int64_t pause_min_ms, pause_max_ms; /* until it would run again, if it would */
	bool killed;                        /* by a second INT */
};

/*
 * Run it to its end. TERM, HUP and INT stop the handler, a second INT kills it. false: jobrun itself could not go on;
 * whatever the handler does is an outcome.
 */
bool jr_rehearse(const struct jr_rehearsal *rehearsal, struct jr_rehearsed *rehearsed, struct jr_err *err) JR_MUST;
void jr_rehearsed_release(struct jr_rehearsed *rehearsed);

#endif
