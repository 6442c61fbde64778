/*
 * waits: what people are told of a database that is not there: at a terminal meanwhile, and everybody at the end.
 */
#ifndef JR_WAITS_H
#define JR_WAITS_H

#include "commands.h"

/* For jr_db_open: says on a terminal why the command waits, and how long. */
struct jr_db_waits jr_waits_of(const struct jr_app *app);

/* The same as a call. left_ms 0: as long as leases last. */
void jr_waits_tell(const struct jr_app *app, const char *why, int64_t left_ms);

/* There is no connection, *err says why. What to set is added if nothing names a database: a crontab may lack it. */
void jr_waits_advise(const struct jr_app *app, struct jr_err *err);

#endif
