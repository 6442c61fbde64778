/* help: see help.h. */
#include "help.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/width.h"
#include "print.h"
#include "terminal.h"

#define USAGE "usage: "
#define MOST_COLUMNS 100
#define PIPED_COLUMNS 80
#define LEAST_COLUMNS 30 /* for the text of an item, beside its left side */
#define NARROW_INDENT 8
#define LONG_LINE 80 /* in bytes; a line of a text that is as long goes on in the next one */

static size_t
columns_of(FILE *out)
{
	size_t columns = jr_print_is_terminal(out) ? jr_terminal_columns() : PIPED_COLUMNS;

	return columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
}

/* Print `text` from column `used` on, further lines from column `indent` on. */
static void
wrap(FILE *out, const char *text, size_t used, size_t indent)
{
	size_t columns = columns_of(out);

	while (*text != '\0') {
		const char *next;
		size_t len = jr_width_line(text, columns > used ? columns - used : 1, &next);

		fwrite(text, 1, len, out);
		if (*next != '\0')
			fprintf(out, "\n%*s", (int)indent, "");
		text = next;
		used = indent;
	}
	fputc('\n', out);
}

void
jr_help_item(FILE *out, const char *left, size_t column, const char *text)
{
	size_t len = strlen(left);

	if (columns_of(out) < column + LEAST_COLUMNS && column + jr_width(text) > columns_of(out)) {
		fprintf(out, "%s\n%*s", left, NARROW_INDENT, "");
		wrap(out, text, NARROW_INDENT, NARROW_INDENT);
		return;
	}
	fprintf(out, "%-*s", (int)column, left);
	if (len >= column)
		fputc(' ', out);
	wrap(out, text, len >= column ? len + 1 : column, column);
}

/* The length of `text` up to the first `end` outside of brackets. */
static size_t
length_before(const char *text, const char *end)
{
	int depth = 0;
	size_t len = 0;

	for (; text[len] != '\0'; len++) {
		depth += text[len] == '[';
		depth -= text[len] == ']';
		if (depth == 0 && strncmp(text + len, end, strlen(end)) == 0)
			return len;
	}
	return len;
}

/* One usage. Lines end between words, and no brackets are broken. */
static void
print_usage(FILE *out, const char *left, const char *usage)
{
	size_t indent = strlen(left), used = indent, len;

	fputs(left, out);
	for (; *usage != '\0'; usage += len + strspn(usage + len, " ")) {
		len = length_before(usage, " ");
		if (used > indent && used + 1 + len > columns_of(out)) {
			fprintf(out, "\n%*s", (int)indent, "");
			used = indent;
		}
		fprintf(out, " %.*s", (int)len, usage);
		used += 1 + len;
	}
	fputc('\n', out);
}

void
jr_help_usage(FILE *out, const char *command, const char *text)
{
	char *first = jr_xasprintf(USAGE "%s", command),
	     *further = jr_xasprintf("%*s%s", (int)strlen(USAGE), "", command);
	size_t len;

	for (const char *before = first; *text != '\0'; text += len, before = further) {
		char *usage;

		text += strspn(text, " |");
		len = length_before(text, " | ");
		usage = jr_xmemdup0(text, len);
		if (columns_of(out) < strlen(before) + LEAST_COLUMNS)
			jr_help_item(out, before, strlen(before) + 1, usage);
		else
			print_usage(out, before, usage);
		free(usage);
	}
	free(first);
	free(further);
}

char *
jr_help_first_usage(const char *text)
{
	return jr_xmemdup0(text, length_before(text, " | "));
}

/* A line that begins with spaces. */
static void
print_example(FILE *out, const char *line)
{
	size_t begin = strspn(line, " ");
	const char *gap = strstr(line + begin, "  ");
	char *left;

	if (gap == NULL) {
		fprintf(out, "%s\n", line);
		return;
	}
	left = jr_xmemdup0(line, (size_t)(gap - line));
	gap += strspn(gap, " ");
	jr_help_item(out, left, (size_t)(gap - line), gap);
	free(left);
}

/* The length of the paragraph that `text` begins with, without its last line end. */
static size_t
paragraph_length(const char *text)
{
	size_t len = strcspn(text, "\n"), line = len;

	while (line >= LONG_LINE && text[len] == '\n' && strchr(" \n", text[len + 1]) == NULL) {
		line = strcspn(text + len + 1, "\n");
		len += 1 + line;
	}
	return len;
}

void
jr_help_text(FILE *out, const char *text)
{
	while (*text != '\0') {
		size_t len = *text == ' ' ? strcspn(text, "\n") : paragraph_length(text);
		char *part = jr_xmemdup0(text, len);

		for (char *p = part; (p = strchr(p, '\n')) != NULL;)
			*p = ' ';
		if (*part == ' ')
			print_example(out, part);
		else
			wrap(out, part, 0, 0);
		free(part);
		text += len + (text[len] == '\n' ? 1 : 0);
	}
}
