/*
 * trust: may an exec handler run the files that it names besides its own?
 *
 * These are the interpreters of #! lines, and the scripts below the handlers directory that its arguments name. Each of
 * them must pass the same permission rules as the handler's own file (handlers.h).
 */
#ifndef JR_TRUST_H
#define JR_TRUST_H

#include "handler/handler.h"

/* JR_E_CONFIG with the command that mends it. Of kind exec; its settings have been read. */
bool jr_trust_check(const struct jr_handler *handler, struct jr_err *err) JR_MUST;

#endif
