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

/* `left`, and the usages in `text`: where they do not fit one line, none of them is broken. */
void jr_help_usage(FILE *out, const char *left, const char *text);

/* `left`, and `text` beginning in `column`; on a narrow terminal below it. */
void jr_help_item(FILE *out, const char *left, size_t column, const char *text);

#endif
