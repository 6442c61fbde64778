/*
 * trust: do the other files that an exec handler runs pass the permission rules?
 *
 * These files are the interpreters of #! lines, and the scripts below the handlers directory that its arguments name.
 * Each must pass the same permission rules as the handler's own file (handlers.h).
 */
#ifndef JR_TRUST_H
#define JR_TRUST_H

#include "handler/handler.h"

/* For a handler of kind exec whose settings have been read. JR_E_CONFIG; the message says which command to type. */
bool jr_trust_check(const struct jr_handler *handler, struct jr_err *err) JR_MUST;

#endif
