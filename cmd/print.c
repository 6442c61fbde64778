/*
 * print: see print.h. libsmartcols does widths and terminals; this file makes the texts of the cells.
 *
 * What must hold: no text of a job or a handler reaches a terminal without jr_text_visible, or as JSON without
 * jr_text_visible_json.
 */
#include "print.h"

#include <inttypes.h>
#include <libsmartcols.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/width.h"
#include "fit.h"
#include "pager.h"
#include "pg/pg_error.h"
#include "terminal.h"

bool
jr_print_is_terminal(FILE *file)
{
	return jr_pager_has(file) || isatty(fileno(file)) == 1;
}

static bool
wants_colours(void)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return jr_print_is_terminal(stdout) && (none == NULL || *none == '\0') && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

static const char *
colour_of(const char *state)
{
	static const struct {
		const char *state, *colour;
	} colours[] = {
	    {"dead", "red"},
	    {"failed", "yellow"},
	    {"lost", "yellow"},
	    {"retrying", "yellow"},
	    {"running", "cyan"},
	    {"succeeded", "green"},
	};

	for (size_t i = 0; i < JR_COUNT(colours); i++) {
		if (strcmp(colours[i].state, state) == 0)
			return colours[i].colour;
	}
	return NULL;
}

char *
jr_format_age(int64_t age_ms)
{
	bool ahead = age_ms < 0;
	char *words, *text;

	if (age_ms > -1000 && age_ms < 1000)
		return jr_xstrdup("now");
	words = jr_format_duration((ahead ? -age_ms : age_ms) / 1000 * 1000);
	text = ahead ? jr_xasprintf("in %s", words) : jr_xasprintf("%s ago", words);
	free(words);
	return text;
}

static char *
format_duration_cell(int64_t ms, enum jr_cell cell)
{
	if (ms < 0)
		ms = 0;
	return jr_format_duration(cell == JR_CELL_SINCE && ms >= 1000 ? ms / 1000 * 1000 : ms);
}

char *
jr_format_local_time(int64_t unix_ms)
{
	time_t now = time(NULL), at = (time_t)(unix_ms / 1000);
	char text[64], zone[16];
	struct tm then, today;
	bool is_today;

	if (localtime_r(&at, &then) == NULL || localtime_r(&now, &today) == NULL)
		return jr_xstrdup("?");
	is_today = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
	if (strftime(text, sizeof(text), is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then) == 0 ||
	    strftime(zone, sizeof(zone), "%z", &then) != 5)
		return jr_xstrdup("?");
	return jr_xasprintf("%s%.3s:%s", text, zone, zone + 3);
}

/* Caller frees; NULL: no value. */
static char *
cell_text(const PGresult *result, int row, int column, enum jr_cell cell)
{
	const char *value = jr_pg_text(result, row, column);

	if (value == NULL)
		return NULL;
	switch (cell) {
	case JR_CELL_TOOK:
	case JR_CELL_SINCE:
		return format_duration_cell(jr_pg_int(result, row, column, 0), cell);
	case JR_CELL_AGE:
		if (strcmp(value, "?") == 0)
			break;
		return jr_format_age(jr_pg_int(result, row, column, 0));
	case JR_CELL_TEXT:
	case JR_CELL_NUMBER:
	case JR_CELL_STATE:
	case JR_CELL_WHOLE:
	case JR_CELL_CUT:
	case JR_CELL_WRAP:
		break;
	}
	return jr_text_visible(value, false);
}

static bool
is_number(enum jr_cell cell)
{
	return cell == JR_CELL_NUMBER || cell == JR_CELL_TOOK || cell == JR_CELL_SINCE;
}

/* Calls of libsmartcols fail only when memory runs out. */
static void
must(int answer)
{
	if (answer != 0)
		abort();
}

static void *
must_have(void *p)
{
	if (p == NULL)
		abort();
	return p;
}

static void
fill_cell(struct libscols_line *line, size_t column, enum jr_cell cell, const char *text)
{
	const char *colour = cell == JR_CELL_STATE && text != NULL ? colour_of(text) : NULL;

	must(scols_line_set_data(line, column, text == NULL ? "-" : text));
	if (colour != NULL)
		must(scols_cell_set_color(scols_line_get_cell(line, column), colour));
}

static void
add_column(struct libscols_table *table, const struct jr_column *column)
{
	int flags = is_number(column->cell) ? SCOLS_FL_RIGHT : column->cell == JR_CELL_WRAP ? SCOLS_FL_WRAP : 0;
	struct libscols_column *added = must_have(scols_table_new_column(table, column->name, 0, flags));

	if (column->cell == JR_CELL_WRAP)
		must(scols_column_set_wrapfunc(added, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL));
}

/* libsmartcols aligns; what is cut and left out has been decided before. */
static struct libscols_table *
new_table(const struct jr_grid *grid)
{
	struct libscols_table *table = must_have(scols_new_table());

	scols_table_enable_noencoding(table, 1); /* jr_text_visible has escaped the text already */
	scols_table_enable_colors(table, wants_colours());
	scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
	scols_table_set_stream(table, stdout);
	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] == JR_SHOWN)
			add_column(table, &grid->columns[i]);
	}
	return table;
}

static void
print_grid(const struct jr_grid *grid)
{
	struct libscols_table *table = new_table(grid);

	for (size_t row = 0; row < grid->rows; row++) {
		struct libscols_line *line = must_have(scols_table_new_line(table, NULL));
		size_t cell = 0;

		for (size_t i = 0; i < grid->count; i++) {
			if (grid->fate[i] == JR_SHOWN)
				fill_cell(line, cell++, grid->columns[i].cell, grid->cells[row * grid->count + i]);
		}
	}
	scols_print_table(table);
	scols_unref_table(table);
}

static void
tell_no_room(const struct jr_grid *grid, size_t width)
{
	struct jr_buf names;
	char *line;

	jr_buf_init(&names, 1000);
	for (size_t i = 0; i < grid->count; i++) {
		if (grid->fate[i] != JR_NO_ROOM)
			continue;
		(void)jr_buf_adds(&names, names.len == 0 ? "no room for " : ", ");
		(void)jr_buf_adds(&names, grid->columns[i].name);
	}
	if (names.len > 0) {
		line = jr_width_cut(names.data, width, jr_terminal_mark());
		puts(line);
		free(line);
	}
	jr_buf_release(&names);
}

/* Prints and frees the cells. */
static void
show_grid(struct jr_grid *grid)
{
	bool fits = jr_print_is_terminal(stdout);
	size_t width = fits ? jr_terminal_columns() : 0;

	if (fits && grid->rows == 0)
		puts("(0 rows)");
	grid->fate = jr_xcalloc(grid->count + 1, sizeof(*grid->fate));
	for (size_t i = 0; i < grid->count; i++)
		grid->fate[i] = grid->columns[i].name == NULL ? JR_LEFT_OUT : JR_SHOWN;
	if (fits) {
		jr_fit_drop_empty(grid);
		jr_fit(grid, width, jr_terminal_mark());
	}
	print_grid(grid);
	if (fits && grid->rows > 0)
		tell_no_room(grid, width);
	for (size_t i = 0; i < grid->rows * grid->count; i++)
		free(grid->cells[i]);
	free(grid->cells);
	free(grid->fate);
}

void
jr_print_table(const PGresult *result, const struct jr_column *columns, size_t count)
{
	struct jr_grid grid = {.columns = columns, .count = count, .rows = (size_t)PQntuples(result)};

	grid.cells = jr_xcalloc(grid.rows * count + 1, sizeof(*grid.cells));
	for (size_t row = 0; row < grid.rows; row++) {
		for (size_t i = 0; i < count; i++)
			grid.cells[row * count + i] = cell_text(result, (int)row, (int)i, columns[i].cell);
	}
	show_grid(&grid);
}

void
jr_print_rows(const char *const *cells, size_t rows, const struct jr_column *columns, size_t count)
{
	struct jr_grid grid = {.columns = columns, .count = count, .rows = rows};

	grid.cells = jr_xcalloc(rows * count + 1, sizeof(*grid.cells));
	for (size_t i = 0; i < rows * count; i++)
		grid.cells[i] = cells[i] == NULL ? NULL : jr_text_visible(cells[i], false);
	show_grid(&grid);
}

void
jr_print_json(const char *text)
{
	char *visible;

	if (!jr_print_is_terminal(stdout)) {
		fputs(text, stdout);
		return;
	}
	visible = jr_text_visible_json(text);
	fputs(visible, stdout);
	free(visible);
}

/* json_build_object and jsonb print blanks, row_to_json none: all documents have none. */
void
jr_print_compact(const char *json)
{
	char *compact = jr_text_compact_json(json);

	jr_print_json(compact);
	free(compact);
}

void
jr_print_document_begin(const char *object)
{
	size_t len = strlen(object);
	char *members = len > 2 ? jr_xasprintf(",%.*s", (int)len - 2, object + 1) : jr_xstrdup("");

	fputs("{\"version\":" JR_PRINT_VERSION, stdout);
	jr_print_compact(members);
	free(members);
}

void
jr_print_document_list(const char *name, const PGresult *result, int column)
{
	const char *before = "";

	printf(",\"%s\":[", name);
	for (int row = 0; row < PQntuples(result); row++) {
		if (PQgetisnull(result, row, column))
			continue;
		fputs(before, stdout);
		jr_print_compact(PQgetvalue(result, row, column));
		before = ",\n ";
	}
	putchar(']');
}

void
jr_print_document_end(void)
{
	puts("}");
}

void
jr_print_document(const char *object)
{
	jr_print_document_begin(object);
	jr_print_document_end();
}

void
jr_print_value(const json_t *object)
{
	char *text = must_have(json_dumps(object, JSON_COMPACT));

	jr_print_document(text);
	free(text);
}

void
jr_print_list(const char *name, const PGresult *result, int column)
{
	jr_print_document_begin("{}");
	jr_print_document_list(name, result, column);
	jr_print_document_end();
}

/* Caller frees. */
static char *
field_text(const PGresult *result, int row)
{
	enum {
		NAME,
		KIND,
		VALUE,
		AGE
	};
	const char *kind = PQgetvalue(result, row, KIND);
	int64_t number = jr_pg_int(result, row, VALUE, 0);
	char *at, *age, *text;

	if (strcmp(kind, "ms") == 0)
		return jr_format_duration(number < 0 ? 0 : number);
	if (strcmp(kind, "time") != 0)
		return jr_text_visible(PQgetvalue(result, row, VALUE), true);
	at = jr_format_local_time(number);
	age = jr_format_age(jr_pg_int(result, row, AGE, 0));
	text = jr_xasprintf("%s (%s)", at, age);
	free(at);
	free(age);
	return text;
}

/* Words, wrapped below the value on a terminal. */
static void
print_prose(const char *name, const char *text, int width)
{
	char *line = jr_xasprintf("%-*s  %s", width, name, text);

	jr_print_paragraph(line, (size_t)width + 2);
	free(line);
}

static void
print_field(const char *name, const char *text, int width)
{
	const char *end = strchr(text, '\n');

	if (end == NULL) {
		printf("%-*s  %s\n", width, name, text);
		return;
	}
	printf("%s\n", name);
	while (*text != '\0') {
		int len = (int)strcspn(text, "\n");

		printf("  %.*s\n", len, text);
		text += len;
		if (*text == '\n')
			text++;
	}
}

void
jr_print_field(const char *name, const char *text, int width)
{
	char *visible = jr_text_visible(text, true);

	print_field(name, visible, width);
	free(visible);
}

void
jr_print_fields(const PGresult *result)
{
	int width = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		int len = (int)strlen(PQgetvalue(result, row, 0));

		if (!PQgetisnull(result, row, 2) && len > width)
			width = len;
	}
	for (int row = 0; row < PQntuples(result); row++) {
		char *text;

		if (PQgetisnull(result, row, 2))
			continue;
		text = field_text(result, row);
		if (strcmp(PQgetvalue(result, row, 1), "prose") == 0 && strchr(text, '\n') == NULL)
			print_prose(PQgetvalue(result, row, 0), PQgetvalue(result, row, 2), width);
		else
			print_field(PQgetvalue(result, row, 0), text, width);
		free(text);
	}
}

void
jr_print_output(FILE *out, const char *text)
{
	size_t len = strlen(text);
	char *visible;

	if (!jr_print_is_terminal(out)) {
		fputs(text, out);
		return;
	}
	visible = jr_text_visible(text, true);
	fputs(visible, out);
	if (len > 0 && text[len - 1] != '\n')
		fputc('\n', out);
	free(visible);
}

void
jr_print_line(FILE *out, const char *before, const char *text)
{
	char *visible = jr_text_visible(text, false);

	fprintf(out, "%s%s\n", before, visible);
	free(visible);
}

void
jr_print_now(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = jr_xvasprintf(fmt, args);
	va_end(args);
	jr_fd_offer(STDERR_FILENO, text, strlen(text));
	free(text);
}

void
jr_print_paragraph(const char *text, size_t indent)
{
	char *visible = jr_text_visible(text, false);
	size_t columns = jr_terminal_columns(), in = 0;
	const char *line = visible, *next;

	if (!jr_print_is_terminal(stdout)) {
		puts(visible);
		line = "";
	}
	for (; *line != '\0'; line = next) {
		size_t room = columns > in + 1 ? columns - in : 1;

		printf("%*s%.*s\n", (int)in, "", (int)jr_width_line(line, room, &next), line);
		in = indent;
	}
	free(visible);
}
