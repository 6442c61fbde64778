/*
 * due: what a runner would claim now, and which definitions it would fire, for `jobrun run -n`. Reads only.
 */
#ifndef JR_DUE_H
#define JR_DUE_H

#include "commands.h"

/* types, queues: array literals, NULL queues: all. job: this run alone, due or not; 0: none. */
bool jr_due_print(const struct jr_app *app, struct jr_db *db, const char *types, const char *queues, int64_t job,
    struct jr_err *err) JR_MUST;

#endif
