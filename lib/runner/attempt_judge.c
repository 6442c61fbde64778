/*
 * attempt_judge: the outcome of an attempt, a pure function of why jobrun stopped it, how its work ended, and the run.
 *
 * The contract is the table of attempt.h. What must hold: when the lease is lost nothing is written, whatever the
 * handler said, unless the handler has written the end itself, or may have. An end that was committed with the effect
 * has succeeded, whatever the reason: the fence in the server decides.
 */
#include "runner/attempt.h"

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdlib.h>

#define LATER_MAX_MS INT64_C(86400000)
#define LAST_LINE_MAX (JR_ERROR_MAX - 64)

static int64_t
backoff(const struct jr_run *run, int64_t n, struct jr_random *random)
{
	return jr_backoff_ms(random, n, run->backoff_base_ms >= 0 ? run->backoff_base_ms : JR_BACKOFF_BASE_MS,
	    run->backoff_cap_ms >= 0 ? run->backoff_cap_ms : JR_BACKOFF_CAP_MS);
}

int64_t
jr_attempt_backoff(const struct jr_run *run, struct jr_random *random)
{
	return backoff(run, run->attempts, random);
}

/* The handler may ask for a longer pause than the backoff, up to a day, never for a shorter one. */
static int64_t
asked_delay(const struct jr_work_end *end, int64_t backoff_ms)
{
	int64_t asked_ms = end->retry_in_ms < LATER_MAX_MS ? end->retry_in_ms : LATER_MAX_MS;

	return asked_ms > backoff_ms ? asked_ms : backoff_ms;
}

static int64_t
later_delay(const struct jr_work_end *end, const struct jr_run *run, struct jr_random *random)
{
	int64_t n = run->snoozes < INT64_MAX ? run->snoozes + 1 : INT64_MAX;
	int64_t delay_ms = asked_delay(end, backoff(run, n, random));

	return delay_ms < LATER_MAX_MS ? delay_ms : LATER_MAX_MS;
}

static enum jr_outcome_kind
kind_of(enum jr_attempt_event reason, enum jr_verdict verdict, bool unsent)
{
	static const enum jr_outcome_kind by_verdict[] = {
	    [JR_DONE] = JR_OUT_SUCCEEDED,
	    [JR_LATER] = JR_OUT_LATER,
	    [JR_GIVE_UP] = JR_OUT_DEAD,
	    [JR_FAIL] = JR_OUT_FAILED,
	};

	if (reason == JR_EV_TIMEOUT)
		return unsent ? JR_OUT_LATER : JR_OUT_FAILED;
	if (reason == JR_EV_CANCEL && verdict != JR_DONE)
		return JR_OUT_CANCELLED;
	if (reason == JR_EV_SHUTDOWN && (verdict == JR_LATER || verdict == JR_FAIL))
		return JR_OUT_RELEASED;
	return by_verdict[verdict];
}

static char *
timeout_error(const struct jr_work_end *end, const struct jr_run *run)
{
	char *last = jr_text_last_line(end->output != NULL ? end->output : "", LAST_LINE_MAX);
	char *span = jr_format_duration(run->timeout_ms > 0 ? run->timeout_ms : 0);
	char *error = run->timeout_ms > 0
			  ? jr_xasprintf("timed out after %s%s%s", span, last[0] != '\0' ? ": " : "", last)
			  : jr_xasprintf("timed out%s%s", last[0] != '\0' ? ": " : "", last);

	free(last);
	free(span);
	return error;
}

static void
say_why(
    enum jr_attempt_event reason, const struct jr_work_end *end, const struct jr_run *run, struct jr_outcome *outcome)
{
	if (outcome->kind == JR_OUT_SUCCEEDED)
		return;
	if (reason == JR_EV_TIMEOUT) {
		outcome->error_code = jr_xstrdup("timeout");
		outcome->error = timeout_error(end, run);
	} else if (outcome->kind == JR_OUT_CANCELLED) {
		outcome->error_code = jr_xstrdup("cancelled");
		outcome->error = jr_xstrdup("cancelled while it ran");
	} else if (outcome->kind == JR_OUT_RELEASED) {
		outcome->error_code = jr_xstrdup("released");
		outcome->error = jr_xstrdup("released: the runner was stopped");
	} else {
		outcome->error_code = jr_xstrdup_or_null(end->error_code);
		outcome->error = jr_xstrdup_or_null(end->error);
	}
}

bool
jr_attempt_judge(enum jr_attempt_event reason, const struct jr_work_end *end, const struct jr_run *run,
    struct jr_random *random, struct jr_outcome *outcome)
{
	bool done = end->settled && end->verdict == JR_DONE;

	*outcome = (struct jr_outcome){0};
	if (reason == JR_EV_LOST && !done && !end->in_doubt)
		return false;
	outcome->kind = done ? JR_OUT_SUCCEEDED : kind_of(reason, end->verdict, end->unsent);
	outcome->settled = end->settled;
	outcome->has_exit = end->has_exit;
	outcome->exit_status = end->exit_status;
	outcome->pid = end->pid;
	outcome->cpu_ms = end->cpu_ms;
	outcome->max_rss_kb = end->max_rss_kb;
	outcome->output_dropped = end->output_dropped;
	outcome->output = jr_xstrdup_or_null(end->output);
	outcome->progress = jr_xstrdup_or_null(end->progress);
	outcome->checkpoint = jr_xstrdup_or_null(end->checkpoint);
	outcome->result = jr_xstrdup_or_null(end->result);
	if (outcome->kind == JR_OUT_FAILED ||
	    outcome->kind == JR_OUT_RELEASED) /* a release is charged from the fourth on */
		outcome->delay_ms = asked_delay(end, jr_attempt_backoff(run, random));
	else if (outcome->kind == JR_OUT_LATER)
		outcome->delay_ms = later_delay(end, run, random);
	say_why(reason, end, run, outcome);
	return true;
}
