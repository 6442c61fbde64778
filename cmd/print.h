/*
 * print: print tables, fields and JSON documents.
 *
 * Statements return text that is ready to print, one result column for each column of a table. Ages, durations and
 * local times come as numbers and are formatted here. Text of jobs and handlers is never trusted: control characters
 * are made visible. On a terminal, tables fit its width (fit.h) and states have colours (unless NO_COLOR is set);
 * elsewhere nothing is cut, and the columns are always the same.
 */
#ifndef JR_PRINT_H
#define JR_PRINT_H

#include <jansson.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "base/base.h"

enum jr_cell {
	JR_CELL_TEXT,   /* may be cut to fit the terminal */
	JR_CELL_NUMBER, /* text, right-aligned */
	JR_CELL_STATE,  /* text, with a colour for each state */
	JR_CELL_WHOLE,  /* text that says nothing when it is cut, as a time */
	JR_CELL_CUT,    /* as TEXT, but when there is no room, other columns are left out first */
	JR_CELL_WRAP,   /* as CUT, but it is wrapped and not cut; only the last column */
	JR_CELL_TOOK,   /* milliseconds: "1m 30s" */
	JR_CELL_AGE,    /* milliseconds since: "3h 2m ago", or "in 5m" when negative; or "?" */
	JR_CELL_SINCE   /* milliseconds since: "3h 2m" */
};

struct jr_column {
	const char *name;
	enum jr_cell cell;
};

/* Print the first `count` columns of the result as a table with a heading; columns without a name are left out. */
void jr_print_table(const PGresult *result, const struct jr_column *columns, size_t count);

/* The same for texts that are not a result: `rows` times `count` of them, row by row. NULL is printed as "-". */
void jr_print_rows(const char *const *cells, size_t rows, const struct jr_column *columns, size_t count);

/*
 * Print JSON, or a part of it, on stdout unchanged; on a terminal \uNNNN replaces control characters. All JSON goes
 * through here.
 */
void jr_print_json(const char *text);

/* The same without the blanks between its tokens, as in all documents. */
void jr_print_compact(const char *json);

/*
 * What --json prints is one object, which begins with "version": JR_PRINT_VERSION. jobrun-json(7) says what is in it.
 * `object` is the text of a JSON object without the version, and without white space around it.
 */
#define JR_PRINT_VERSION "1"
void jr_print_document(const char *object);
void jr_print_value(const json_t *object);

/* The object has one member: the list `name` of the JSON texts in column `column` that are not null. */
void jr_print_list(const char *name, const PGresult *result, int column);

/* In parts: the members of `object`, then lists, in any number, then the end. */
void jr_print_document_begin(const char *object);
void jr_print_document_list(const char *name, const PGresult *result, int column);
void jr_print_document_end(void);

/*
 * Print a line "NAME  VALUE" for each row (name, kind, value, age in ms) whose value is not null. The kinds: "text",
 * "prose" (text, wrapped on a terminal), "ms" (a duration), "time" (Unix milliseconds; printed in local time with its
 * age). Names are aligned, and a value of several lines stands below its name.
 */
void jr_print_fields(const PGresult *result);

/* The same for one name and text. Control characters are made visible; `width` is the length of the longest name. */
void jr_print_field(const char *name, const char *text, int width);

/* Print output of a handler: unchanged, or if `out` is a terminal, made visible and with a newline at its end. */
void jr_print_output(FILE *out, const char *text);

/*
 * Print a paragraph, wrapped on a terminal, its lines but the first indented; control characters are made visible.
 */
void jr_print_paragraph(const char *text, size_t indent);

/* Print `before` and `text` as one line; control characters of `text` are made visible. */
void jr_print_line(FILE *out, const char *before, const char *text);

/*
 * Write to stderr while a runner works. A reader that does not read must not stop the runner's heartbeats, so what
 * stderr does not take at once is lost, as it is with log lines.
 */
void jr_print_now(const char *fmt, ...) JR_PRINTF(1, 2);

/* "14:35:12+01:00" today, else "2026-11-21 14:35:12+01:00", in local time. Caller frees. */
char *jr_format_local_time(int64_t unix_ms) JR_MUST;

/* "3h 2m ago", "in 5m", "now". Caller frees. */
char *jr_format_age(int64_t age_ms) JR_MUST;

/* A terminal, or the pager on one. */
bool jr_print_is_terminal(FILE *file);

#endif
