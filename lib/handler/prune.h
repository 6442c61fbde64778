/*
 * prune: housekeeping, step by step. Each step is one statement in a transaction of its own (prune.sql). The state that
 * a step returns is passed unchanged to the next step. The built-in handler and the command share this.
 */
#ifndef JR_PRUNE_H
#define JR_PRUNE_H

#include <libpq-fe.h>

#include "base/err.h"

struct jr_prune {
	char *state;   /* what the server returned; the only parameter of prune.sql */
	bool done;     /* nothing is left */
	int64_t gone;  /* rows deleted */
	int64_t hours; /* hours summed */
	char *kind;    /* the kind of row it works on; NULL: none */
	char *line;    /* {"result": ...}; NULL before the first step */
};

/*
 * The first state: begin with the oldest row; begin where the housekeeping of today has come to, and note how far this
 * comes; only count.
 */
#define JR_PRUNE_ALL "{}"
#define JR_PRUNE_GO_ON "{\"go_on\": true}"
#define JR_PRUNE_DRY_RUN "{\"dry_run\": true}"

void jr_prune_init(struct jr_prune *prune, const char *start);
void jr_prune_release(struct jr_prune *prune);

/* Take the result of a step. false: the result makes no sense, and *prune is unchanged. */
bool jr_prune_take(struct jr_prune *prune, const PGresult *result, struct jr_err *err) JR_MUST;

/*
 * How long to pause after a step that took took_ms, so that the server can serve others: three times as long, at most a
 * second. behind: half of the time is over and there is more to do; then as long as the step took.
 */
int64_t jr_prune_pause_ms(int64_t took_ms, bool behind) JR_MUST;

#endif
