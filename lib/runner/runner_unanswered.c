/*
 * runner_unanswered: requests for work that the database refused or did not answer, in a row. See runner_parts.h.
 *
 * A tick that nobody stops ends when the database has said that nothing is due. One that is told to end
 * (--max-runtime, a signal) may end while its requests for work fail one after the other, each with a reason to try
 * again. Exit status 0 would say that the database was asked, so that it could stay so for days.
 */
#include <inttypes.h>
#include <stdio.h>

#include "runner/runner_parts.h"

void
jr_unanswered_note(struct jr_runner *runner, const struct jr_reply *reply, bool alone)
{
	if (reply->end != JR_PG_UNKNOWN && (reply->end != JR_PG_FAILED || !alone))
		return;
	runner->unanswered.count++;
	runner->unanswered.why = reply->err;
}

void
jr_unanswered_end(struct jr_runner *runner)
{
	runner->unanswered.count = 0;
}

void
jr_unanswered_fail(struct jr_runner *runner)
{
	const struct jr_unanswered *unanswered = &runner->unanswered;
	char last[48] = "the last request for work";
	struct jr_err err;

	if (unanswered->count == 0 || !jr_runner_is_draining(runner) || jr_runner_status(runner) != 0)
		return;
	if (unanswered->count > 1)
		(void)snprintf(last, sizeof(last), "the last %" PRId64 " requests for work", unanswered->count);
	jr_fail(&err, JR_E_TEMP, "could not claim: %s failed: %.700s; %sif this lasts, type jobrun doctor", last,
	    unanswered->why.msg, jr_runner_is_single(runner) ? "" : "runs that are due wait for the next jobrun run; ");
	jr_runner_fail(runner, &err);
}
