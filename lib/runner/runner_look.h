/*
 * runner_look: when to look for work, and how long what was found is good for. A part of runner_parts.h.
 *
 * The candidates, combinations of (job type, queue, priority) that have a due run, are looked up at most once a second
 * and passed to the claim with a cursor behind the last claimed run. Both are dropped after a second, a heartbeat, an
 * empty claim and a refused handler, and before "nothing is due" is decided, so that an urgent run starts within two
 * seconds in the middle of a long drain. After a notification they are looked up again as soon as they are NOTIFIED_MS
 * old, so that there is a claim between two looks, and many notifications cause one look.
 *
 * While a session holds an old snapshot, a look walks over the index entries of all runs that were claimed meanwhile,
 * and so does a claim without a cursor. So a look is good for LOOK_SHARE times as long as it took, within limits. A
 * claim that could not look at all that is due, since others have locked very many runs, says where the next one goes
 * on. It counts as a part of the look, so that the cursor gets past those. If that was in vain, nothing can be claimed.
 *
 * A claim that brings fewer runs than it asked for has come to the end of its scope. If no other scope has candidates,
 * the runner holds all that the look has found. The next look comes when a handler ends, after a notification, or a
 * second after the last look; at once if a handler has ended since the last look, since that may have left work.
 *
 * A notification may name its combination. If the last look has found nothing and nothing else was notified since then,
 * that one is the candidate, without a look. Nobody has looked for others, so "nothing is due" does not follow if it
 * cannot be claimed: a look comes first. Any role can notify, so the name passes the same filters as a candidate, and
 * such claims come no more often than looks.
 */
#ifndef JR_RUNNER_LOOK_H
#define JR_RUNNER_LOOK_H

#include "runner/queue.h"

struct jr_runner;
struct jr_scope;

#define JR_LOOK_MS 1000 /* how old the candidates may be; how often to look while handlers run */

struct jr_look {
	int64_t candidates_at_ms; /* when they were looked up; -1: not to be used */
	int64_t looked_ms;        /* when a look was sent last, or a claim in its place */
	int64_t took_ms;          /* how long the server took for the last one */
	int64_t at_ms;            /* no claim before: after a failure, or to look again while something runs */
	bool drained;             /* nothing is due in any scope */
	bool stale;               /* a handler has ended since the last look was sent */
	bool notified;            /* a notification has come since then */
	bool whole;               /* a claim found nothing although the candidates were cut: look up all of them */
	bool unseen;              /* the candidate was named by a notification: nobody has looked for others */
	bool used_up;             /* a claim has brought all that a scope had: nobody has looked for more since */
	char *named;              /* what the only notification since the last look has named; NULL: none. Owned */
	int64_t errors;           /* failed claims in a row */
	int64_t ended, beats, fired, reclaimed, refused; /* the counts of others that were seen last */
};

void jr_look_open(struct jr_runner *runner);
void jr_look_close(struct jr_runner *runner);
/* What the other parts have done since the last time: it may have made work, or made room for it. */
void jr_look_take_notice(struct jr_runner *runner);
/* Look for work as soon as it is sensible, however often this is called. false: that was known. */
bool jr_look_soon(struct jr_runner *runner);
bool jr_look_soon_for(struct jr_runner *runner, const char *named); /* "TYPE PRIORITY QUEUE", or anything else */
void jr_look_wait_until(struct jr_runner *runner, int64_t at_ms);   /* no claim before */
void jr_look_again_in(struct jr_runner *runner, int64_t ms);        /* about; earlier after a notification */
bool jr_look_is_early(struct jr_runner *runner);                    /* it is not time yet; wakes the runner then */
void jr_look_drop(struct jr_runner *runner);                        /* the candidates and the cursors */
bool jr_look_is_fresh(const struct jr_runner *runner);              /* are there candidates that are good? */
/* Make a candidate of what was named, if nothing else can be due. false: look. */
bool jr_look_take_named(struct jr_runner *runner);
void jr_look_add(struct jr_runner *runner, struct jr_request *request); /* two statements */
void jr_look_take(struct jr_runner *runner, const PGresult *result, int64_t look_ms);
bool jr_look_is_drained(const struct jr_runner *runner);
bool jr_look_is_stale(const struct jr_runner *runner);
void jr_look_note_drained(struct jr_runner *runner);
/* Have claims found nothing in all that a look has found? What was left out is not drained: nobody has looked at it. */
bool jr_look_leaves_nothing(const struct jr_runner *runner);
void jr_look_note_empty(struct jr_runner *runner, struct jr_scope *scope); /* a claim was; NULL: of one run alone */
void jr_look_note_runs(struct jr_runner *runner);                          /* a claim has brought some */
void jr_look_note_end(struct jr_runner *runner, struct jr_scope *scope);   /* fewer than it asked for */
void jr_look_note_answer(struct jr_runner *runner);                        /* to a claim */
int64_t jr_look_note_failure(struct jr_runner *runner);                    /* of a claim. How many in a row */
void jr_look_goes_on(struct jr_runner *runner, int64_t took_ms); /* by a claim that could not look at all that is due */

#endif
