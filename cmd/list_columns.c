/*
 * list_columns: see list_columns.h.
 */
#include "list_columns.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/pg_error.h"

/* clang-format off */
/* The first ones are the default, in this order. The numbers are columns of list.sql. */
#define DEFAULT_COLUMNS 9
static const struct jr_list_column known[] = {
	{ .name = "id", .cell = JR_CELL_NUMBER, .shown = 0, .raw = 0, .sorts = true },
	{ .name = "type", .cell = JR_CELL_TEXT, .shown = 1, .raw = 1, .sorts = true },
	{ .name = "status", .cell = JR_CELL_STATE, .shown = 2, .raw = 2, .sorts = true },
	{ .name = "try", .cell = JR_CELL_TEXT, .shown = 3, .raw = 3 },
	{ .name = "when", .cell = JR_CELL_AGE, .shown = 4, .raw = 5, .raw_kind = JR_RAW_TIME },
	{ .name = "took", .cell = JR_CELL_TOOK, .shown = 6, .raw = 6, .raw_kind = JR_RAW_MS, .sorts = true },
	{ .name = "definition", .cell = JR_CELL_TEXT, .shown = 7, .raw = 7 },
	{ .name = "slot", .cell = JR_CELL_WHOLE, .shown = 8, .raw = 9, .raw_kind = JR_RAW_TIME },
	{ .name = "message", .cell = JR_CELL_CUT, .shown = 10, .raw = 10 },
	{ .name = "queue", .cell = JR_CELL_TEXT, .shown = 11, .raw = 11, .sorts = true },
	{ .name = "priority", .cell = JR_CELL_NUMBER, .shown = 12, .raw = 12, .sorts = true },
	{ .name = "lock", .cell = JR_CELL_TEXT, .shown = 13, .raw = 13, .sorts = true },
	{ .name = "unique_key", .heading = "UNIQUE", .cell = JR_CELL_TEXT, .shown = 14, .raw = 14 },
	{ .name = "key", .cell = JR_CELL_TEXT, .shown = 15, .raw = 15 },
	{ .name = "attempts", .cell = JR_CELL_NUMBER, .shown = 16, .raw = 16, .sorts = true },
	{ .name = "max_attempts", .heading = "MAX", .cell = JR_CELL_NUMBER, .shown = 17, .raw = 17 },
	{ .name = "wait", .cell = JR_CELL_TOOK, .shown = 18, .raw = 18, .raw_kind = JR_RAW_MS, .sorts = true },
	{ .name = "host", .cell = JR_CELL_TEXT, .shown = 19, .raw = 19, .sorts = true },
	{ .name = "runner", .cell = JR_CELL_NUMBER, .shown = 20, .raw = 20 },
	{ .name = "error_code", .heading = "CODE", .cell = JR_CELL_TEXT, .shown = 21, .raw = 21, .sorts = true },
	{ .name = "error", .cell = JR_CELL_CUT, .shown = 22, .raw = 22 },
	{ .name = "created_by", .heading = "BY", .cell = JR_CELL_TEXT, .shown = 23, .raw = 23, .sorts = true },
	{ .name = "parent", .cell = JR_CELL_NUMBER, .shown = 24, .raw = 24, .sorts = true },
	{ .name = "run_at", .heading = "DUE", .cell = JR_CELL_WHOLE, .shown = 25, .raw = 25, .raw_kind = JR_RAW_TIME, .sorts = true },
	{ .name = "created_at", .heading = "CREATED", .cell = JR_CELL_WHOLE, .shown = 26, .raw = 26, .raw_kind = JR_RAW_TIME, .sorts = true },
	{ .name = "started_at", .heading = "STARTED", .cell = JR_CELL_WHOLE, .shown = 27, .raw = 27, .raw_kind = JR_RAW_TIME, .sorts = true },
	{ .name = "finished_at", .heading = "ENDED", .cell = JR_CELL_WHOLE, .shown = 28, .raw = 28, .raw_kind = JR_RAW_TIME, .sorts = true },
};
/* clang-format on */

const char *
jr_list_column_word(size_t i)
{
	return i < JR_COUNT(known) ? known[i].name : NULL;
}

const char *
jr_list_sort_word(size_t i)
{
	for (size_t k = 0; k < JR_COUNT(known); k++) {
		if (known[k].sorts && i-- == 0)
			return known[k].name;
	}
	return NULL;
}

/* The column whose heading in the table, which is not its name, is `text`; NULL: none. */
static const char *
name_of_heading(const char *text, bool sorting)
{
	for (size_t i = 0; i < JR_COUNT(known); i++) {
		if (known[i].heading != NULL && strcmp(known[i].heading, text) == 0 && (known[i].sorts || !sorting))
			return known[i].name;
	}
	return NULL;
}

/* Fail with a line that has the near name, if there is one, and all names. */
static bool
fail_unknown(const char *what, const char *text, bool sorting, struct jr_err *err)
{
	const char *names[JR_COUNT(known)], *near;
	size_t count = 0;
	struct jr_buf all;

	jr_buf_init(&all, 1000);
	for (const char *name; (name = sorting ? jr_list_sort_word(count) : jr_list_column_word(count)) != NULL;) {
		(void)jr_buf_addf(&all, "%s%s", count == 0 ? "" : ", ", name);
		names[count++] = name;
	}
	near = name_of_heading(text, sorting);
	if (near == NULL)
		near = jr_text_nearest(text, names, count);
	if (near != NULL)
		jr_fail(
		    err, JR_E_USAGE, "unknown column \"%s\": did you mean \"%s\"? There are %s", text, near, all.data);
	else
		jr_fail(err, JR_E_USAGE, "%s \"%s\": there are %s", sorting ? "cannot sort by" : "unknown column", text,
		    all.data);
	jr_buf_release(&all);
	return jr_fail_in(err, what);
}

static const struct jr_list_column *
find(const char *name)
{
	for (size_t i = 0; i < JR_COUNT(known); i++) {
		if (strcmp(known[i].name, name) == 0)
			return &known[i];
	}
	return NULL;
}

bool
jr_list_check_column(const char *what, const char *text, struct jr_err *err)
{
	return find(text) != NULL || fail_unknown(what, text, false, err);
}

bool
jr_list_check_sort(const char *what, const char *text, struct jr_err *err)
{
	const char *name = text + (*text == '-');
	const struct jr_list_column *column = find(name);

	return (column != NULL && column->sorts) || fail_unknown(what, name, true, err);
}

struct jr_list_column *
jr_list_choose(const struct jr_words *names, size_t *count)
{
	struct jr_list_column *chosen = jr_xcalloc(names->count + DEFAULT_COLUMNS, sizeof(*chosen));

	*count = names->count > 0 ? names->count : DEFAULT_COLUMNS;
	for (size_t i = 0; i < *count; i++) {
		const struct jr_list_column *column = names->count > 0 ? find(names->items[i]) : &known[i];

		if (column != NULL) /* always: the options have been checked */
			chosen[i] = *column;
	}
	return chosen;
}

int
jr_list_rows(const PGresult *result)
{
	int rows = PQntuples(result);

	return rows > 0 && PQgetisnull(result, 0, JR_LIST_ID) ? 0 : rows;
}

/* The heading. Caller frees. */
static char *
heading_of(const struct jr_list_column *column)
{
	char *text = jr_xstrdup(column->heading != NULL ? column->heading : column->name);

	for (char *c = text; *c != '\0'; c++)
		*c = (char)toupper((unsigned char)*c);
	return text;
}

/* Calls of libpq on a result of our own fail only when memory runs out. */
static void
must(int answer)
{
	if (answer == 0)
		abort();
}

static void
copy_cell(PGresult *table, const PGresult *result, int row, int to, const struct jr_list_column *column)
{
	const char *value = jr_pg_text(result, row, column->shown);
	char *time = NULL;

	if (value != NULL && column->cell == JR_CELL_WHOLE && column->raw_kind == JR_RAW_TIME &&
	    column->shown == column->raw)
		value = time = jr_format_local_time(jr_pg_int(result, row, column->shown, 0));
	must(PQsetvalue(table, row, to, (char *)(uintptr_t)value, value == NULL ? -1 : (int)strlen(value)));
	free(time);
}

/* A result with the chosen columns alone. */
static PGresult *
chosen_cells(const PGresult *result, const struct jr_list_column *columns, size_t count)
{
	PGresult *table = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc *attributes = jr_xcalloc(count, sizeof(*attributes));

	if (table == NULL)
		abort();
	for (size_t i = 0; i < count; i++)
		attributes[i].name = (char *)(uintptr_t)columns[i].name;
	must(PQsetResultAttrs(table, (int)count, attributes));
	free(attributes);
	for (int row = 0; row < jr_list_rows(result); row++) {
		for (size_t i = 0; i < count; i++)
			copy_cell(table, result, row, (int)i, &columns[i]);
	}
	return table;
}

void
jr_list_print_table(const PGresult *result, const struct jr_list_column *columns, size_t count)
{
	PGresult *table = chosen_cells(result, columns, count);
	struct jr_column *headed = jr_xcalloc(count, sizeof(*headed));
	char **headings = jr_xcalloc(count, sizeof(*headings));

	for (size_t i = 0; i < count; i++) {
		headings[i] = heading_of(&columns[i]);
		headed[i] = (struct jr_column){.name = headings[i], .cell = columns[i].cell};
	}
	jr_print_table(table, headed, count);
	for (size_t i = 0; i < count; i++)
		free(headings[i]);
	free(headings);
	free(headed);
	PQclear(table);
}

static void
print_time(int64_t unix_ms)
{
	time_t at = (time_t)(unix_ms / 1000);
	char text[32];
	struct tm then;

	if (gmtime_r(&at, &then) == NULL || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &then) == 0)
		return;
	printf("%s.%03dZ", text, (int)(unix_ms % 1000));
}

static void
print_quoted(const char *value)
{
	char *visible = jr_print_is_terminal(stdout) ? jr_text_visible(value, true) : NULL;
	const char *text = visible != NULL ? visible : value;

	if (*text != '\0' && strpbrk(text, ",\"\r\n") == NULL)
		fputs(text, stdout);
	else {
		putchar('"');
		for (; *text != '\0'; text++) {
			if (*text == '"')
				putchar('"');
			putchar(*text);
		}
		putchar('"');
	}
	free(visible);
}

void
jr_list_print_csv(const PGresult *result, const struct jr_list_column *columns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s%s%s", i == 0 ? "" : ",", columns[i].name, columns[i].raw_kind == JR_RAW_MS ? "_ms" : "");
	fputs("\r\n", stdout);
	for (int row = 0; row < jr_list_rows(result); row++) {
		for (size_t i = 0; i < count; i++) {
			const char *value = jr_pg_text(result, row, columns[i].raw);

			if (i > 0)
				putchar(',');
			if (value != NULL && columns[i].raw_kind == JR_RAW_TIME)
				print_time(jr_pg_int(result, row, columns[i].raw, 0));
			else if (value != NULL)
				print_quoted(value);
		}
		fputs("\r\n", stdout);
	}
}
