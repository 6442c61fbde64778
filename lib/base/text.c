/*
 * text: see text.h.
 *
 * `character` knows what PostgreSQL takes for a character of UTF-8 (the table of RFC 3629 without NUL). Every function
 * here rests on it. Invalid input is replaced byte by byte, so that an incomplete character never takes a byte of the
 * next one with it.
 */
#include "base/text.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define WORD_MAX 64                /* no suggestion for longer words */

static bool
is_continuation(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

/* The second byte tells overlong forms, surrogates and code points above U+10FFFF. */
static bool
is_second(unsigned char lead, unsigned char c)
{
	switch (lead) {
	case 0xE0:
		return c >= 0xA0 && c <= 0xBF;
	case 0xED:
		return c >= 0x80 && c <= 0x9F;
	case 0xF0:
		return c >= 0x90 && c <= 0xBF;
	case 0xF4:
		return c >= 0x80 && c <= 0x8F;
	default:
		return is_continuation(c);
	}
}

/* Length in bytes of the valid character at s, which has len > 0 bytes; 0 if there is none. */
static size_t
character(const unsigned char *s, size_t len)
{
	unsigned char lead = s[0];
	size_t need;

	if (lead < 0x80)
		return lead != 0 ? 1 : 0;
	if (lead < 0xC2 || lead > 0xF4)
		return 0;
	need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
	if (len < need || !is_second(lead, s[1]))
		return 0;
	for (size_t i = 2; i < need; i++)
		if (!is_continuation(s[i]))
			return 0;
	return need;
}

/* s is a valid character of len bytes. */
static uint32_t
code_point(const unsigned char *s, size_t len)
{
	static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
	uint32_t c = s[0] & mask[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3Fu);
	return c;
}

char *
jr_text_clean(const char *bytes, size_t len, size_t max)
{
	const unsigned char *s = (const unsigned char *)bytes;
	size_t size = len < max / 3 ? len * 3 : max;
	char *out = jr_xmalloc(size + 1);
	size_t used = 0;

	for (size_t i = 0; i < len;) {
		size_t take = character(s + i, len - i);
		const char *from = take > 0 ? bytes + i : REPLACEMENT;
		size_t add = take > 0 ? take : sizeof(REPLACEMENT) - 1;

		if (add > size - used)
			break;
		memcpy(out + used, from, add);
		used += add;
		i += take > 0 ? take : 1;
	}
	out[used] = '\0';
	return out;
}

/* Characters that change the direction of text or break a line without being control bytes. */
static bool
is_deceptive(uint32_t c)
{
	return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static bool
is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7F && c <= 0x9F);
}

char *
jr_text_visible_bytes(const char *s, size_t len, bool keep_lines)
{
	const unsigned char *at = (const unsigned char *)s;
	size_t size = len * 4 + 1; /* one byte becomes \xNN, three become \u{NNNN} */
	char *out = jr_xmalloc(size);
	size_t used = 0;

	for (size_t i = 0; i < len;) {
		size_t take = character(at + i, len - i);
		uint32_t c = take > 0 ? code_point(at + i, take) : at[i];
		bool kept = keep_lines && (c == '\n' || c == '\t');

		if (take > 0 && is_deceptive(c)) {
			used += (size_t)snprintf(out + used, size - used, "\\u{%04x}", c);
		} else if (take == 0 || (is_control(c) && !kept)) {
			used += (size_t)snprintf(out + used, size - used, "\\x%02x", c);
		} else {
			memcpy(out + used, s + i, take);
			used += take;
		}
		i += take > 0 ? take : 1;
	}
	out[used] = '\0';
	return out;
}

char *
jr_text_visible(const char *s, bool keep_lines)
{
	return jr_text_visible_bytes(s, strlen(s), keep_lines);
}

char *
jr_text_visible_json(const char *json)
{
	const unsigned char *at = (const unsigned char *)json;
	size_t len = strlen(json);
	size_t size = len * 6 + 1; /* one byte becomes \uNNNN */
	char *out = jr_xmalloc(size);
	size_t used = 0;

	for (size_t i = 0; i < len;) {
		size_t take = character(at + i, len - i);
		uint32_t c = take > 0 ? code_point(at + i, take) : 0xFFFD;

		if (take == 0 || is_deceptive(c) || (is_control(c) && c != '\n' && c != '\t')) {
			used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
		} else {
			memcpy(out + used, json + i, take);
			used += take;
		}
		i += take > 0 ? take : 1;
	}
	out[used] = '\0';
	return out;
}

char *
jr_text_compact_json(const char *json)
{
	char *out = jr_xmalloc(strlen(json) + 1);
	bool in_string = false;
	size_t used = 0;

	for (const char *p = json; *p != '\0'; p++) {
		if (!in_string && strchr(" \t\r\n", *p) != NULL)
			continue;
		out[used++] = *p;
		if (*p == '"')
			in_string = !in_string;
		else if (in_string && *p == '\\' && p[1] != '\0')
			out[used++] = *++p;
	}
	out[used] = '\0';
	return out;
}

size_t
jr_text_whole(const char *bytes, size_t len)
{
	size_t start = len;
	unsigned char lead;
	size_t need;

	while (start > 0 && len - start < 3 && ((unsigned char)bytes[start - 1] & 0xC0) == 0x80)
		start--;
	if (start == 0)
		return len;
	lead = (unsigned char)bytes[start - 1];
	need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
	return need > len - start + 1 ? start - 1 : len;
}

static bool
is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

char *
jr_text_last_line(const char *s, size_t max)
{
	size_t end = strlen(s);
	size_t start;

	while (end > 0 && is_blank(s[end - 1]))
		end--;
	start = end;
	while (start > 0 && s[start - 1] != '\n' && s[start - 1] != '\r') /* \r: a progress bar draws over itself */
		start--;
	while (start < end && is_blank(s[start]))
		start++;
	return jr_text_clean(s + start, end - start, max);
}

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Capitals count as small letters. */
static bool
is_same_letter(char a, char b)
{
	if (a >= 'A' && a <= 'Z')
		a = (char)(a - 'A' + 'a');
	if (b >= 'A' && b <= 'Z')
		b = (char)(b - 'A' + 'a');
	return a == b;
}

/* How many insertions, deletions, substitutions and swaps of neighbours turn a into b; both at most WORD_MAX long. */
static size_t
edit_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];
	size_t b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++) {
		before[j] = 0; /* not read in the first row */
		last[j] = j;
	}
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = last[j - 1] + !is_same_letter(a[i - 1], b[j - 1]);
			row[j] = least(row[j], least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && is_same_letter(a[i - 1], b[j - 2]) && is_same_letter(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[b_len];
}

/* The dashes before an option are the same in all of them. */
static size_t
letters_of(const char *word)
{
	return strlen(word + strspn(word, "-"));
}

/* After an edit a word of one or two letters has nothing in common with the other. */
static size_t
edits_of_near(const char *a, const char *b)
{
	size_t letters = least(letters_of(a), letters_of(b));

	return letters < 3 ? 0 : (letters + 1) / 3;
}

const char *
jr_text_nearest(const char *word, const char *const *words, size_t count)
{
	size_t best = WORD_MAX;
	const char *nearest = NULL;

	if (letters_of(word) == 0 || strlen(word) > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t distance;

		if (strlen(words[i]) > WORD_MAX)
			continue;
		distance = edit_distance(word, words[i]);
		if (distance < best && distance <= edits_of_near(word, words[i])) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

size_t
jr_text_mark(const char *bytes, size_t len)
{
	return len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

size_t
jr_text_size(const char *s)
{
	return s == NULL ? 0 : strlen(s);
}

const char *
jr_text_plural(int64_t count)
{
	return count == 1 ? "" : "s";
}
