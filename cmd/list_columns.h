/*
 * list_columns: the columns of list: their names, how they look in a table, and their raw values for --csv.
 *
 * The table of columns is in list_columns.c. To add one, add a column to list.sql, and a line there.
 */
#ifndef JR_LIST_COLUMNS_H
#define JR_LIST_COLUMNS_H

#include "options.h"
#include "print.h"

/* The columns of list.sql that are no column of the table. A row without an id is no run. */
enum {
	JR_LIST_ID = 0,
	JR_LIST_DOCUMENT = 29,
	JR_LIST_FOUND,
	JR_LIST_MORE
};

/* Columns of a table, for people or as CSV. Two numbers of columns of the statement: formatted, and the raw value. */
struct jr_list_column {
	const char *name;
	const char *heading; /* NULL: the name in capitals */
	enum jr_cell cell;
	enum {
		JR_RAW_TEXT,
		JR_RAW_TIME, /* Unix ms: a local time in the table, RFC 3339 in UTC as CSV */
		JR_RAW_MS    /* the name as CSV ends with _ms */
	} raw_kind;
	int shown, raw;
	bool sorts; /* list.sql can sort by it */
};

/* For options: does such a column exist; can it be sorted by, perhaps with a "-" before it? */
bool jr_list_check_column(const char *what, const char *text, struct jr_err *err);
bool jr_list_check_sort(const char *what, const char *text, struct jr_err *err);

/* For their completion: column number i, and number i of those to sort by; NULL behind the last. */
const char *jr_list_column_word(size_t i);
const char *jr_list_sort_word(size_t i);

/* The columns of these names, or if there are none, of the default ones. Caller frees; *count is their number. */
struct jr_list_column *jr_list_choose(const struct jr_words *names, size_t *count) JR_MUST;

/* Print the rows whose first column is not null. */
void jr_list_print_table(const PGresult *result, const struct jr_list_column *columns, size_t count);

/*
 * RFC 4180, with a line of names. Null is an empty field, an empty text is "". Text is unchanged; on a terminal control
 * characters are made visible.
 */
void jr_list_print_csv(const PGresult *result, const struct jr_list_column *columns, size_t count);

/* How many rows are there whose first column is not null? They are the first ones. */
int jr_list_rows(const PGresult *result);

#endif
