/*
 * runner_settle: outcomes, until they are accepted or fenced out. See runner_parts.h.
 *
 * All known outcomes go in one settle, with the next claim in the same transaction. If that fails the settle is
 * repeated without the claim, then run by run: one bad row never takes its request with it. A settle that was not
 * answered leaves its runs in doubt; they are read (resolve.sql) before anything is sent again, and zero rows after an
 * unanswered try are read again before they are called fenced out. The same holds for a sql handler's own commit; when
 * the lease is lost, too, the read is all that is done: what has arrived is told, and nothing else is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define REQUEST_BYTES ((size_t)256 * 1024) /* of texts in one settle, so that it arrives within its deadline */
#define RETRY_MS 1000                      /* the row was locked, or the server refused */

void
jr_settle_report(
    struct jr_runner *runner, const struct jr_settled_row *row, const struct jr_outcome *outcome, const char *job_type)
{
	struct jr_counts *counts = &runner->counts;
	bool dead = strcmp(row->status, "dead") == 0;
	const struct jr_dead report = {.id = row->id,
	    .attempts = row->attempts,
	    .max_attempts = row->max_attempts,
	    .job_type = job_type,
	    .error_code = outcome->error_code,
	    .error = outcome->error,
	    .output = outcome->output};

	jr_log(JR_INFO, "run_end", JR_I("run", row->id), JR_S("type", job_type), JR_I("attempt", row->attempts),
	    JR_S("outcome", jr_outcome_word(outcome->kind)), JR_S("state", row->status),
	    JR_S("code", outcome->error_code),
	    row->run_in_ms < 0 ? JR_S("delay_ms", NULL) : JR_I("delay_ms", row->run_in_ms));
	if (dead)
		counts->dead++;
	else if (outcome->kind == JR_OUT_LOST)
		; /* counted as reclaimed: it was not this runner's */
	else if (strcmp(row->status, "succeeded") == 0)
		counts->succeeded++;
	else if (strcmp(row->status, "cancelled") == 0)
		counts->cancelled++;
	else if (strcmp(row->status, "failed") == 0)
		counts->failed++;
	else if (outcome->kind == JR_OUT_LATER)
		counts->later++;
	else if (outcome->kind != JR_OUT_UNSTARTED) /* that is as if it had not been claimed */
		counts->released++;
	if (dead && runner->opts->dead != NULL)
		runner->opts->dead(runner->opts->ctx, &report);
}

static bool
is_offered(const struct jr_held *held)
{
	return held->phase == JR_HELD_ENDED && !held->lost && !held->in_doubt && !held->alone &&
	       held->retry_at_ms <= jr_clock_now_ms();
}

static bool
is_offered_alone(const struct jr_held *held)
{
	return held->phase == JR_HELD_ENDED && !held->lost && !held->in_doubt && held->alone &&
	       held->retry_at_ms <= jr_clock_now_ms();
}

static bool
is_on_wire(const struct jr_held *held)
{
	return held->on_wire;
}

static bool
is_in_doubt(const struct jr_held *held)
{
	return held->in_doubt;
}

static void
retry_later(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	held->retry_at_ms = jr_clock_now_ms() + (half < RETRY_MS ? half : RETRY_MS);
	jr_runner_wake_at(runner, held->retry_at_ms);
}

/* The server refused the outcome of a run by itself. Its texts are the only thing in it that could be at fault. */
static void
strip(struct jr_held *held, const struct jr_err *err)
{
	struct jr_outcome *o = &held->outcome;

	jr_log(JR_WARN, "outcome_refused", JR_I("run", held->run->id), JR_S("error", err->msg));
	held->stripped = true;
	free(o->output);
	free(o->result);
	free(o->progress);
	free(o->checkpoint);
	free(o->error);
	o->output = NULL;
	o->result = NULL;
	o->progress = NULL;
	o->checkpoint = NULL;
	o->error = o->kind == JR_OUT_SUCCEEDED ? NULL : jr_xstrdup("the text was refused by the server");
}

static void
note_refused(struct jr_runner *runner, const struct jr_held_list *sent, const struct jr_err *err)
{
	for (size_t i = 0; i < sent->count; i++) {
		struct jr_held *held = sent->held[i];

		if (sent->count == 1 && err->code != JR_E_TEMP && !held->stripped)
			strip(held, err);
		else if (sent->count == 1)
			retry_later(held);
		held->alone = true;
	}
	if (err->code != JR_E_TEMP && err->code != JR_E_DATA)
		jr_runner_fail(runner, err);
}

/* What was never started has nothing to lose: it leaves no attempt by which one could tell that it was accepted. */
static void
note_fenced(struct jr_held *held)
{
	if (held->outcome.kind == JR_OUT_UNSTARTED) {
		jr_held_drop(held);
		return;
	}
	jr_held_lose(held, "its result came too late and was not accepted");
}

static void
take_settled(struct jr_runner *runner, const PGresult *result)
{
	for (size_t i = 0; i < jr_queue_count_settled(result); i++) {
		struct jr_settled_row row = jr_queue_read_settled(result, i);
		struct jr_held *held = jr_held_find(runner, row.id, row.claim_seq);

		if (held == NULL)
			continue;
		jr_settle_report(runner, &row, &held->outcome, held->run->job_type);
		held->accepted = true;
		jr_held_drop(held);
	}
}

/* What is still marked as on the wire after the accepted ones are gone was not accepted. */
static void
take_missing(struct jr_runner *runner)
{
	struct jr_held_list missing = jr_held_select(runner, is_on_wire);

	for (size_t i = 0; i < missing.count; i++) {
		struct jr_held *held = missing.held[i];

		held->on_wire = false;
		if (held->unanswered)
			held->in_doubt = true;
		else
			note_fenced(held);
	}
	jr_held_list_release(&missing);
}

static void
take_failure(struct jr_runner *runner, const struct jr_reply *reply)
{
	struct jr_held_list sent = jr_held_select(runner, is_on_wire);
	bool by_claim = reply->end == JR_PG_FAILED && reply->failed_at == 1 && reply->result_count > 1;

	for (size_t i = 0; i < sent.count; i++) {
		sent.held[i]->on_wire = false;
		if (reply->end != JR_PG_UNKNOWN)
			continue;
		sent.held[i]->in_doubt = sent.held[i]->unanswered = true;
		/* It may have been too much for one request; who is alone stays so. */
		if (sent.count > 1)
			sent.held[i]->alone = true;
	}
	if (by_claim)
		runner->claim_alone = true;
	else if (reply->end == JR_PG_FAILED)
		note_refused(runner, &sent, &reply->err);
	jr_held_list_release(&sent);
}

static void
on_settled(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		take_settled(runner, reply->results[0]);
		take_missing(runner);
	} else
		take_failure(runner, reply);
	if (reply->result_count > 1)
		jr_claim_reply(runner, reply, 1);
	jr_runner_show_counts(runner);
	jr_runner_pump(runner);
}

static struct jr_request *
settle_request(struct jr_runner *runner, const struct jr_held_list *list)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_settled, runner);
	struct jr_settlement *settlements = jr_xcalloc(list->count, sizeof(*settlements));

	for (size_t i = 0; i < list->count; i++) {
		settlements[i] = (struct jr_settlement){.id = list->runs[i]->id,
		    .claim_seq = list->runs[i]->claim_seq,
		    .runner_id = runner->facts.id,
		    .outcome = &list->held[i]->outcome};
		list->held[i]->on_wire = list->held[i]->offered = true;
	}
	jr_queue_add_settle(request, settlements, list->count);
	free(settlements);
	return request;
}

/* As many as fit, at least one; the others go with the next. */
static void
cut_to_size(struct jr_held_list *list)
{
	size_t bytes = 0, n = 0;

	for (; n < list->count; n++) {
		const struct jr_outcome *o = &list->held[n]->outcome;

		bytes += jr_text_size(o->output) + jr_text_size(o->error) + jr_text_size(o->result) +
			 jr_text_size(o->progress) + jr_text_size(o->checkpoint);
		if (n > 0 && bytes > REQUEST_BYTES)
			break;
	}
	list->count = n;
}

/* Those that wait for their time must be looked at then. */
static void
wake_for_retries(struct jr_runner *runner)
{
	for (const struct jr_held *held = runner->held; held != NULL; held = held->next) {
		if (held->phase == JR_HELD_ENDED && !held->lost && held->retry_at_ms > jr_clock_now_ms())
			jr_runner_wake_at(runner, held->retry_at_ms);
	}
}

bool
jr_settle_try(struct jr_runner *runner)
{
	struct jr_held_list list = jr_held_select(runner, is_offered);
	bool alone = list.count == 0;
	struct jr_request *request;

	if (alone) {
		jr_held_list_release(&list);
		list = jr_held_select(runner, is_offered_alone);
		if (list.count > 1)
			list.count = 1;
		wake_for_retries(runner);
	}
	cut_to_size(&list);
	if (list.count > 0) {
		request = settle_request(runner, &list);
		if (!alone && !runner->claim_alone)
			jr_claim_add(runner, request);
		jr_pg_submit(runner->pg, request);
	}
	jr_held_list_release(&list);
	return !jr_pg_is_idle(runner->pg);
}

/* What jobrun.settle decides from the same facts, when nobody can tell any more: the run has gone on. */
static const char *
likely_status(const struct jr_run *run, const struct jr_outcome *outcome)
{
	switch (outcome->kind) {
	case JR_OUT_SUCCEEDED:
	case JR_OUT_CANCELLED:
	case JR_OUT_DEAD:
		return jr_outcome_word(outcome->kind);
	case JR_OUT_FAILED:
	case JR_OUT_LOST:
		return run->attempts >= run->max_attempts ? "dead" : "failed";
	case JR_OUT_LATER:
	case JR_OUT_RELEASED:
	case JR_OUT_UNSTARTED:
		break;
	}
	return "queued";
}

/* It was written together with its effect. */
void
jr_settle_report_settled(struct jr_held *held, const struct jr_outcome *outcome)
{
	const struct jr_run *run = held->run;
	struct jr_settled_row row = {.id = run->id,
	    .claim_seq = run->claim_seq,
	    .attempts = run->attempts,
	    .max_attempts = run->max_attempts,
	    .run_in_ms = outcome->status[0] != '\0' ? outcome->left_ms : -1};

	memcpy(row.status, "succeeded", sizeof("succeeded"));
	if (outcome->status[0] != '\0')
		memcpy(row.status, outcome->status, sizeof(row.status));
	jr_settle_report(held->runner, &row, outcome, run->job_type);
}

/* What was accepted: a commit of the handler's, or what was sent after that was known not to have arrived. */
static const struct jr_outcome *
accepted_outcome(const struct jr_held *held, const struct jr_answer_row *row)
{
	const struct jr_outcome *doubt = held->outcome.doubt;

	return doubt != NULL && strcmp(row->outcome, jr_outcome_word(doubt->kind)) == 0 ? doubt : &held->outcome;
}

/* It was accepted, but the answer that said what came of it was lost. */
static void
report_accepted(struct jr_held *held, const struct jr_answer_row *answer)
{
	const struct jr_run *run = held->run;
	const struct jr_outcome *outcome = accepted_outcome(held, answer);
	struct jr_settled_row row = {.id = run->id,
	    .claim_seq = run->claim_seq,
	    .attempts = run->attempts,
	    .max_attempts = run->max_attempts,
	    .run_in_ms = outcome->delay_ms};

	(void)snprintf(row.status, sizeof(row.status), "%s",
	    answer->status[0] != '\0' ? answer->status : likely_status(run, outcome));
	jr_settle_report(held->runner, &row, outcome, run->job_type);
}

static void
take_answer(struct jr_runner *runner, const struct jr_answer_row *row)
{
	struct jr_held *held = jr_held_find(runner, row->id, row->claim_seq);

	if (held == NULL || !held->in_doubt)
		return;
	held->in_doubt = false;
	if (row->answer == JR_ANSWER_ACCEPTED) {
		report_accepted(held, row);
		held->accepted = true;
		jr_held_drop(held);
	} else if (held->lost)
		jr_held_end_lost(held);
	else if (row->answer == JR_ANSWER_FENCED)
		note_fenced(held);
	/* else it was not applied, and is offered again */
}

static void
resolve_later(struct jr_runner *runner)
{
	runner->resolve_at_ms = jr_clock_now_ms() + runner->opts->lease.heartbeat_ms / 2;
	jr_runner_wake_at(runner, runner->resolve_at_ms);
}

static void
on_resolved(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		if (jr_runner_repeats(runner, &runner->resolve_repeat, "resolve", reply->results[0]))
			resolve_later(runner);
		for (size_t i = 0; i < jr_queue_count_answers(reply->results[0]); i++) {
			struct jr_answer_row row = jr_queue_read_answer(reply->results[0], i);

			take_answer(runner, &row);
		}
	} else if (reply->end == JR_PG_FAILED)
		resolve_later(runner);
	jr_runner_pump(runner);
}

bool
jr_settle_try_resolve(struct jr_runner *runner)
{
	struct jr_held_list list;
	struct jr_request *request;

	list = jr_held_select(runner, is_in_doubt);
	if (list.count > 0 && jr_clock_now_ms() < runner->resolve_at_ms)
		jr_runner_wake_at(runner, runner->resolve_at_ms);
	else if (list.count > 0) {
		request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_resolved, runner);
		jr_queue_add_resolve(request, runner->facts.id, list.runs, list.count);
		jr_pg_submit(runner->pg, request);
	}
	jr_held_list_release(&list);
	return !jr_pg_is_idle(runner->pg);
}
