/*
 * wait_runs: until runs are over, and then what became of them; what wait and enqueue --wait share.
 *
 * stdout: the results, a line of JSON each, of runs that have one; with --json the documents of all. stderr: a line for
 * each run that did not succeed.
 */
#ifndef JR_WAIT_RUNS_H
#define JR_WAIT_RUNS_H

#include "commands.h"

#define JR_WAIT_RUNS_MAX 10000
#define JR_WAIT_RUNS_MS INT64_C(3600000) /* if nothing else was said */

struct jr_wait_runs {
	const int64_t *ids;
	size_t count;
	int64_t timeout_ms; /* 0: look once */
	bool alone;         /* --json: the one document, not a list */
};

/*
 * 0: all succeeded. 1: one is dead, cancelled, or not there. 75: the time is over; *err says so. A connection that is
 * lost is made anew (*db becomes another one, or NULL) until the time is over.
 */
int jr_wait_runs(
    const struct jr_app *app, struct jr_db **db, const struct jr_wait_runs *wait, struct jr_err *err) JR_MUST;

/* A status as people read it: "failed" is retrying. */
const char *jr_wait_runs_word(const char *status);

#endif
