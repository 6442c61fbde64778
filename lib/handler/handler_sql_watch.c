/*
 * handler_sql_watch: until when the runner may live. See handler_sql_parts.h.
 *
 * A runner that stands still cannot close its connections, so its transactions would live on. Its watchdog kills it
 * when the first lease of a work has ended, and the server rolls back. What must hold: a runner that goes on is never
 * killed. It has given up a connection before the end of the lease (attempt.h), and there is time left until then.
 *
 * The watchdog knows one time, the first of all, so that thousands of runs in batches do not fill its pipe. An earlier
 * one is told at once, a later one in the next turn, after all that a heartbeat has moved.
 */
#include "handler/handler_sql_parts.h"

#include "base/clock.h"
#include "base/lease.h"

static void
notify(struct jr_handler_sql *sql, int64_t at_ms)
{
	if (at_ms == sql->watched_ms || sql->host->watchdog == NULL)
		return;
	sql->watched_ms = at_ms;
	jr_watchdog_guard(sql->host->watchdog, at_ms);
}

static void
notify_first(void *ctx)
{
	struct jr_handler_sql *sql = ctx;
	int64_t first_ms = JR_NEVER;

	for (const struct jr_handler_sql_work *work = sql->watched; work != NULL; work = work->watch_next) {
		if (work->lease_end_ms < first_ms)
			first_ms = work->lease_end_ms;
	}
	notify(sql, first_ms);
}

void
jr_handler_sql_watch_init(struct jr_handler_sql *sql)
{
	sql->watched_ms = JR_NEVER;
	jr_timer_init(&sql->watching, notify_first, sql);
}

/* The runner has closed the connection kill_ms after the fence; the lease ends margin_ms after it. */
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
		work->watch_next = sql->watched;
		work->watch_prev = &sql->watched;
		if (work->watch_next != NULL)
			work->watch_next->watch_prev = &work->watch_next;
		sql->watched = work;
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
	if (work->watch_prev == NULL)
		return;
	*work->watch_prev = work->watch_next;
	if (work->watch_next != NULL)
		work->watch_next->watch_prev = work->watch_prev;
	work->watch_prev = NULL;
	jr_timer_set(work->sql->host->loop, &work->sql->watching, 0);
}

void
jr_handler_sql_watch_end(struct jr_handler_sql *sql)
{
	jr_timer_cancel(&sql->watching);
	notify(sql, JR_NEVER);
}
