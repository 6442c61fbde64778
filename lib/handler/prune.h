/*
 * prune: housekeeping, step by step. Each step is one statement in a transaction of its own (prune.sql); what it gives
 * is handed to the next one untouched. Shared by the built-in handler and the command.
 */
#ifndef JR_PRUNE_H
#define JR_PRUNE_H

#include <libpq-fe.h>

#include "base/err.h"

struct jr_prune {
	char *state;   /* of the server; the one parameter of prune.sql */
	bool done;     /* nothing is left */
	int64_t gone;  /* rows */
	int64_t hours; /* that were summed */
	char *kind;    /* what it is at; NULL: at nothing */
	char *line;    /* {"result": ...}; NULL before the first step */
};

void jr_prune_init(struct jr_prune *prune, bool dry_run);
void jr_prune_release(struct jr_prune *prune);

/* A step was done: its answer. false: that makes no sense, and nothing is taken. */
bool jr_prune_take(struct jr_prune *prune, const PGresult *result, struct jr_err *err) JR_MUST;

/* How long to leave the server to others after a step that took so long. */
int64_t jr_prune_pause_ms(int64_t took_ms) JR_MUST;

#endif
