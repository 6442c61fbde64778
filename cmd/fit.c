/* fit: see fit.h. */
#include "fit.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/width.h"

#define LEAST 10 /* columns that a text keeps when it is cut */

struct widths {
	size_t natural, least, now;
};

static bool
may_be_cut(enum jr_cell cell)
{
	return cell == JR_CELL_TEXT || cell == JR_CELL_CUT || cell == JR_CELL_WRAP;
}

void
jr_fit_drop_empty(struct jr_grid *grid)
{
	for (size_t i = 0; i < grid->count && grid->rows > 0; i++) {
		bool any = false;

		for (size_t row = 0; row < grid->rows && !any; row++) {
			const char *text = grid->cells[row * grid->count + i];

			any = text != NULL && *text != '\0';
		}
		if (!any)
			grid->fate[i] = JR_LEFT_OUT;
	}
}

static struct widths
measure(const struct jr_grid *grid, size_t column)
{
	size_t head = jr_width(grid->columns[column].name);
	struct widths w = {.natural = head};

	for (size_t row = 0; row < grid->rows; row++) {
		const char *text = grid->cells[row * grid->count + column];
		size_t width = text == NULL ? 1 : jr_width(text);

		if (width > w.natural)
			w.natural = width;
	}
	w.now = w.least = w.natural;
	if (may_be_cut(grid->columns[column].cell) && w.natural > LEAST)
		w.least = head > LEAST ? head : LEAST;
	return w;
}

/* The width of a line when each column is as narrow as it may be, or as it is now. */
static size_t
line_width(const struct jr_grid *grid, const struct widths *widths, bool least)
{
	size_t sum = 0;

	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] == JR_SHOWN)
			sum += (sum > 0 ? 1 : 0) + (least ? widths[i].least : widths[i].now);
	}
	return sum;
}

/* The column to leave out; 0: none. */
static size_t
least_wanted(const struct jr_grid *grid)
{
	size_t last = 0;

	for (size_t i = grid->count; i-- > 1;) {
		if (grid->fate[i] != JR_SHOWN)
			continue;
		if (grid->columns[i].cell != JR_CELL_CUT && grid->columns[i].cell != JR_CELL_WRAP)
			return i;
		if (last == 0)
			last = i;
	}
	return last;
}

static struct widths *
widest(const struct jr_grid *grid, struct widths *widths)
{
	struct widths *found = NULL;

	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] == JR_SHOWN && widths[i].now > widths[i].least &&
		    (found == NULL || widths[i].now > found->now))
			found = &widths[i];
	}
	return found;
}

/* `text` on lines of at most `width`. Caller frees. */
static char *
wrapped(const char *text, size_t width)
{
	char *all = jr_xstrdup("");

	while (*text != '\0') {
		const char *next;
		int len = (int)jr_width_line(text, width, &next);
		char *more = jr_xasprintf("%s%s%.*s", all, *all == '\0' ? "" : "\n", len, text);

		free(all);
		all = more;
		text = next;
	}
	return all;
}

static void
cut_column(struct jr_grid *grid, size_t column, size_t width, const char *mark)
{
	for (size_t row = 0; row < grid->rows; row++) {
		char **cell = &grid->cells[row * grid->count + column];
		char *cut;

		if (*cell == NULL)
			continue;
		cut = grid->columns[column].cell == JR_CELL_WRAP ? wrapped(*cell, width)
								 : jr_width_cut(*cell, width, mark);
		free(*cell);
		*cell = cut;
	}
}

void
jr_fit(struct jr_grid *grid, size_t width, const char *mark)
{
	struct widths *widths = jr_xcalloc(grid->count + 1, sizeof(*widths)), *wide;
	size_t column;

	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] == JR_SHOWN)
			widths[i] = measure(grid, i);
	}
	while (line_width(grid, widths, true) > width && (column = least_wanted(grid)) > 0)
		grid->fate[column] = JR_NO_ROOM;
	while (line_width(grid, widths, false) > width && (wide = widest(grid, widths)) != NULL)
		wide->now--;
	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] == JR_SHOWN && widths[i].now < widths[i].natural)
			cut_column(grid, i, widths[i].now, mark);
	}
	free(widths);
}
