/*
 * slots_replay: one slot of a definition as a run once more.
 */
#ifndef JR_SLOTS_REPLAY_H
#define JR_SLOTS_REPLAY_H

#include "commands.h"

struct jr_slots_replay {
	const char *definition;
	const char *at;     /* as people write it; without an offset it is of the definition's zone */
	const char *reason; /* NULL: none */
	bool dry_run;
};

/* Prints the id of the run, with -n what would be. Gives the exit status. */
int jr_slots_replay(const struct jr_app *app, const struct jr_slots_replay *replay, struct jr_err *err) JR_MUST;

/* There is no such definition. Gives the exit status. */
int jr_slots_replay_unknown(const char *definition, struct jr_err *err);

#endif
