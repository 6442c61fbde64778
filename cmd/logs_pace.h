/*
 * logs_pace: tell the runner of a run that somebody follows its output, and tell people how often the output comes.
 */
#ifndef JR_LOGS_PACE_H
#define JR_LOGS_PACE_H

#include "pg/db.h"

struct jr_logs_pace {
	int64_t mark_ms;    /* when to mark the run again; 0: at once */
	bool refused;       /* it cannot be marked */
	bool said_slow;     /* that output comes with the heartbeats */
	bool said_quick;    /* that it comes each second */
	char *locked_until; /* the end of the lease when the run was marked first; NULL: it was not yet */
};

/*
 * Mark a running run, if it is time to. Nothing is an error: if it cannot be marked, a line on stderr says why, once,
 * and the output comes as rarely as without it. `say`: called before a line for people is printed on stderr.
 */
void jr_logs_pace_mark(struct jr_logs_pace *pace, struct jr_db *db, int64_t id, void (*say)(void *ctx), void *ctx);

/* Another attempt, or another run: it may have another runner. */
void jr_logs_pace_again(struct jr_logs_pace *pace);

void jr_logs_pace_release(struct jr_logs_pace *pace);

#endif
