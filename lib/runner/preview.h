/*
 * preview: what a runner with these options would start now, without starting it.
 *
 * It does not repeat the rules of a claim: it claims. One transaction writes a runner's row, looks for work and claims
 * it with the statements of a runner, lists what it has claimed, and is rolled back. So pauses, limits, lock keys,
 * rates and unique keys count as they do for a runner. Unlike a runner it takes no permits, and claims from all scopes
 * together.
 *
 * What must hold: the transaction is never committed, and nothing in it outlives a rollback. It holds locks on the
 * claimed runs and on the rows of queues with limits for the milliseconds it lasts. Runners pass these runs over
 * meanwhile, and ask for these queues again. So a runner that finds nothing else just then ends, and leaves the runs to
 * the next one.
 */
#ifndef JR_PREVIEW_H
#define JR_PREVIEW_H

#include "pg/db.h"
#include "runner/runner.h"

/*
 * The rows of preview.sql, at most `most`, for the caller to PQclear: the runs that would be claimed, and without
 * job_id the definitions that are due. Of the options it uses those that say what to claim, the lease, and `copied`. A
 * queue that another transaction has locked is asked for again, as a runner does, and then left out.
 *
 * NULL on failure; the caller then closes db, whose transaction may still be open. With job_id it fails as a runner
 * does (JR_E_TEMP) when a limit keeps the run or its queue stays locked; when the run is not to be claimed for another
 * reason there is no row.
 */
PGresult *jr_preview(
    struct jr_db *db, const struct jr_runner_opts *opts, size_t most, int64_t timeout_ms, struct jr_err *err) JR_MUST;

#endif
