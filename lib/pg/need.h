/*
 * need: what this program asks of the schema before anything else. It is the same for the commands and for the runner.
 */
#ifndef JR_NEED_H
#define JR_NEED_H

#include "base/base.h"

/* The parameters of need.sql; they point into it, so it must not move. */
struct jr_need {
	char oldest[24], newest[24], oldest_functions[24], functions[24];
	const char *values[5];
};

void jr_need_init(struct jr_need *need);

/* The highest version of the schema that this program knows. */
int jr_need_newest(void);

#endif
