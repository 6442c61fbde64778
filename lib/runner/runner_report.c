/*
 * runner_report: what became of runs and claims, for the log, for the counts, and for the people who hear of dead ones.
 * See runner_parts.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

static void
count(struct jr_counts *counts, const char *status, enum jr_outcome_kind kind)
{
	if (strcmp(status, "dead") == 0)
		counts->dead++;
	else if (kind == JR_OUT_LOST)
		; /* counted as reclaimed: it was not this runner's */
	else if (strcmp(status, "succeeded") == 0)
		counts->succeeded++;
	else if (strcmp(status, "cancelled") == 0)
		counts->cancelled++;
	else if (strcmp(status, "failed") == 0)
		counts->failed++;
	else if (kind == JR_OUT_LATER)
		counts->later++;
	else if (kind == JR_OUT_UNSTARTED)
		counts->unstarted++;
	else
		counts->released++;
}

static bool
is_waiting(const char *status)
{
	return strcmp(status, "failed") == 0 || strcmp(status, "queued") == 0;
}

void
jr_report_settled(
    struct jr_runner *runner, const struct jr_settled_row *row, const struct jr_outcome *outcome, const char *job_type)
{
	const struct jr_runner_opts *opts = runner->opts;
	const struct jr_setback report = {.id = row->id,
	    .attempts = row->attempts,
	    .max_attempts = row->max_attempts,
	    .run_in_ms = row->run_in_ms,
	    .job_type = job_type,
	    .error_code = outcome->error_code,
	    .error = outcome->error,
	    .output = outcome->output};

	jr_log(JR_INFO, JR_EVENT_RUN_END, JR_I("run", row->id), JR_S("type", job_type), JR_I("attempt", row->attempts),
	    JR_S("outcome", jr_outcome_word(outcome->kind)), JR_S("state", row->status),
	    JR_S("code", outcome->error_code),
	    row->run_in_ms < 0 ? JR_S("delay_ms", NULL) : JR_I("delay_ms", row->run_in_ms));
	count(&runner->counts, row->status, outcome->kind);
	jr_ping_note(runner, job_type, row->status);
	if (strcmp(row->status, "dead") == 0 && opts->dead != NULL)
		opts->dead(opts->ctx, &report);
	else if (is_waiting(row->status) && outcome->kind != JR_OUT_UNSTARTED && opts->again != NULL)
		opts->again(opts->ctx, &report);
}

static void
report_run(struct jr_runner *runner, const struct jr_run *run, const struct jr_outcome *outcome, const char *status,
    int64_t run_in_ms)
{
	struct jr_settled_row row = {.id = run->id,
	    .claim_seq = run->claim_seq,
	    .attempts = run->attempts,
	    .max_attempts = run->max_attempts,
	    .run_in_ms = run_in_ms};

	(void)snprintf(row.status, sizeof(row.status), "%s", status);
	jr_report_settled(runner, &row, outcome, run->job_type);
}

void
jr_report_committed(struct jr_runner *runner, const struct jr_run *run, const struct jr_outcome *outcome)
{
	bool said = outcome->status[0] != '\0';

	report_run(runner, run, outcome, said ? outcome->status : "succeeded", said ? outcome->left_ms : -1);
}

/* What jobrun.settle decides from the same facts, when the row does not say it any more: the run has gone on. */
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

/* What was accepted: a commit of the handler's, or what was sent after that was known not to have arrived. */
static const struct jr_outcome *
accepted_outcome(const struct jr_outcome *outcome, const struct jr_answer_row *answer)
{
	const struct jr_outcome *doubt = outcome->doubt;

	return doubt != NULL && strcmp(answer->outcome, jr_outcome_word(doubt->kind)) == 0 ? doubt : outcome;
}

void
jr_report_accepted(struct jr_runner *runner, const struct jr_run *run, const struct jr_outcome *outcome,
    const struct jr_answer_row *answer)
{
	const struct jr_outcome *accepted = accepted_outcome(outcome, answer);

	report_run(runner, run, accepted, answer->status[0] != '\0' ? answer->status : likely_status(run, accepted),
	    accepted->delay_ms);
}

void
jr_report_claim(struct jr_runner *runner, int64_t sent_ms)
{
	if (sent_ms == 0)
		return;
	runner->counts.claims++;
	runner->counts.claim_ms += jr_clock_now_ms() - sent_ms;
}
