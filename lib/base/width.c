/* width: see width.h. */
#include "base/width.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/mem.h"

/* Bytes of the next character of text[0..len), len > 0; its columns in *columns. */
static size_t
next_character(const char *text, size_t len, mbstate_t *state, size_t *columns)
{
	wchar_t c = 0;
	size_t bytes = mbrtowc(&c, text, len, state);
	int width;

	*columns = 1;
	if (bytes == 0 || bytes > len) { /* no character, or half of one */
		memset(state, 0, sizeof(*state));
		return 1;
	}
	width = wcwidth(c);
	if (width >= 0)
		*columns = (size_t)width;
	return bytes;
}

/* The columns of text[0..len). */
static size_t
width_of(const char *text, size_t len)
{
	mbstate_t state = {0};
	size_t sum = 0, columns;

	for (size_t i = 0; i < len;) {
		i += next_character(text + i, len - i, &state, &columns);
		sum += columns;
	}
	return sum;
}

size_t
jr_width(const char *text)
{
	return width_of(text, strlen(text));
}

char *
jr_width_cut(const char *text, size_t max, const char *mark)
{
	size_t len = strlen(text), room = jr_width(mark), used = 0, end = 0, columns;
	mbstate_t state = {0};
	char *start, *cut;

	if (width_of(text, len) <= max)
		return jr_xstrdup(text);
	if (room > max) {
		mark = "";
		room = 0;
	}
	while (end < len) {
		size_t bytes = next_character(text + end, len - end, &state, &columns);

		if (used + columns > max - room)
			break;
		used += columns;
		end += bytes;
	}
	start = jr_xmemdup0(text, end);
	cut = jr_xasprintf("%s%s", start, mark);
	free(start);
	return cut;
}

/* The length of the first word: up to a space, or if it opens with a quote, up to the space behind its end. */
static size_t
word_length(const char *text)
{
	size_t open = strspn(text, "(["), len = strcspn(text, " ");

	if (text[open] == '\'') {
		const char *close = strchr(text + open + 1, '\'');

		while (close != NULL && isalnum((unsigned char)close[1]))
			close = strchr(close + 1, '\'');
		if (close != NULL && close > text + len)
			len = (size_t)(close - text) + strcspn(close, " ");
	}
	return len;
}

size_t
jr_width_line(const char *text, size_t max, const char **next)
{
	size_t end = word_length(text), begin;

	for (;;) {
		begin = end + strspn(text + end, " ");
		if (text[begin] == '\0')
			break;
		if (width_of(text, begin + word_length(text + begin)) > max)
			break;
		end = begin + word_length(text + begin);
	}
	*next = text + begin;
	return end;
}
