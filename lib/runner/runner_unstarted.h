/*
 * runner_unstarted: why a due run is not started, in the words that people get. A runner and a preview say the same.
 */
#ifndef JR_RUNNER_UNSTARTED_H
#define JR_RUNNER_UNSTARTED_H

#include "runner/queue.h"

/* How long a row that somebody else has locked is asked for again. Then it is as if the queue were full. */
#define JR_LOCKED_MS 5000

/* The one run that was asked for (--job) was not started, for this reason. */
void jr_unstarted_fail(int64_t job_id, const char *why, struct jr_err *err);

/* Another transaction has held a row lock for JR_LOCKED_MS. job_id 0: exec, whose caller names the command. */
void jr_unstarted_fail_locked(int64_t job_id, const struct jr_not_claimed *said, struct jr_err *err);

/* Log the queues that a claim left out. */
void jr_unstarted_log(const PGresult *result);

#endif
