/* status_watch: `status --watch`, a screen that is drawn anew every few seconds. */
#ifndef JR_STATUS_WATCH_H
#define JR_STATUS_WATCH_H

#include "commands.h"

/*
 * Until the user quits, ask each every_ms and show the answer; stdout must be a terminal. types and exact as for
 * jr_status_ask. While the database does not answer, the last answer stays, with a line that says so, and the
 * connection is tried again. false: no connection at the beginning, or the database refused.
 */
bool jr_status_watch(
    const struct jr_app *app, const char *types, bool exact, int64_t every_ms, struct jr_err *err) JR_MUST;

#endif
