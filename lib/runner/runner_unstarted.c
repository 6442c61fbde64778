/*
 * runner_unstarted: see runner_unstarted.h.
 */
#include "runner/runner_unstarted.h"

#include <inttypes.h>

#include "base/log.h"

void
jr_unstarted_fail(int64_t job_id, const char *why, struct jr_err *err)
{
	jr_fail(err, JR_E_TEMP, "run %" PRId64 " was not started: %s", job_id, why);
}

void
jr_unstarted_fail_locked(int64_t job_id, const struct jr_not_claimed *said, struct jr_err *err)
{
	if (job_id > 0)
		jr_fail(err, JR_E_TEMP,
		    "somebody else has had queue %s, or a run with the same unique key, locked for %d s: end that "
		    "transaction (pg_stat_activity shows its xact_start), then try again; run %" PRId64
		    " was not started",
		    said->queue, JR_LOCKED_MS / 1000, job_id);
	else
		jr_fail(err, JR_E_TEMP,
		    "somebody else has had %s %s locked for %d s: end that transaction (pg_stat_activity shows its xact_start), then try again",
		    said->queue != NULL ? "queue" : "definition", said->queue != NULL ? said->queue : said->definition,
		    JR_LOCKED_MS / 1000);
}

void
jr_unstarted_log(const PGresult *result)
{
	for (size_t i = 0; i < jr_queue_count_left_out(result); i++)
		jr_log(JR_INFO, JR_EVENT_QUEUE_LEFT_OUT, JR_S("queue", jr_queue_read_left_out(result, i)),
		    JR_S("reason", "another transaction has locked its row, or a run of a unique key in it"));
}
