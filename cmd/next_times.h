/*
 * next_times: print the fire times of a schedule that next.sql returned.
 */
#ifndef JR_NEXT_TIMES_H
#define JR_NEXT_TIMES_H

#include <libpq-fe.h>
#include <stdio.h>

#include "base/base.h"

/* Parameters of next.sql. */
enum jr_next_times_param {
	JR_NEXT_TIMES_OF,       /* name of a definition; NULL: use the next two */
	JR_NEXT_TIMES_SCHEDULE, /* an expression */
	JR_NEXT_TIMES_ZONE,     /* its time zone */
	JR_NEXT_TIMES_AFTER,    /* Unix ms; NULL: now */
	JR_NEXT_TIMES_COUNT,
	JR_NEXT_TIMES_PARAMS
};

/* Columns of its result: a JSON document for each time, and one for all of them, which has the definition. */
#define JR_NEXT_TIMES_DOCUMENT 4
#define JR_NEXT_TIMES_HEAD 11

/* If there are no times, or the server has lost the zone, the result has one row without a time. */
bool jr_next_times_has_times(const PGresult *result);
bool jr_next_times_has_schedule(const PGresult *result);
/* That the server has lost the zone, and what to do; NULL: it has not. */
const char *jr_next_times_lost(const PGresult *result);

/* Print a line for each time after `indent`: "Sun 29 Mar 2026 03:00 +02:00 (in 4 months)". */
void jr_next_times_print(FILE *out, const char *indent, const PGresult *result);

/*
 * Print hints, one per line after `before`: that the schedule fires on either day (day of month or weekday), and that
 * definition `name` starts nothing because it is disabled or paused.
 */
void jr_next_times_hint(FILE *out, const char *before, const char *name, const PGresult *result);

/* What is said of the times of a definition: "next", and they, or why they are not known; and the hints. */
void jr_next_times_tell(FILE *out, const char *name, const PGresult *result);

#endif
