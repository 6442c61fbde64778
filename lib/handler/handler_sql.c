/*
 * handler_sql: a handler that is one SQL statement. Its effect and the run's completion commit together.
 *
 * The handler uses one transaction on a connection of its own. It sends the session settings and the statement, and
 * checks the result. Then it cleans the session, settles the run under its fence, and commits. jobrun.settle_one
 * settles a single run that succeeded, jobrun.settle_done the runs of a batch if all have succeeded, and
 * jobrun.settle_group any others. No lock is held on the run while the statement runs, so heartbeats continue. A
 * failure before COMMIT rolls everything back. If COMMIT is not answered, the run is in doubt, and the runner reads
 * from the database what happened.
 *
 * A transaction does not outlive its runner by much. The server ends it when the connection is closed, or when it has
 * been idle for half a lease. The watchdog kills a runner that hangs, and that closes its connections.
 */
#include "handler/handler_sql_parts.h"

#include "base/mem.h"

#include <stdlib.h>

static struct jr_handler_sql *
shared(struct jr_host *host)
{
	struct jr_handler_sql *sql = host->sql;

	if (sql != NULL)
		return sql;
	sql = jr_xcalloc(1, sizeof(*sql));
	sql->host = host;
	sql->over_tail = &sql->over;
	jr_handler_sql_watch_init(sql);
	jr_timer_init(&sql->closing, jr_handler_sql_conn_close_bad, sql);
	jr_timer_init(&sql->reporting, jr_handler_sql_report_ends, sql);
	host->sql = sql;
	return sql;
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	struct jr_handler_sql_work *work = jr_xcalloc(1, sizeof(*work));

	(void)err;
	work->work.kind = &jr_handler_sql;
	work->sql = shared(host);
	work->run = run;
	work->run_deadline_ms = run_deadline_ms;
	work->owner = *owner;
	jr_handler_sql_watch(work, deadline_ms);
	jr_handler_sql_group_add(work->sql, handler, work);
	return &work->work;
}

static void
stop(struct jr_work *base, bool kill)
{
	struct jr_handler_sql_work *work = (struct jr_handler_sql_work *)base;

	if (work->group != NULL)
		jr_handler_sql_group_stop(work->group, work, kill);
}

static void
move(struct jr_work *work, int64_t deadline_ms)
{
	jr_handler_sql_watch((struct jr_handler_sql_work *)work, deadline_ms);
}

static void
free_work(struct jr_work *base)
{
	struct jr_handler_sql_work *work = (struct jr_handler_sql_work *)base;

	if (work->group != NULL)
		jr_handler_sql_group_remove(work->group, work);
	jr_handler_sql_work_forget(work);
	jr_handler_sql_unwatch(work);
	jr_handler_sql_end_release(&work->end);
	jr_outcome_release(&work->outcome);
	free(work);
}

static void
close_host(struct jr_host *host)
{
	struct jr_handler_sql *sql = host->sql;

	if (sql == NULL)
		return;
	jr_timer_cancel(&sql->closing);
	jr_timer_cancel(&sql->reporting);
	jr_handler_sql_conn_close_all(sql);
	jr_handler_sql_watch_end(sql);
	free(sql);
	host->sql = NULL;
}

const struct jr_handler_kind jr_handler_sql = {
    .name = "sql",
    .pool = JR_POOL_SQL,
    .success_rule = "no error, including deferred checks; everything was rolled back",
    .settles_itself = true,
    .start = start,
    .stop = stop,
    .move = move,
    .free = free_work,
    .close = close_host,
};
