/*
 * handler_sql_group: runs that share a transaction. See handler_sql_parts.h.
 *
 * The first `active` runs are in the transaction. When the server returns an error, the transaction is rolled back. If
 * it had more than one run, each of them is then run alone, so that a bad run does not block the others. When the fence
 * refuses the COMMIT because a claim is lost, or when COMMIT is not answered, all of them end as later and in doubt:
 * their ends were written together with the effects, or not at all.
 *
 * What must hold: a run leaves the group only when nothing of its transaction can be committed any more, or all of it
 * has been committed, or its end is reported as in doubt.
 */
#include "handler/handler_sql_parts.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/*
 * A transaction borrows the first `active` of `works`. So while it runs, no run joins the group, and only the runs
 * after these may leave it.
 */
struct jr_handler_sql_group {
	struct jr_handler_sql *sql;
	struct jr_handler_sql_group *next, **prev;
	const struct jr_handler *handler;
	struct jr_handler_sql_work **works; /* the runs that have not ended */
	size_t count, active;
	bool gathering;                /* more runs may join */
	bool single;                   /* run them one by one, after a failure */
	struct jr_timer begin;         /* begins the next transaction */
	struct jr_handler_sql_txn txn; /* the transaction of the first `active` runs */
};

static void
begin_later(struct jr_handler_sql_group *group)
{
	jr_timer_set(group->sql->host->loop, &group->begin, 0);
}

/* --- ends --- */

static void
forget(struct jr_handler_sql_group *group, size_t at)
{
	group->works[at]->group = NULL;
	group->count--;
	memmove(&group->works[at], &group->works[at + 1], (group->count - at) * sizeof(struct jr_handler_sql_work *));
	if (at < group->active)
		group->active--;
}

/* Takes what *end owns. */
static void
end_one(struct jr_handler_sql_group *group, size_t at, struct jr_handler_sql_end *end)
{
	struct jr_handler_sql_work *work = group->works[at];

	forget(group, at);
	jr_handler_sql_work_end(work, end);
}

/* The transaction and its runs are over: continue with the other runs, or free the group. */
static void
go_on(struct jr_handler_sql_group *group)
{
	group->active = 0;
	jr_handler_sql_txn_release(&group->txn);
	if (group->count > 0) {
		begin_later(group);
		return;
	}
	jr_timer_cancel(&group->begin);
	*group->prev = group->next;
	if (group->next != NULL)
		group->next->prev = group->prev;
	free(group->works);
	free(group);
}

/*
 * End all runs of the transaction with *end, which is taken. With `own`, a run for which the statement returned a
 * verdict ends with that verdict instead.
 */
static void
end_all(struct jr_handler_sql_group *group, struct jr_handler_sql_end *end, bool own)
{
	while (group->active > 0) {
		const struct jr_handler_sql_end *said = &group->works[0]->end;
		struct jr_handler_sql_end copy = jr_handler_sql_end_copy(own && said->verdict != JR_DONE ? said : end);

		end_one(group, 0, &copy);
	}
	jr_handler_sql_end_release(end);
	go_on(group);
}

/* End the runs of the transaction that were stopped with *end, which is taken. The others stay in the group. */
static void
end_stopped(struct jr_handler_sql_group *group, struct jr_handler_sql_end *end)
{
	for (size_t i = group->active; i-- > 0;) {
		struct jr_handler_sql_end copy;

		if (!group->works[i]->stopped)
			continue;
		copy = jr_handler_sql_end_copy(end);
		end_one(group, i, &copy);
	}
	jr_handler_sql_end_release(end);
}

/*
 * End the runs that were stopped; run the others again, one by one. The code is logged and not the error: that may
 * quote a payload, and the run that is at fault will get it.
 */
static void
split(struct jr_handler_sql_group *group, const char *code)
{
	struct jr_handler_sql_end end =
	    jr_handler_sql_end_of(JR_FAIL, "sqlstate:57014", "stopped while the statement ran");

	if (group->active > 1)
		jr_log(JR_INFO, JR_EVENT_GROUP_SPLIT, JR_S("type", group->handler->job_type),
		    JR_I("count", (int64_t)group->active), JR_S("code", code));
	end_stopped(group, &end);
	group->single = true;
	go_on(group);
}

static void
split_for(struct jr_handler_sql_group *group, const struct jr_err *err)
{
	struct jr_handler_sql_end end = jr_handler_sql_end_of_err(&group->handler->settings.rules, err, true);

	split(group, end.code);
	jr_handler_sql_end_release(&end);
}

static void
end_failed(struct jr_handler_sql_group *group, const struct jr_err *err, bool sent)
{
	struct jr_handler_sql_end end = jr_handler_sql_end_of_err(&group->handler->settings.rules, err, sent);

	end_all(group, &end, false);
}

/* The server returned an error, and the transaction is rolled back. */
static void
end_refused(struct jr_handler_sql_group *group, const struct jr_err *err)
{
	if (group->active > 1)
		split_for(group, err);
	else
		end_failed(group, err, true);
}

/* The same, since the row of a run stayed locked: put off, whatever codes NAME.json lists for the statement. */
static void
end_locked(struct jr_handler_sql_group *group, const struct jr_err *err)
{
	struct jr_handler_sql_end end;

	if (group->active > 1) {
		split_for(group, err);
		return;
	}
	end = jr_handler_sql_end_of(JR_LATER, "sqlstate:55P03", err->msg);
	end_all(group, &end, false);
}

/* We rolled the transaction back. A bad result may be the fault of one run, so several runs are tried one by one. */
static void
end_dropped(struct jr_handler_sql_group *group)
{
	struct jr_handler_sql_end end;

	if (group->active > 1 && group->txn.end.verdict != JR_DONE) {
		split(group, group->txn.end.code);
		return;
	}
	end = jr_handler_sql_end_copy(&group->txn.end);
	end_all(group, &end, true);
}

/* No COMMIT was sent. */
static void
end_lost(struct jr_handler_sql_group *group, const struct jr_err *why)
{
	struct jr_err err = *why;

	if (group->active > 1) { /* one of them may have caused it */
		split_for(group, why);
		return;
	}
	jr_fail_in(&err, "the connection was lost while the statement ran");
	memcpy(err.sqlstate, "08006", sizeof("08006"));
	end_failed(group, &err, true);
}

static void
end_uncommitted(struct jr_handler_sql_group *group, const char *sqlstate, const char *what, const char *why)
{
	char *code = jr_xasprintf("sqlstate:%s", sqlstate), *line = jr_xasprintf("the commit was %s: %s", what, why);
	struct jr_handler_sql_end end = jr_handler_sql_end_of(JR_LATER, code, line);

	end.in_doubt = true;
	free(code);
	free(line);
	end_all(group, &end, false);
}

static void
end_in_doubt(struct jr_handler_sql_group *group, const char *why)
{
	end_uncommitted(group, "08007", "not answered", why);
}

/* Each run of a batch ends with its own verdict, as the transaction has written it; a single run is done. */
static void
end_committed(struct jr_handler_sql_group *group)
{
	while (group->active > 0) {
		struct jr_handler_sql_end end = jr_handler_sql_end_copy(&group->works[0]->end);

		end.settled = true;
		end_one(group, 0, &end);
	}
	go_on(group);
}

static void
on_over(void *ctx, enum jr_sql_fate fate, const struct jr_err *err)
{
	struct jr_handler_sql_group *group = ctx;
	struct jr_handler_sql_end left;

	switch (fate) {
	case JR_SQL_COMMITTED:
		end_committed(group);
		return;
	case JR_SQL_DROPPED:
		end_dropped(group);
		return;
	case JR_SQL_LEFT:
		left = jr_handler_sql_end_copy(&group->txn.end);
		end_all(group, &left, false);
		return;
	case JR_SQL_REFUSED:
		end_refused(group, err);
		return;
	case JR_SQL_LOCKED:
		end_locked(group, err);
		return;
	case JR_SQL_FENCED:
		end_uncommitted(group, err->sqlstate, "refused", err->msg);
		return;
	case JR_SQL_UNSENT:
		end_failed(group, err, false);
		return;
	case JR_SQL_LOST:
		end_lost(group, err);
		return;
	case JR_SQL_IN_DOUBT:
		end_in_doubt(group, err->msg);
		return;
	}
}

/* --- the next transaction --- */

/* How many runs fit into one transaction, at least one. The others go into the next. */
static size_t
fitting(const struct jr_handler_sql_group *group)
{
	size_t bytes = 0, n = 0;

	while (n < group->count) {
		const char *payload = group->works[n]->run->payload;

		bytes += payload != NULL ? strlen(payload) : 0;
		if (n > 0 && bytes > JR_SQL_GROUP_BYTES)
			break;
		n++;
	}
	return n;
}

static void
begin(void *ctx)
{
	struct jr_handler_sql_group *group = ctx;

	group->gathering = false;
	group->active = group->single ? 1 : fitting(group);
	jr_handler_sql_txn_begin(&group->txn, group->works, group->active);
}

/* --- joining and leaving --- */

static struct jr_handler_sql_group *
new_group(struct jr_handler_sql *sql, const struct jr_handler *handler)
{
	struct jr_handler_sql_group *group = jr_xcalloc(1, sizeof(*group));

	group->sql = sql;
	group->handler = handler;
	jr_timer_init(&group->begin, begin, group);
	jr_handler_sql_txn_init(&group->txn, sql, handler, on_over, group);
	group->next = sql->groups;
	group->prev = &sql->groups;
	if (group->next != NULL)
		group->next->prev = &group->next;
	sql->groups = group;
	return group;
}

static struct jr_handler_sql_group *
find_gathering(struct jr_handler_sql *sql, const struct jr_handler *handler)
{
	struct jr_handler_sql_group *group = sql->groups;

	while (group != NULL && !(group->gathering && group->handler == handler))
		group = group->next;
	return group;
}

/*
 * A batch begins in the next turn of the loop: the runner starts all runs of one claim in this turn, so they can join.
 */
void
jr_handler_sql_group_add(struct jr_handler_sql *sql, const struct jr_handler *handler, struct jr_handler_sql_work *work)
{
	struct jr_handler_sql_group *group = find_gathering(sql, handler);

	if (group == NULL)
		group = new_group(sql, handler);
	group->works = jr_xrealloc(group->works, group->count + 1, sizeof(struct jr_handler_sql_work *));
	group->works[group->count++] = work;
	group->gathering = (int64_t)group->count < handler->settings.batch;
	work->group = group;
	if (jr_handler_sql_is_batched(handler))
		begin_later(group);
	else
		begin(group);
}

static struct jr_handler_sql_end
never_sent(void)
{
	struct jr_handler_sql_end end =
	    jr_handler_sql_end_of(JR_LATER, "sqlstate:57014", "stopped before the statement was sent");

	end.unsent = true;
	return end;
}

/* None of its runs has begun: those that were stopped are put off, and the others try again together. */
static void
put_off_stopped(struct jr_handler_sql_group *group)
{
	struct jr_handler_sql_end end = never_sent();

	end_stopped(group, &end);
	go_on(group);
}

/* Close the connection with whatever is on the wire. If nothing can have been committed, the other runs run again. */
static void
abandon(struct jr_handler_sql_group *group)
{
	bool sent = jr_handler_sql_txn_is_sent(&group->txn);

	jr_handler_sql_txn_abandon(&group->txn);
	if (group->txn.phase == JR_SQL_CLOSING)
		end_in_doubt(group, "jobrun closed the connection to stop the run");
	else if (group->txn.phase == JR_SQL_DROPPING)
		end_dropped(group);
	else if (sent)
		split(group, "sqlstate:57014");
	else
		put_off_stopped(group);
}

static size_t
place_of(const struct jr_handler_sql_group *group, const struct jr_handler_sql_work *work)
{
	size_t at = 0;

	while (group->works[at] != work)
		at++;
	return at;
}

void
jr_handler_sql_group_stop(struct jr_handler_sql_group *group, struct jr_handler_sql_work *work, bool kill)
{
	size_t at = place_of(group, work);

	work->stopped = true;
	if (at >= group->active) {
		struct jr_handler_sql_end end = never_sent();

		end_one(group, at, &end);
		if (group->count == 0)
			go_on(group);
	} else if (kill || !jr_handler_sql_txn_is_sent(&group->txn))
		abandon(group);
	else if (group->txn.phase != JR_SQL_DROPPING)
		jr_handler_sql_txn_cancel(&group->txn);
}

void
jr_handler_sql_group_remove(struct jr_handler_sql_group *group, struct jr_handler_sql_work *work)
{
	size_t at = place_of(group, work);
	bool active = at < group->active;

	forget(group, at);
	if (active && group->active > 0)
		abandon(group);
	else if (active) {
		jr_handler_sql_txn_abandon(&group->txn);
		go_on(group);
	} else if (group->count == 0)
		go_on(group);
}
