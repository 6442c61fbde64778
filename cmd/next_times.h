/*
 * next_times: the fire times of a schedule in words, as next.sql gives them.
 */
#ifndef JR_NEXT_TIMES_H
#define JR_NEXT_TIMES_H

#include <libpq-fe.h>
#include <stdio.h>

#include "base/base.h"

/* Parameters of next.sql. */
enum jr_next_times_param {
	JR_NEXT_TIMES_OF,       /* name of a definition, or NULL, and then: */
	JR_NEXT_TIMES_SCHEDULE, /* an expression */
	JR_NEXT_TIMES_ZONE,     /* and its zone */
	JR_NEXT_TIMES_AFTER,    /* Unix ms; NULL: now */
	JR_NEXT_TIMES_COUNT,
	JR_NEXT_TIMES_PARAMS
};

#define JR_NEXT_TIMES_DOCUMENT 4 /* column of its result */

/* A row without a time says that there is none. */
bool jr_next_times_has_times(const PGresult *result);
bool jr_next_times_has_schedule(const PGresult *result);

/* "Sun 29 Mar 2026 03:00 +02:00 (in 4 months)", a line for each behind `indent`. */
void jr_next_times_print(FILE *out, const char *indent, const PGresult *result);

/*
 * What is to be known about them, a line each behind `before`: that it fires on either day; that nothing of the
 * definition `name` starts, since it is disabled or paused.
 */
void jr_next_times_hint(FILE *out, const char *before, const char *name, const PGresult *result);

#endif
