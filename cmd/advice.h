/*
 * advice: what to do about a failure, behind its reason.
 */
#ifndef JR_ADVICE_H
#define JR_ADVICE_H

#include "commands.h"

/*
 * There is no connection, *err says why. If this is a handler that was told no database (the connection string of its
 * runner has a password, so it is not handed on), the message gets what to do about that. The rest of *err stays.
 */
void jr_advise_database(const struct jr_app *app, struct jr_err *err);

#endif
