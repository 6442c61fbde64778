/*
 * need: the parameters of need.sql, which checks first of all whether the schema fits this program, and that of
 * migrate_missing.sql, which finds what somebody has dropped from it.
 */
#ifndef JR_NEED_H
#define JR_NEED_H

#include "base/base.h"

/* `values` points into the struct, so it must not be copied or moved. */
struct jr_need {
	char oldest[24], newest[24], oldest_functions[24], functions[24];
	const char *values[5];
};

void jr_need_init(struct jr_need *need);

/* The highest version of the schema that this program knows. */
int jr_need_newest(void);

/* A text[] literal of the functions and views of migrations/functions, a name once for each signature. Caller frees. */
char *jr_need_made(void) JR_MUST;

#endif
