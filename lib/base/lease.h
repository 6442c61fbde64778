/*
 * lease: the arithmetic of a lease. Pure.
 *
 *	lease L (90 s)  heartbeat <= L/4 (20 s)  deadline = heartbeat/4 (5 s)  margin = L/6 (15 s)  kill = L/18 (5 s)
 *
 * A handler is stopped at S + L - margin, where S is when the last claim or heartbeat that got an answer was sent. It
 * gets TERM, and KILL after `kill`, so that it is gone before S + L. What must hold: margin > kill + the forward jump
 * of the clock that is tolerated, and lock_timeout < statement_timeout < deadline. (runner_times.c says when a deadline
 * is longer.)
 */
#ifndef JR_LEASE_H
#define JR_LEASE_H

#include "base/err.h"

#define JR_LEASE_MS 90000
#define JR_LEASE_MIN_MS 2000
#define JR_LEASE_MAX_MS 3600000
#define JR_HEARTBEAT_MS 20000

struct jr_lease {
	int64_t lease_ms;
	int64_t heartbeat_ms;
	int64_t deadline_ms; /* if a request is not answered by then, the connection is closed */
	int64_t margin_ms;
	int64_t kill_ms;      /* from TERM to KILL once the lease is lost */
	int64_t statement_ms; /* statement_timeout, 3/5 of the deadline (3 s) */
	int64_t lock_ms;      /* lock_timeout, 1/5 of the deadline (1 s) */
};

/*
 * Fill *lease. lease_ms or heartbeat_ms < 0 mean the default: 90 s; the smaller of 20 s and a quarter of the lease.
 * JR_E_CONFIG: the lease is outside 2 s to 1 h, or the heartbeat is below 20 ms or over a quarter of the lease.
 */
bool jr_lease_init(struct jr_lease *lease, int64_t lease_ms, int64_t heartbeat_ms, struct jr_err *err) JR_MUST;

/* When to stop a handler whose last answered claim or heartbeat was sent at sent_ms. */
int64_t jr_lease_fence_at(const struct jr_lease *lease, int64_t sent_ms);

#endif
