/*
 * fit: make a table fit a terminal, by leaving out columns and cutting cells.
 *
 * Columns without any value are left out. The widest column gives way first, down to a few characters; numbers, times
 * and states are never cut. What does not fit even so is left out from the right, the columns of enum JR_CELL_CUT last;
 * the first column always stays.
 */
#ifndef JR_FIT_H
#define JR_FIT_H

#include "print.h"

struct jr_grid {
	const struct jr_column *columns;
	size_t count, rows;
	char **cells; /* row by row, visible text; NULL: no value */
	enum {
		JR_SHOWN,
		JR_LEFT_OUT, /* it has no name, or no value */
		JR_NO_ROOM
	} * fate;
};

void jr_fit_drop_empty(struct jr_grid *grid);

/* Cut cells so that no line is wider than `width`; `mark` stands for what was cut. */
void jr_fit(struct jr_grid *grid, size_t width, const char *mark);

#endif
