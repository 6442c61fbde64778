/*
 * logs_follow: see logs_follow.h.
 *
 * As long as nothing was dropped, the new text begins with the old one. After that the head stays and the tail moves
 * on, so the last piece of the old text is searched in the new one. In output that repeats itself the piece is in many
 * places. The right one is where the old text ended minus the bytes dropped since. That position is not exact, since
 * the line that counts the dropped bytes has appeared or grown, so the nearest place is taken.
 */
#include "logs_follow.h"

#include <string.h>

#define PIECE_MAX 1024

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* The last character may have been incomplete when the old text was read: up to three U+FFFD stand for its bytes. */
static size_t
without_cut_character(const char *text, size_t len)
{
	const size_t size = sizeof(replacement) - 1;

	for (int i = 0; i < 3 && len >= size && memcmp(text + len - size, replacement, size) == 0; i++)
		len -= size;
	return len;
}

/* Where the last piece of the text begins, on a character boundary. */
static size_t
piece_of(const char *text, size_t len)
{
	size_t start = len > PIECE_MAX ? len - PIECE_MAX : 0;

	while (start < len && ((unsigned char)text[start] & 0xc0) == 0x80)
		start++;
	return start;
}

static int64_t
distance(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

/* The end of the occurrence of `piece` that is nearest to `expected`; NULL if there is none. */
static const char *
nearest_end(const char *text, const char *piece, size_t len, int64_t expected)
{
	const char *best = NULL, *stop = text + strlen(text), *p = text;

	while ((p = memmem(p, (size_t)(stop - p), piece, len)) != NULL) {
		const char *end = p++ + len;

		if (best != NULL && distance(end - text, expected) >= distance(best - text, expected))
			break; /* all further ones are farther away */
		best = end;
	}
	return best;
}

const char *
jr_logs_follow_new(const char *old, const char *new, int64_t dropped, bool *gap)
{
	size_t len = strlen(old), start;
	const char *end;

	*gap = false;
	if (strncmp(new, old, len) == 0)
		return new + len;
	len = without_cut_character(old, len);
	if (strncmp(new, old, len) == 0)
		return new + len;
	start = piece_of(old, len);
	end = nearest_end(new, old + start, len - start, (int64_t)len - dropped);
	*gap = end == NULL && *new != '\0';
	return end != NULL ? end : new;
}
