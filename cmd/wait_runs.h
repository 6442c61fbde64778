/*
 * wait_runs: wait until runs are over and print how they ended; shared by wait and enqueue --wait.
 *
 * stdout: a line of JSON for each run that has a result; with --json the documents of all runs. stderr: a line for each
 * run that did not succeed.
 */
#ifndef JR_WAIT_RUNS_H
#define JR_WAIT_RUNS_H

#include "commands.h"

#define JR_WAIT_RUNS_MAX 10000
#define JR_WAIT_RUNS_MS INT64_C(3600000) /* the default timeout */

struct jr_wait_runs {
	const int64_t *ids;
	size_t count;
	int64_t timeout_ms; /* 0: look once */
	bool alone;         /* it was just enqueued: --json prints its document, not a list, and errors name it */
};

/*
 * 0: all succeeded. 1: a run is dead, cancelled, or does not exist. 75: the time is over; *err says so. After a lost
 * connection it connects again until the time is over (*db becomes another connection, or NULL).
 */
int jr_wait_runs(
    const struct jr_app *app, struct jr_db **db, const struct jr_wait_runs *wait, struct jr_err *err) JR_MUST;

#endif
