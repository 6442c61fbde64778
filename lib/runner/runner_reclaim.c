/*
 * runner_reclaim: takes back runs whose lease has expired, whoever held them, apart from the claims that this runner
 * holds now. See runner_parts.h.
 *
 * One transaction of two requests: the expired rows are read under FOR NO KEY UPDATE SKIP LOCKED, each becomes the
 * outcome `lost` with a backoff of its own, and settle writes them. The transaction is short: the server ends it if
 * this process stops in between (idle_in_transaction_session_timeout). A request that fails is repeated row by row, and
 * the row that fails by itself is passed over.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define RUNS_MAX 200 /* of one transaction */
#define ERRORS_MAX 3 /* of the connection, before it is left to the next tick */

void
jr_reclaim_forget(struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->reclaim.count; i++)
		jr_outcome_release(&runner->reclaim.outcomes[i]);
	free(runner->reclaim.outcomes);
	free(runner->reclaim.rows);
	runner->reclaim.outcomes = NULL;
	runner->reclaim.rows = NULL;
	runner->reclaim.count = 0;
	runner->reclaim.open = false;
}

static struct jr_outcome
lost_outcome(struct jr_runner *runner, const struct jr_expired_row *row)
{
	int64_t base = row->backoff_base_ms < 0 ? JR_BACKOFF_BASE_MS : row->backoff_base_ms;
	int64_t cap = row->backoff_cap_ms < 0 ? JR_BACKOFF_CAP_MS : row->backoff_cap_ms;

	return (struct jr_outcome){.kind = JR_OUT_LOST,
	    .delay_ms = jr_backoff_ms(&runner->random, row->attempts, base, cap),
	    .error_code = jr_xstrdup("lost"),
	    .error = jr_xasprintf("the runner on %s did not renew its lease", row->host)};
}

static void
take_expired(struct jr_runner *runner, const PGresult *result)
{
	size_t count = jr_queue_count_reclaimed(result);

	(void)jr_runner_repeats(runner, &runner->reclaim.repeat, "reclaim", result);
	runner->reclaim.rows = jr_xcalloc(count + 1, sizeof(*runner->reclaim.rows));
	runner->reclaim.outcomes = jr_xcalloc(count + 1, sizeof(*runner->reclaim.outcomes));
	runner->reclaim.count = count;
	for (size_t i = 0; i < count; i++) {
		runner->reclaim.rows[i] = jr_queue_read_reclaimed(result, i);
		runner->reclaim.outcomes[i] = lost_outcome(runner, &runner->reclaim.rows[i]);
	}
	runner->reclaim.open = true;
}

/* The connection was lost, or the server refused. That is tried again a few times. */
static void
note_trouble(struct jr_runner *runner, const struct jr_err *err)
{
	struct jr_err temporary = *err;

	jr_log(JR_INFO, JR_EVENT_RECLAIM_FAILED, JR_S("error", err->msg));
	jr_reclaim_forget(runner);
	if (++runner->reclaim.errors < ERRORS_MAX)
		return;
	runner->reclaim.wanted = false;
	temporary.code = JR_E_TEMP;
	jr_runner_warn(runner, JR_TROUBLE_RECLAIM, &temporary);
}

static void
on_opened(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_times_note(runner, reply);
	if (reply->end == JR_PG_DONE)
		take_expired(runner, reply->results[0]);
	else
		note_trouble(runner, &reply->err);
}

static void
report(struct jr_runner *runner, const PGresult *result)
{
	for (size_t i = 0; i < jr_queue_count_settled(result); i++) {
		struct jr_settled_row row = jr_queue_read_settled(result, i);

		for (size_t j = 0; j < runner->reclaim.count; j++) {
			if (runner->reclaim.rows[j].id != row.id)
				continue;
			runner->counts.reclaimed++;
			jr_report_settled(runner, &row, &runner->reclaim.outcomes[j], runner->reclaim.rows[j].job_type);
			break;
		}
	}
}

/* One transaction is done; go on with the rows behind its last. */
static void
go_on(struct jr_runner *runner)
{
	bool full = (int64_t)runner->reclaim.count >= runner->reclaim.limit;

	if (runner->reclaim.count > 0) {
		runner->reclaim.after_id = runner->reclaim.rows[runner->reclaim.count - 1].id;
		runner->reclaim.taken++; /* one of them may be due at once */
	}
	runner->reclaim.wanted = full && !jr_runner_is_draining(runner);
	jr_reclaim_forget(runner);
}

/*
 * Nobody knows whether the runs were taken back. If they were, those on their last attempt are dead, and no tick finds
 * them again to report them; and one of the others may be due at once.
 */
static void
note_unknown(struct jr_runner *runner)
{
	long long last = 0;
	struct jr_err err;

	for (size_t i = 0; i < runner->reclaim.count; i++)
		last += runner->reclaim.rows[i].attempts >= runner->reclaim.rows[i].max_attempts;
	runner->reclaim.taken++;
	if (last == 0)
		return;
	jr_fail(&err, JR_E_TEMP,
	    "it is not known whether %lld lost run%s on %s last attempt went dead: look with jobrun list --status dead",
	    last, jr_text_plural(last), last == 1 ? "its" : "their");
	jr_runner_warn(runner, JR_TROUBLE_UNKNOWN, &err);
}

void
jr_reclaim_note_well(struct jr_runner *runner)
{
	jr_runner_heal(runner, JR_TROUBLE_RECLAIM, "lost runs are taken back again");
}

static void
on_closed(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		if (reply->result_count > 0)
			report(runner, reply->results[0]);
		jr_reclaim_note_well(runner);
		go_on(runner);
	} else if (reply->end == JR_PG_FAILED && runner->reclaim.limit > 1) {
		runner->reclaim.limit = 1;
		jr_reclaim_forget(runner);
	} else if (reply->end == JR_PG_FAILED) {
		jr_log(JR_ERROR, JR_EVENT_RECLAIM_FAILED, JR_I("run", runner->reclaim.rows[0].id),
		    JR_S("error", reply->err.msg));
		go_on(runner);
	} else {
		if (reply->end == JR_PG_UNKNOWN && runner->reclaim.count > 0)
			note_unknown(runner);
		note_trouble(runner, &reply->err);
	}
}

static void
send_opening(struct jr_runner *runner)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_OPENING, jr_times_walk(runner), on_opened, runner);
	struct jr_claim_list held = {0};

	jr_held_name_all(runner, &held);
	jr_queue_add_reclaim(request, &held, runner->reclaim.after_id, runner->reclaim.limit);
	jr_claim_list_release(&held);
	jr_pg_submit(runner->pg, request);
}

static void
send_closing(struct jr_runner *runner)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_CLOSING, jr_times_usual(runner), on_closed, runner);
	struct jr_settlement *settlements = jr_xcalloc(runner->reclaim.count + 1, sizeof(*settlements));

	for (size_t i = 0; i < runner->reclaim.count; i++)
		settlements[i] = (struct jr_settlement){.id = runner->reclaim.rows[i].id,
		    .claim_seq = runner->reclaim.rows[i].claim_seq,
		    .runner_id = runner->reclaim.rows[i].runner_id,
		    .outcome = &runner->reclaim.outcomes[i]};
	if (runner->reclaim.count > 0)
		jr_queue_add_settle(request, settlements, runner->reclaim.count);
	free(settlements);
	jr_pg_submit(runner->pg, request);
}

void
jr_reclaim_begin(struct jr_runner *runner)
{
	runner->reclaim.wanted = true;
	runner->reclaim.after_id = 0;
	runner->reclaim.limit = RUNS_MAX;
	runner->reclaim.errors = 0;
}

bool
jr_reclaim_try_close(struct jr_runner *runner)
{
	if (!runner->reclaim.open)
		return false;
	send_closing(runner);
	return true;
}

bool
jr_reclaim_try(struct jr_runner *runner)
{
	if (!runner->reclaim.wanted)
		return false;
	send_opening(runner);
	return true;
}

bool
jr_reclaim_is_open(const struct jr_runner *runner)
{
	return runner->reclaim.open;
}

bool
jr_reclaim_is_wanted(const struct jr_runner *runner)
{
	return runner->reclaim.wanted;
}

int64_t
jr_reclaim_count_taken(const struct jr_runner *runner)
{
	return runner->reclaim.taken;
}
