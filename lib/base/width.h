/*
 * width: how many columns text takes on a terminal, and text that is cut or wrapped to fit.
 *
 * Widths follow the locale that is set: wide characters (CJK) take two columns, combining ones none. What is no
 * character takes one column a byte. The text has no control characters; see jr_text_visible.
 */
#ifndef JR_BASE_WIDTH_H
#define JR_BASE_WIDTH_H

#include "base/base.h"

size_t jr_width(const char *text) JR_MUST;

/* `text`, or as much of it as fits with `mark` behind it into `max` columns. Caller frees. */
char *jr_width_cut(const char *text, size_t max, const char *mark) JR_MUST;

/*
 * The first line of `text`, wrapped to `max` columns: its length in bytes. *next is where the next line begins. A line
 * ends at a space, but not at one within 'single quotes', so that a command that is quoted stays whole. One word alone
 * may be wider than `max`.
 */
size_t jr_width_line(const char *text, size_t max, const char **next) JR_MUST;

#endif
