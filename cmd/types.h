/*
 * types: is a job type one that this host can do? And if not, what is wrong with it.
 */
#ifndef JR_TYPES_H
#define JR_TYPES_H

#include "base/err.h"
#include "handler/handlers.h"

/*
 * No: JR_E_CONFIG with the problem of its file if there is one that was refused, else JR_E_USAGE with the nearest known
 * type.
 */
bool jr_types_check(const struct jr_handlers *handlers, const char *job_type, struct jr_err *err) JR_MUST;

#endif
