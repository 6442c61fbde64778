/*
 * types: has this host a handler for a job type, and if not, why?
 */
#ifndef JR_TYPES_H
#define JR_TYPES_H

#include "base/err.h"
#include "handler/handlers.h"

/*
 * false: JR_E_CONFIG with the problem of its file if the file was refused, else JR_E_USAGE with the nearest known type.
 */
bool jr_types_check(const struct jr_handlers *handlers, const char *job_type, struct jr_err *err) JR_MUST;

#endif
