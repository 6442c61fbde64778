/*
 * handler_sql_txn: one transaction of a group, from the opening to the commit. See handler_sql_parts.h.
 *
 * The statement has no lock on its runs. The last statement before COMMIT is settle_done, which raises an error when a
 * claim is lost; so effect and completion are there together or not at all. What must hold: a connection is given back
 * before anybody is told, and its group is then on none.
 */
#include "handler/handler_sql_parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "sql_text.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_SLACK_MS 1000 /* the attempt's own timer comes first */

/* --- the end of the transaction --- */

/* The connection goes back: nothing of the group is on it any more. */
static void
give_back(struct jr_sql_group *group, enum jr_pg_end end, bool clean)
{
	jr_timer_cancel(&group->timer);
	if (end == JR_PG_DONE || end == JR_PG_FAILED)
		jr_sql_conn_give(group->conn, clean && end == JR_PG_DONE);
	else
		jr_sql_conn_drop(group->conn);
	group->conn = NULL;
}

static void
on_dropped(void *ctx, const struct jr_reply *reply)
{
	struct jr_sql_group *group = ((struct jr_sql_conn *)ctx)->group;

	if (group == NULL)
		return;
	give_back(group, reply->end, false);
	if (group->sql->host->rehearsal && reply->end == JR_PG_FAILED)
		jr_sql_group_end_refused(group, &reply->err);
	else
		jr_sql_group_end_dropped(group);
}

/* Nothing of the transaction is kept; its runs end like this (taken). */
static void
drop(struct jr_sql_group *group, struct jr_sql_end *end)
{
	static const struct jr_lease times = {.deadline_ms = JR_NEVER};
	struct jr_batch *batch;

	group->dropped = *end;
	group->phase = JR_SQL_DROPPING;
	batch = jr_batch_new(JR_BATCH_DROPPING, &times, on_dropped, group->conn);
	if (end->verdict == JR_DONE)
		jr_batch_add(batch, jr_sql_sql_constraints, 0, NULL);
	jr_pg_submit(group->conn->pg, batch);
}

static void
on_closed(void *ctx, const struct jr_reply *reply)
{
	struct jr_sql_group *group = ((struct jr_sql_conn *)ctx)->group;
	struct jr_sql_end end = {.verdict = JR_DONE, .settled = true};

	if (group == NULL)
		return;
	give_back(group, reply->end, true);
	switch (reply->end) {
	case JR_PG_DONE:
		jr_sql_group_end_all(group, &end, true);
		return;
	case JR_PG_FAILED:
		jr_sql_group_end_refused(group, &reply->err);
		return;
	case JR_PG_UNKNOWN:
		jr_sql_group_end_in_doubt(group, reply->err.msg);
		return;
	case JR_PG_UNSENT:
		jr_sql_group_end_lost(group, &reply->err);
		return;
	}
}

struct settle_arrays {
	struct jr_pg_array ids, claims, results;
};

static void
add_settle(struct jr_batch *batch, const struct jr_sql_group *group, const char *result)
{
	struct settle_arrays arrays;
	char runner_id[24];
	const char *values[4] = {NULL};

	jr_pg_array_init(&arrays.ids);
	jr_pg_array_init(&arrays.claims);
	jr_pg_array_init(&arrays.results);
	for (size_t i = 0; i < group->active; i++) {
		if (group->works[i]->end.verdict != JR_DONE)
			continue;
		jr_pg_array_add_int(&arrays.ids, group->works[i]->run->id);
		jr_pg_array_add_int(&arrays.claims, group->works[i]->run->claim_seq);
		jr_pg_array_add(&arrays.results, result);
	}
	values[0] = jr_pg_array_end(&arrays.ids);
	values[1] = jr_pg_array_end(&arrays.claims);
	values[2] = jr_pg_print_int(runner_id, group->works[0]->run->runner_id);
	values[3] = jr_pg_array_end(&arrays.results);
	jr_batch_add(batch, jr_sql_sql_settle_done, JR_COUNT(values), values);
	jr_pg_array_release(&arrays.ids);
	jr_pg_array_release(&arrays.claims);
	jr_pg_array_release(&arrays.results);
}

/* The statement has succeeded. result: of a single run, NULL if there is none. */
static void
finish(struct jr_sql_group *group, const char *result)
{
	static const struct jr_lease times = {.deadline_ms = JR_NEVER};
	struct jr_batch *batch;

	if (group->sql->host->rehearsal) {
		struct jr_sql_end end = {.verdict = JR_DONE};

		if (result != NULL)
			end.result = jr_xasprintf("{\"result\": %s}", result);
		drop(group, &end);
		return;
	}
	group->phase = JR_SQL_CLOSING;
	batch = jr_batch_new(JR_BATCH_CLOSING, &times, on_closed, group->conn);
	jr_batch_bare(batch);
	/* What is deferred is the handler's too: it happens with its role, settings and temporary tables. */
	jr_batch_add(batch, jr_sql_sql_constraints, 0, NULL);
	jr_sql_conn_add_cleaning(batch);
	add_settle(batch, group, result);
	jr_pg_submit(group->conn->pg, batch);
}

/* --- the statement --- */

static void
leave(struct jr_sql_group *group)
{
	struct jr_sql_end end = jr_sql_end_of(JR_FAIL, "left-transaction",
	    "the statement begins or ends a transaction: what it did before may have been committed without the run's completion; leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT to jobrun");

	if (jr_pg_is_in_transaction(group->conn->pg)) {
		drop(group, &end);
		return;
	}
	give_back(group, JR_PG_DONE, false);
	jr_sql_group_end_all(group, &end, false);
}

static void
judge(struct jr_sql_group *group, PGresult *answer)
{
	struct jr_sql_end end = {.error = NULL};
	const char *result = NULL;
	bool good;

	if (!jr_pg_is_in_transaction(group->conn->pg) || jr_sql_is_control(answer)) {
		leave(group);
		return;
	}
	good = jr_sql_is_set_based(group) ? jr_sql_read_answer(answer, group->works, group->active, &end)
					  : jr_sql_read_result(answer, &result, &end);
	if (good)
		finish(group, result);
	else
		drop(group, &end);
}

static void
on_opened(void *ctx, const struct jr_reply *reply)
{
	struct jr_sql_group *group = ((struct jr_sql_conn *)ctx)->group;

	if (group == NULL)
		return;
	if (reply->end == JR_PG_DONE) {
		judge(group, reply->results[1]);
		return;
	}
	give_back(group, reply->end, false);
	if (reply->end == JR_PG_FAILED)
		jr_sql_group_end_refused(group, &reply->err);
	else if (reply->end == JR_PG_UNKNOWN)
		jr_sql_group_end_lost(group, &reply->err);
	else
		jr_sql_group_end_failed(group, &reply->err, false);
}

/* statement_timeout of the transaction: the first of its runs' deadlines. -1: none has one. */
static int64_t
timeout_of(const struct jr_sql_group *group)
{
	int64_t first_ms = JR_NEVER, now_ms = jr_clock_now_ms();

	for (size_t i = 0; i < group->active; i++) {
		if (group->works[i]->run_deadline_ms < first_ms)
			first_ms = group->works[i]->run_deadline_ms;
	}
	if (first_ms == JR_NEVER)
		return -1;
	if (group->active > 1) /* the other half is for going one by one */
		return first_ms > now_ms + 1 ? (first_ms - now_ms) / 2 : 1;
	return (first_ms > now_ms ? first_ms - now_ms : 0) + TIMEOUT_SLACK_MS;
}

static void
add_statement(struct jr_batch *batch, const struct jr_sql_group *group)
{
	const char *sql = group->handler->sql;
	char *payload;

	if (!jr_sql_is_set_based(group)) {
		jr_batch_add_foreign(batch, sql, group->works[0]->run->payload, 1);
		return;
	}
	/* One row more than there are runs: enough to see that there are too many. */
	payload = jr_sql_group_payload(group->works, group->active);
	jr_batch_add_foreign(batch, sql, payload, group->active + 1);
	free(payload);
}

/* As many as fit, at least one; the others go with the next. */
static size_t
fitting(const struct jr_sql_group *group)
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

void
jr_sql_txn_begin(struct jr_sql_group *group)
{
	static const struct jr_lease times = {.deadline_ms = JR_NEVER};
	struct jr_sql_params params;
	struct jr_batch *batch;

	group->gathering = false;
	group->active = group->single ? 1 : fitting(group);
	group->phase = JR_SQL_OPENING;
	group->conn = jr_sql_conn_take(group->sql, group);
	batch = jr_batch_new(JR_BATCH_OPENING, &times, on_opened, group->conn);
	jr_batch_bare(batch);
	jr_sql_params_fill(&params, jr_sql_is_set_based(group) ? NULL : group->works[0]->run, timeout_of(group));
	jr_batch_add(batch, jr_sql_sql_settings, JR_COUNT(params.values), params.values);
	add_statement(batch, group);
	jr_pg_submit(group->conn->pg, batch);
}
