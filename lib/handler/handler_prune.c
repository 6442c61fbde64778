/*
 * handler_prune: the built-in jobrun.prune. Housekeeping on a connection of its own, between heartbeats.
 *
 * It sends the steps of prune.h one after the other, until nothing is left or the time is over. The time is a minute,
 * or half of what the run's timeout leaves if that is less, so the run ends before its timeout. The next run does the
 * rest, and is made for a minute later: an hour would be too late where much ends. The server reads from its own
 * settings how long to keep rows; the payload is ignored. In a rehearsal the steps only count what they would delete.
 *
 * What must hold: TERM ends it between two steps, and KILL at any time, since each step is a transaction of its own.
 * The connection is freed and the end is reported only from a timer of the loop, never from inside start, stop or a
 * reply.
 */
#include "handler/handler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "handler/prune.h"
#include "handler/verdict.h"
#include "pg/pg.h"
#include "sql_text.h"

#include <stdlib.h>
#include <string.h>

#define TIME_MS 60000
#define CONNECT_MS 10000
#define CANCEL_MS 1000 /* to wait for a cancelled step: PgBouncer drops the cancel of a client that has gone */
#define STEP_MS 600000 /* summing an hour in which many runs ended takes long */

static const struct jr_lease prune_times = {.deadline_ms = STEP_MS, .statement_ms = STEP_MS - 10000, .lock_ms = 10000};

struct prune_work {
	struct jr_work work; /* first */
	struct jr_host *host;
	struct jr_loop *loop;
	struct jr_pg *pg;
	struct jr_prune prune;
	struct jr_timer next; /* sends the next step */
	struct jr_timer over; /* reports the end */
	int64_t until_ms;
	int64_t behind_ms; /* half of the time is over */
	bool stopped;      /* stop was called */
	bool ending;       /* the verdict is known */
	enum jr_verdict verdict;
	struct jr_err err;
	jr_work_fn *ended;
	void *ctx;
};

static void
report_end(void *ctx)
{
	struct prune_work *prune = ctx;
	struct jr_err err = prune->err;
	char *line = prune->verdict == JR_DONE ? jr_xstrdup_or_null(prune->prune.line) : NULL;
	char *code = err.sqlstate[0] == '\0' ? jr_xstrdup("cannot-start") : jr_xasprintf("sqlstate:%s", err.sqlstate);
	struct jr_work_end end = {.verdict = prune->verdict, .result = line};

	if (prune->verdict != JR_DONE) {
		end.error_code = code;
		end.error = err.msg;
	}
	jr_pg_free(prune->pg);
	prune->pg = NULL;
	prune->ended(prune->ctx, &end); /* may free the work */
	free(line);
	free(code);
}

static void
finish(struct prune_work *prune, enum jr_verdict verdict)
{
	prune->ending = true;
	prune->verdict = verdict;
	jr_timer_cancel(&prune->next);
	jr_timer_set(prune->loop, &prune->over, 0);
}

static void
finish_stopped(struct prune_work *prune)
{
	if (prune->ending)
		return;
	jr_fail(&prune->err, JR_E_TEMP, "stopped between two steps; the next run does the rest");
	finish(prune, JR_LATER);
}

static void
finish_failed(struct prune_work *prune, const struct jr_err *err, bool refused)
{
	static const struct jr_rules rules = {.give_up_set = false};

	if (prune->ending)
		return;
	prune->err = *err;
	if (!refused && prune->err.sqlstate[0] == '\0')
		memcpy(prune->err.sqlstate, "08006", sizeof("08006"));
	finish(prune, refused ? jr_verdict_of_sqlstate(&rules, err->sqlstate, true) : JR_LATER);
}

/* Has the statement done its work? If not, the end is on its way. */
static bool
is_done(struct prune_work *prune, const struct jr_reply *reply)
{
	if (prune->ending) /* the cancel has arrived */
		jr_timer_set(prune->loop, &prune->over, 0);
	else if (reply->end != JR_PG_DONE)
		finish_failed(prune, &reply->err, reply->end == JR_PG_FAILED);
	return !prune->ending;
}

static void
on_again(void *ctx, const struct jr_reply *reply)
{
	if (is_done(ctx, reply))
		finish(ctx, JR_DONE);
}

/* The time is over, and there is more to do. */
static void
end_early(struct prune_work *prune)
{
	struct jr_request *request;

	if (prune->host->rehearsal) {
		finish(prune, JR_DONE);
		return;
	}
	request = jr_request_new(JR_REQUEST_WHOLE, &prune_times, on_again, prune);
	jr_request_add(request, jr_sql_prune_again, 0, NULL);
	jr_pg_submit(prune->pg, request);
}

static void
on_step(void *ctx, const struct jr_reply *reply)
{
	struct prune_work *prune = ctx;
	int64_t now_ms = jr_clock_now_ms();
	struct jr_err err;

	if (!is_done(prune, reply))
		return;
	if (!jr_prune_take(&prune->prune, reply->results[0], &err)) {
		if (prune->host->nonsense != NULL)
			prune->host->nonsense(prune->host->ctx, &err);
		finish_failed(prune, &err, false);
		return;
	}
	if (prune->prune.done)
		finish(prune, JR_DONE);
	else if (now_ms >= prune->until_ms)
		end_early(prune);
	else if (prune->stopped)
		finish_stopped(prune);
	else
		jr_timer_set(prune->loop, &prune->next,
		    jr_clock_after(now_ms, jr_prune_pause_ms(now_ms - reply->sent_ms, now_ms >= prune->behind_ms)));
}

static void
send_step(void *ctx)
{
	struct prune_work *prune = ctx;
	const char *values[] = {prune->prune.state};
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, &prune_times, on_step, prune);

	jr_request_add(request, jr_sql_prune, JR_COUNT(values), values);
	jr_pg_submit(prune->pg, request);
}

static void
on_lost(void *ctx, const struct jr_err *err)
{
	finish_failed(ctx, err, false);
}

/* When to stop: after TIME_MS, or after half of what the run's timeout leaves if that is less. */
static int64_t
end_of(int64_t run_deadline_ms)
{
	int64_t now_ms = jr_clock_now_ms(), time_ms = TIME_MS;

	if (run_deadline_ms != JR_NEVER && (run_deadline_ms - now_ms) / 2 < time_ms)
		time_ms = (run_deadline_ms - now_ms) / 2;
	return jr_clock_after(now_ms, time_ms);
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	struct prune_work *prune = jr_xcalloc(1, sizeof(*prune));
	const struct jr_pg_events events = {.lost = on_lost, .ctx = prune};

	(void)handler;
	(void)run;
	(void)deadline_ms; /* no step needs the lease: two pruners do each other no harm */
	(void)err;
	prune->work.kind = &jr_handler_prune;
	prune->host = host;
	prune->loop = host->loop;
	prune->until_ms = end_of(run_deadline_ms);
	prune->behind_ms = jr_clock_now_ms() + (prune->until_ms - jr_clock_now_ms()) / 2;
	prune->ended = owner->ended;
	prune->ctx = owner->ctx;
	jr_prune_init(&prune->prune, host->rehearsal ? JR_PRUNE_DRY_RUN : JR_PRUNE_GO_ON);
	jr_timer_init(&prune->next, send_step, prune);
	jr_timer_init(&prune->over, report_end, prune);
	prune->pg = jr_pg_new(host->loop, host->conninfo, &events);
	jr_pg_needs_grant(prune->pg, "run");
	jr_pg_open_beside(prune->pg, host->beside, CONNECT_MS);
	send_step(prune);
	return &prune->work;
}

static void
stop(struct jr_work *work, bool kill)
{
	struct prune_work *prune = (struct prune_work *)work;
	bool waits = prune->next.at_ms != JR_NEVER;

	prune->stopped = true;
	if (prune->ending || !(kill || waits))
		return;
	finish_stopped(prune);
	if (!waits) {
		jr_pg_cancel(prune->pg);
		jr_timer_set(prune->loop, &prune->over, jr_clock_after(jr_clock_now_ms(), CANCEL_MS));
	}
}

static void
move(struct jr_work *work, int64_t deadline_ms)
{
	(void)work;
	(void)deadline_ms;
}

static void
free_work(struct jr_work *work)
{
	struct prune_work *prune = (struct prune_work *)work;

	jr_timer_cancel(&prune->next);
	jr_timer_cancel(&prune->over);
	jr_pg_free(prune->pg);
	jr_prune_release(&prune->prune);
	free(prune);
}

const struct jr_handler_kind jr_handler_prune = {
    .name = "built-in",
    .pool = JR_POOL_PRUNE,
    .built_in = JR_PRUNE_TYPE,
    .success_rule = "it counted the rows that it would delete now; nothing was changed",
    .start = start,
    .stop = stop,
    .move = move,
    .free = free_work,
};
