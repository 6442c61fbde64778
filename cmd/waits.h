/*
 * waits: what people at a terminal are told while there is no connection to the database.
 */
#ifndef JR_WAITS_H
#define JR_WAITS_H

#include "commands.h"

/* For jr_db_open: says on a terminal why the command waits, and how long. */
struct jr_db_waits jr_waits_of(const struct jr_app *app);

/* The same as a call. left_ms 0: as long as leases last. */
void jr_waits_tell(const struct jr_app *app, const char *why, int64_t left_ms);

/* There is no connection, *err says why. On a terminal what to set is added if nothing names a database. */
void jr_waits_advise(const struct jr_app *app, struct jr_err *err);

#endif
