/*
 * handler_sql_watch: how long a runner with open transactions may live. See handler_sql_parts.h.
 *
 * A runner that hangs cannot close its connections, so its transactions would stay open. Its watchdog kills it when the
 * first lease of a watched work ends, and the server rolls back. What must hold: a runner that does not hang is never
 * killed. It closes a connection some time before the end of the lease (attempt.h).
 *
 * The watchdog has only one time, the earliest lease end of all works, so that thousands of runs in batches do not fill
 * its pipe. An earlier time is sent at once. A later time is sent in the next turn of the loop, when a heartbeat has
 * moved all works.
 */
#include "handler/handler_sql_parts.h"

#include "base/clock.h"
#include "base/lease.h"

/* Set the time at which the watchdog kills this runner. JR_NEVER: no time. */
static void
notify(struct jr_handler_sql *sql, int64_t at_ms)
{
	if (at_ms == sql->watched_ms || sql->host->watchdog == NULL)
		return;
	sql->watched_ms = at_ms;
	jr_watchdog_guard(sql->host->watchdog, at_ms);
}

/* No work has an earlier time than the one that the watchdog has, so a work with the same time ends the search. */
static void
notify_first(void *ctx)
{
	struct jr_handler_sql *sql = ctx;
	int64_t first_ms = JR_NEVER;

	for (const struct jr_handler_sql_work *work = sql->watched; work != NULL; work = work->watch_next) {
		if (work->lease_end_ms < first_ms)
			first_ms = work->lease_end_ms;
		if (first_ms <= sql->watched_ms)
			break;
	}
	notify(sql, first_ms);
}

void
jr_handler_sql_watch_init(struct jr_handler_sql *sql)
{
	sql->watched_tail = &sql->watched;
	sql->watched_ms = JR_NEVER;
	jr_timer_init(&sql->watching, notify_first, sql);
}

/* deadline_ms is kill_ms after the fence (attempt.h); the lease ends margin_ms after the fence. */
static int64_t
lease_end(const struct jr_handler_sql *sql, int64_t deadline_ms)
{
	const struct jr_lease *lease = sql->host->lease;

	return lease == NULL ? JR_NEVER : jr_clock_after(deadline_ms, lease->margin_ms - lease->kill_ms);
}

void
jr_handler_sql_watch(struct jr_handler_sql_work *work, int64_t deadline_ms)
{
	struct jr_handler_sql *sql = work->sql;

	if (work->watch_prev == NULL) {
		work->watch_next = NULL;
		work->watch_prev = sql->watched_tail;
		*sql->watched_tail = work;
		sql->watched_tail = &work->watch_next;
	}
	work->lease_end_ms = lease_end(sql, deadline_ms);
	if (work->lease_end_ms < sql->watched_ms)
		notify(sql, work->lease_end_ms);
	else
		jr_timer_set(sql->host->loop, &sql->watching, 0);
}

void
jr_handler_sql_unwatch(struct jr_handler_sql_work *work)
{
	struct jr_handler_sql *sql = work->sql;

	if (work->watch_prev == NULL)
		return;
	*work->watch_prev = work->watch_next;
	if (work->watch_next != NULL)
		work->watch_next->watch_prev = work->watch_prev;
	else
		sql->watched_tail = work->watch_prev;
	work->watch_prev = NULL;
	jr_timer_set(sql->host->loop, &sql->watching, 0);
}

void
jr_handler_sql_watch_end(struct jr_handler_sql *sql)
{
	jr_timer_cancel(&sql->watching);
	notify(sql, JR_NEVER);
}
