/*
 * slots_replay: enqueue a run for a slot of a definition again.
 */
#ifndef JR_SLOTS_REPLAY_H
#define JR_SLOTS_REPLAY_H

#include "commands.h"

struct jr_slots_replay {
	const char *definition;
	const char *at;     /* a time as people write it; without an offset it is in the definition's zone */
	const char *reason; /* NULL: none */
	bool dry_run;
};

/* Prints the id of the run, or with -n what would be queued. Returns the exit status. */
int jr_slots_replay(const struct jr_app *app, const struct jr_slots_replay *replay, struct jr_err *err) JR_MUST;

/* Fails since there is no such definition. Returns the exit status. */
int jr_slots_replay_unknown(const char *definition, struct jr_err *err);

#endif
