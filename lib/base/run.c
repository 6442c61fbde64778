/*
 * run: see run.h.
 *
 * What must hold: every string of a run or an outcome is released here and nowhere else. A new member is added here
 * too.
 */
#include "base/run.h"

#include <stdlib.h>

void
jr_run_free(struct jr_run *run)
{
	if (run == NULL)
		return;
	free(run->job_type);
	free(run->queue);
	free(run->payload);
	free(run->key);
	free(run->slot);
	free(run->slot_local);
	free(run->checkpoint);
	free(run->trace_context);
	free(run);
}

const char *
jr_outcome_word(enum jr_outcome_kind kind)
{
	static const char *const words[] = {
	    [JR_OUT_SUCCEEDED] = "succeeded",
	    [JR_OUT_FAILED] = "failed",
	    [JR_OUT_DEAD] = "dead",
	    [JR_OUT_LATER] = "later",
	    [JR_OUT_RELEASED] = "released",
	    [JR_OUT_CANCELLED] = "cancelled",
	    [JR_OUT_UNSTARTED] = "unstarted",
	    [JR_OUT_LOST] = "lost",
	};

	_Static_assert(JR_COUNT(words) == JR_OUT_LOST + 1, "a word for each outcome");
	return words[kind];
}

void
jr_outcome_release(struct jr_outcome *outcome)
{
	free(outcome->error_code);
	free(outcome->error);
	free(outcome->output);
	free(outcome->progress);
	free(outcome->checkpoint);
	free(outcome->result);
	if (outcome->doubt != NULL) /* its own `doubt` is NULL, so this recurses once */
		jr_outcome_release(outcome->doubt);
	free(outcome->doubt);
	*outcome = (struct jr_outcome){0};
}
