/*
 * fires: the fire times of a schedule in words, as next.sql gives them.
 */
#ifndef JR_FIRES_H
#define JR_FIRES_H

#include <libpq-fe.h>
#include <stdio.h>

#include "base/base.h"

/* Parameters of next.sql. */
enum jr_fires_param {
	JR_FIRES_OF,       /* name of a definition, or NULL, and then: */
	JR_FIRES_SCHEDULE, /* an expression */
	JR_FIRES_ZONE,     /* and its zone */
	JR_FIRES_AFTER,    /* Unix ms; NULL: now */
	JR_FIRES_COUNT,
	JR_FIRES_PARAMS
};

#define JR_FIRES_DOCUMENT 4 /* column of its result */

/* A row without a time says that there is none. */
bool jr_fires_has_times(const PGresult *result);
bool jr_fires_has_schedule(const PGresult *result);

/* "Sun 29 Mar 2026 03:00 +02:00 (in 4 months)", a line for each behind `indent`. */
void jr_fires_print(FILE *out, const char *indent, const PGresult *result);

/*
 * What is to be known about them, a line each behind `before`: that it fires on either day; that nothing of the
 * definition `name` starts, since it is disabled or paused.
 */
void jr_fires_hint(FILE *out, const char *before, const char *name, const PGresult *result);

#endif
