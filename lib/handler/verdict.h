/*
 * verdict: the outcome contract. What an exit status, an answer or an SQLSTATE means, as one pure table.
 *
 *	verdict   exec   http                           sql                                          charged
 *	done      0      2xx                            no error                                     -
 *	later     75     429, 503 with Retry-After      class 40 and 53, 55P03, 57P03, JR075;        no, bounded
 *	                                                08 and 57P01 before the statement was sent
 *	give up   65     400, 410, 413, 422             class 22, JR065                              ends it
 *	fail      else   anything else, no answer       anything else, connection lost               yes
 *
 * "give_up" and "later" of NAME.json replace the lists of that row; what is in neither list and is not done is a
 * failure. A condition of the table (Retry-After, before it was sent) is not one of theirs. Of two lists that both have
 * a code the closer match counts: an exact code before a class, then a handler's own list before the table's.
 *
 * Also the error_code values, for people and metrics: exit:N, signal:NAME, http:STATUS, curl:NAME, sqlstate:CODE here;
 * timeout, lost, cancelled, cannot-start, released, expired where they are decided.
 */
#ifndef JR_VERDICT_H
#define JR_VERDICT_H

#include "base/run.h"

/* Exit statuses and HTTP statuses as decimal text, SQLSTATEs of five or classes of two characters. Owned. */
struct jr_codes {
	char **items;
	size_t count;
};

/* The lists of one handler. !set: the table's. */
struct jr_rules {
	bool give_up_set, later_set;
	struct jr_codes give_up, later;
};

void jr_rules_release(struct jr_rules *rules); /* leaves them zeroed */

/* status: as wait4 gives it. */
enum jr_verdict jr_verdict_of_exit(const struct jr_rules *rules, int status) JR_MUST;

/* An HTTP status that is not what was expected (that is done, and not asked here). */
enum jr_verdict jr_verdict_of_http(const struct jr_rules *rules, int status, bool has_retry_after) JR_MUST;

/* sent: the statement had been sent, so it may have run. An exact code of a list goes before a class. */
enum jr_verdict jr_verdict_of_sqlstate(const struct jr_rules *rules, const char *sqlstate, bool sent) JR_MUST;

/* exit:1 or signal:SEGV (signal:42 for one without a name). Caller frees. */
char *jr_code_of_exit(int status) JR_MUST;

/* "exit 1" or "killed by SIGSEGV", with ": " and the last line of output if there is one (NULL: none). Caller frees. */
char *jr_error_of_exit(int status, const char *output) JR_MUST;

#endif
