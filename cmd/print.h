/*
 * print: what people see: tables, fields, documents.
 *
 * Statements return text made for people, one result column for each column of a table; a cell that depends on where it
 * is read (how long ago, how long it took, local time) comes as a number and is worded here. Text of jobs and handlers
 * is never trusted: whatever could move a cursor is made visible. On a terminal tables are trimmed to its width and
 * words of state have colours (unless NO_COLOR is set); elsewhere nothing is cut.
 */
#ifndef JR_PRINT_H
#define JR_PRINT_H

#include <jansson.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "base/base.h"

enum jr_cell {
	JR_CELL_TEXT,
	JR_CELL_NUMBER, /* text, to the right */
	JR_CELL_STATE,  /* text, coloured by its meaning */
	JR_CELL_CUT,    /* text that may be cut to fit the terminal */
	JR_CELL_TOOK,   /* milliseconds: "1m 30s" */
	JR_CELL_AGE,    /* milliseconds since: "3h 2m ago", or "in 5m" when negative */
	JR_CELL_SINCE   /* milliseconds since: "3h 2m" */
};

struct jr_column {
	const char *name;
	enum jr_cell cell;
};

/* The first `count` columns of the result as a table with a heading, but for those without a name. NULL is "-". */
void jr_print_table(const PGresult *result, const struct jr_column *columns, size_t count);

/* The same of texts that did not come from the database: `rows` times `count` of them, row by row; NULL is "-". */
void jr_print_rows(const char *const *cells, size_t rows, const struct jr_column *columns, size_t count);

/* Has any row a value in this column? */
bool jr_print_has(const PGresult *result, int column);

/*
 * One JSON document, or a part of one, on stdout: as it is, but for a terminal with \uNNNN for what could move its
 * cursor or turn its text around. Every document that is printed goes through here. jr_print_document ends the line.
 */
void jr_print_json(const char *text);
void jr_print_document(const char *text);
void jr_print_value(const json_t *value, size_t flags); /* those of json_dumps; ends the line */

/* Column `column` of every row holds a JSON document: print them as one array. */
void jr_print_documents(const PGresult *result, int column);

/*
 * One line "NAME  VALUE" for each row (name, kind, value, age in ms) whose value is not null. The kinds: "text", "ms"
 * (a duration), "time" (Unix milliseconds; printed in local time, with how long ago). Names are aligned, and a value of
 * several lines is put below its name.
 */
void jr_print_fields(const PGresult *result);

/* The same for one name and text, made visible; `width` is that of the longest name. */
void jr_print_field(const char *name, const char *text, int width);

/* Text of handlers: as it is stored when `out` is no terminal; made visible, with a newline at its end, when it is. */
void jr_print_output(FILE *out, const char *text);

/* Foreign text in one line, made visible. */
void jr_print_line(FILE *out, const char *before, const char *text);

/* "14:35:12+01:00" today, else "2026-11-21 14:35:12+01:00", in local time. Caller frees. */
char *jr_format_local_time(int64_t unix_ms) JR_MUST;

/* "3h 2m ago", "in 5m", "now". Caller frees. */
char *jr_format_age(int64_t age_ms) JR_MUST;

bool jr_print_is_terminal(FILE *file);

#endif
