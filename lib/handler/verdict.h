/*
 * verdict: what an exit status, an HTTP answer or an SQLSTATE means for the run. One table. Pure.
 *
 *	verdict   exec   http                           sql                                          charged
 *	done      0      2xx                            no error                                     -
 *	later     75     429, 503 with Retry-After      class 40 and 53, 55P03, 57P03, JR075;        no, bounded
 *	                                                08 and 57P01 before the statement was sent
 *	give up   65     400, 410, 413, 422             class 22, JR065                              ends it
 *	fail      else   anything else, no answer       anything else, connection lost               yes
 *
 * "give_up" and "later" of NAME.json replace the list in that row. A code that is in neither list and does not mean
 * done is a failure. The conditions of the table (Retry-After, before the statement was sent) do not apply to the lists
 * of NAME.json. If both lists contain a code, the closer match wins: an exact code before a class, then the handler's
 * own list before the table's. An exit status of "ok" (jobrun exec --ok-exit) means done, as 0 does.
 *
 * error_code, for people and metrics, is exit:N, signal:NAME, http:STATUS, curl:NAME or sqlstate:CODE for these
 * verdicts. The code that decides on another error sets timeout, lost, cancelled, cannot-start, released or expired.
 */
#ifndef JR_VERDICT_H
#define JR_VERDICT_H

#include "base/run.h"

/* Exit statuses and HTTP statuses as decimal text; SQLSTATEs of five characters or classes of two. Owned. */
struct jr_codes {
	char **items;
	size_t count;
};

/* The lists of one handler. Without `set` the list of the table applies. */
struct jr_rules {
	bool give_up_set, later_set;
	struct jr_codes ok, give_up, later;
};

void jr_rules_release(struct jr_rules *rules); /* leaves them zeroed */

/* status: as wait4 returns it. */
enum jr_verdict jr_verdict_of_exit(const struct jr_rules *rules, int status) JR_MUST;

/* Only for an HTTP status that is not in "expect": those that are mean done. */
enum jr_verdict jr_verdict_of_http(const struct jr_rules *rules, int status, bool has_retry_after) JR_MUST;

/* sent: the statement was sent, so it may have run. */
enum jr_verdict jr_verdict_of_sqlstate(const struct jr_rules *rules, const char *sqlstate, bool sent) JR_MUST;

/* exit:1 or signal:SEGV (signal:42 if the signal has no name). Caller frees. */
char *jr_code_of_exit(int status) JR_MUST;

/* "exit 1" or "killed by SIGSEGV", then ": " and the last line of `output` (NULL: no output). Caller frees. */
char *jr_error_of_exit(int status, const char *output) JR_MUST;

#endif
