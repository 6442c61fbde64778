/*
 * known: a warning on stderr if nothing has the name that was typed. The command has done its work all the same.
 *
 * `others` is what the functions of migrations/functions/known.sql return: NULL if the name is known, else the names
 * that there are, one a line. One that is spelt nearly so is offered.
 */
#ifndef JR_KNOWN_H
#define JR_KNOWN_H

#include "base/base.h"

/* "queue mial is not known so far; did you mean mail?" what: "queue". */
void jr_known_warn(const char *what, const char *name, const char *others);

/*
 * These words, with the one of `others` that is spelt nearly as `name`. others: NULL: none is looked for. Caller frees.
 */
char *jr_known_words(const char *words, const char *name, const char *others) JR_MUST;

/*
 * The same for a job type that is to be run. A handler on this host counts, too; its directory is read only if no
 * runner has the type. Silent if this host has no handlers and no runner was seen: then nothing is known of any name.
 * only_near: silent unless another one is spelt nearly so.
 */
void jr_known_warn_type(const char *type, const char *others, bool only_near);

#endif
