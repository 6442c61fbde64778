/*
 * help: print help, wrapped to the terminal (at most 100 columns) or to 80 columns.
 *
 * In the texts of the program a line that is long goes on in the next one. A shorter line ends a paragraph. A line that
 * begins with spaces is an example, and stays as it is; if it has two columns, a word and what it means, the second one
 * is wrapped.
 */
#ifndef JR_HELP_H
#define JR_HELP_H

#include <stdio.h>

#include "base/base.h"

/* Lines, each with its end. */
void jr_help_text(FILE *out, const char *text);

/* A line for each usage in `text`, where " | " is between them: "usage: COMMAND ...", and below that "COMMAND ...". */
void jr_help_usage(FILE *out, const char *command, const char *text);

/* The first of the usages in `text`. Free it. */
char *jr_help_first_usage(const char *text);

/* `left`, and `text` beginning in `column`; on a narrow terminal below it. */
void jr_help_item(FILE *out, const char *left, size_t column, const char *text);

#endif
