/*
 * attempt: one claim of one run, from the start of its handler to exactly one outcome, or to none.
 *
 * A table of state x event. The reason why jobrun stopped a handler decides what its end means:
 *
 *	timeout   failed, error_code "timeout", whatever the exit; later if it never began, because it waited for
 *	          a connection or for others of its batch; no reason if the program had ended, and only what it
 *	          left was still there
 *	cancel    cancelled, except exit 0: succeeded
 *	shutdown  exit 0 succeeded, give up dead, anything else released
 *	lost      nothing is written
 *
 * There is one exception. A handler may commit the end of the run itself, together with its effect. That outcome is
 * reported as it was committed, whatever the reason. While it is unknown whether that commit arrived, the outcome says
 * what it would have written (`doubt`): the runner reads first, and when the lease was lost it does nothing but read.
 *
 * Without a reason the verdict decides: done succeeded, later, give up dead, fail failed. The first reason stays, but
 * lost replaces every other one. An attempt has deadlines of its own: the run's timeout, the fence of the lease (the
 * attempt is LOST when it passes), and the time between TERM and KILL.
 *
 *	            ENDED      TIMEOUT    CANCEL     SHUTDOWN   LOST       OVERDUE
 *	RUNNING     settle     stop       stop       stop       stop_lost  -
 *	STOPPING    settle     -          -          -          lost       kill
 *	KILLING     settle     -          -          -          lost       kill
 *	ENDED       (no event may follow: an assertion)
 */
#ifndef JR_ATTEMPT_H
#define JR_ATTEMPT_H

#include "base/backoff.h"
#include "handler/handler.h"

struct jr_attempt;

enum jr_attempt_event {
	JR_EV_ENDED,
	JR_EV_TIMEOUT,
	JR_EV_CANCEL,
	JR_EV_SHUTDOWN,
	JR_EV_LOST,
	JR_EV_OVERDUE,
	JR_EV_COUNT
};
enum jr_attempt_state {
	JR_ST_RUNNING,
	JR_ST_STOPPING,
	JR_ST_KILLING,
	JR_ST_ENDED,
	JR_ST_COUNT
};

/*
 * outcome: valid during the call; NULL when the lease was lost and nothing is in doubt. When the lease was lost and a
 * commit is in doubt, only outcome->doubt counts.
 */
typedef void jr_attempt_fn(void *ctx, struct jr_attempt *attempt, struct jr_outcome *outcome);

struct jr_attempt_setup {
	struct jr_host *host;
	const struct jr_handler *handler;
	const struct jr_run *run; /* borrowed until freed */
	struct jr_random *random; /* for the backoff */
	int64_t fence_at_ms;      /* the lease's self-fence */
	int64_t kill_ms;          /* from TERM to KILL once the lease is lost */
	jr_attempt_fn *ended;
	void *ctx;
};

/*
 * Start the handler. Never NULL: a handler that cannot be started ends the attempt as failed (as later, if the system
 * was short of descriptors, processes or memory) with error_code "cannot-start". `ended` is then called from the loop,
 * never from inside this call.
 */
struct jr_attempt *jr_attempt_start(const struct jr_attempt_setup *setup) JR_MUST;

/* Something happened: cancel was asked for, jobrun shuts down, the lease is lost. Idempotent. */
void jr_attempt_event(struct jr_attempt *attempt, enum jr_attempt_event event);

/* A heartbeat was answered: the handler may go on until fence_at_ms. */
void jr_attempt_renew(struct jr_attempt *attempt, int64_t fence_at_ms);

/* What the handler has reported since the last call (handler.h); zeroed if there is nothing new. */
void jr_attempt_progress(struct jr_attempt *attempt, struct jr_handler_progress *report);

/* What the handler has printed, as jr_work_end says it, also when the lease was lost. Only during `ended`. */
const char *jr_attempt_output(const struct jr_attempt *attempt);

enum jr_attempt_state jr_attempt_state(const struct jr_attempt *attempt);
bool jr_attempt_is_lost(
    const struct jr_attempt *attempt);            /* nothing will be written, and the lease must not be renewed */
void jr_attempt_free(struct jr_attempt *attempt); /* before `ended`: kills */

/* Pure: the pause after this attempt of the run, drawn from the run's backoff or the built-in one. */
int64_t jr_attempt_backoff(const struct jr_run *run, struct jr_random *random);

/*
 * Pure: the outcome of an attempt whose work ended like `end` after jobrun had stopped it for `reason` (JR_EV_ENDED: it
 * was not stopped). false: nothing may be written, and nothing is in doubt. *outcome is filled for the caller to
 * release, all but its doubt.
 */
bool jr_attempt_judge(enum jr_attempt_event reason, const struct jr_work_end *end, const struct jr_run *run,
    struct jr_random *random, struct jr_outcome *outcome);

#endif
