/*
 * print: see print.h. libsmartcols does widths and terminals; this file makes the texts of the cells.
 *
 * What must hold: no text of a job or a handler reaches a terminal without jr_text_visible, or as JSON without
 * jr_text_visible_json.
 */
#include "print.h"

#include <inttypes.h>
#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "pg/pg_error.h"

bool
jr_print_is_terminal(FILE *file)
{
	return isatty(fileno(file)) == 1;
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

/* Caller frees. */
static char *
cell_text(const PGresult *result, int row, int column, enum jr_cell cell)
{
	const char *value = jr_pg_text(result, row, column);

	if (value == NULL)
		return jr_xstrdup("-");
	switch (cell) {
	case JR_CELL_TOOK:
	case JR_CELL_SINCE:
		return format_duration_cell(jr_pg_int(result, row, column, 0), cell);
	case JR_CELL_AGE:
		return jr_format_age(jr_pg_int(result, row, column, 0));
	case JR_CELL_TEXT:
	case JR_CELL_NUMBER:
	case JR_CELL_STATE:
	case JR_CELL_CUT:
		break;
	}
	return jr_text_visible(value, false);
}

static int
column_flags(enum jr_cell cell)
{
	switch (cell) {
	case JR_CELL_NUMBER:
	case JR_CELL_TOOK:
	case JR_CELL_SINCE:
		return SCOLS_FL_RIGHT;
	case JR_CELL_CUT:
		return jr_print_is_terminal(stdout) ? SCOLS_FL_TRUNC : 0;
	case JR_CELL_TEXT:
	case JR_CELL_STATE:
	case JR_CELL_AGE:
		break;
	}
	return 0;
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

/* Takes `text`. */
static void
fill_cell(struct libscols_line *line, size_t column, enum jr_cell cell, char *text)
{
	const char *colour = cell == JR_CELL_STATE ? colour_of(text) : NULL;

	must(scols_line_set_data(line, column, text));
	if (colour != NULL)
		must(scols_cell_set_color(scols_line_get_cell(line, column), colour));
	free(text);
}

static struct libscols_table *
new_table(const struct jr_column *columns, size_t count)
{
	struct libscols_table *table = must_have(scols_new_table());

	scols_table_enable_noencoding(table, 1); /* jr_text_visible has escaped the text already */
	scols_table_enable_colors(table, wants_colours());
	if (!jr_print_is_terminal(stdout))
		scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
	for (size_t i = 0; i < count; i++) {
		if (columns[i].name != NULL)
			must_have(scols_table_new_column(table, columns[i].name,
			    columns[i].cell == JR_CELL_CUT ? 0.1 : 0, column_flags(columns[i].cell)));
	}
	return table;
}

/* Takes `table`. */
static void
print_and_free(struct libscols_table *table)
{
	scols_table_set_stream(table, stdout);
	scols_print_table(table);
	scols_unref_table(table);
}

void
jr_print_table(const PGresult *result, const struct jr_column *columns, size_t count)
{
	struct libscols_table *table = new_table(columns, count);

	for (int row = 0; row < PQntuples(result); row++) {
		struct libscols_line *line = must_have(scols_table_new_line(table, NULL));
		size_t cell = 0;

		for (size_t i = 0; i < count; i++) {
			if (columns[i].name != NULL)
				fill_cell(
				    line, cell++, columns[i].cell, cell_text(result, row, (int)i, columns[i].cell));
		}
	}
	print_and_free(table);
}

bool
jr_print_has(const PGresult *result, int column)
{
	for (int row = 0; row < PQntuples(result); row++) {
		if (!PQgetisnull(result, row, column))
			return true;
	}
	return false;
}

void
jr_print_rows(const char *const *cells, size_t rows, const struct jr_column *columns, size_t count)
{
	struct libscols_table *table = new_table(columns, count);

	for (size_t row = 0; row < rows; row++) {
		struct libscols_line *line = must_have(scols_table_new_line(table, NULL));

		for (size_t i = 0; i < count; i++) {
			const char *text = cells[row * count + i];

			fill_cell(line, i, columns[i].cell, jr_text_visible(text != NULL ? text : "-", false));
		}
	}
	print_and_free(table);
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

void
jr_print_document(const char *text)
{
	jr_print_json(text);
	putchar('\n');
}

void
jr_print_value(const json_t *value, size_t flags)
{
	char *text = must_have(json_dumps(value, flags));

	jr_print_document(text);
	free(text);
}

void
jr_print_documents(const PGresult *result, int column)
{
	int count = PQntuples(result);

	if (count == 0) {
		puts("[]");
		return;
	}
	for (int row = 0; row < count; row++) {
		fputs(row == 0 ? "[" : ",\n ", stdout);
		jr_print_json(PQgetvalue(result, row, column));
	}
	puts("]");
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
