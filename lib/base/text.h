/*
 * text: make bytes from outside fit for a text column and for a terminal.
 *
 * jr_text_clean returns valid UTF-8 as PostgreSQL defines it (no NUL, no surrogates, no overlong forms, at most
 * U+10FFFF), no longer than asked for and cut on a character boundary. PostgreSQL accepts every such text.
 */
#ifndef JR_TEXT_H
#define JR_TEXT_H

#include "base/base.h"

/*
 * A copy of `len` bytes in which NUL and each byte that is not part of a valid character is U+FFFD, at most `max` bytes
 * long (not counting the terminator), ending at a character boundary. Caller frees. `max` of 0 gives "".
 */
char *jr_text_clean(const char *bytes, size_t len, size_t max) JR_MUST;

/*
 * A copy of `s` that is safe on a terminal: C0 and C1 controls and DEL become \xNN, bidirectional and line separator
 * controls (U+061C, U+200E, U+200F, U+2028..U+202E, U+2066..U+2069) become \u{NNNN}, invalid bytes \xNN. With
 * `keep_lines`, newline and tab stay. Caller frees.
 */
char *jr_text_visible(const char *s, bool keep_lines) JR_MUST;

/* The same for bytes, NUL among them. */
char *jr_text_visible_bytes(const char *s, size_t len, bool keep_lines) JR_MUST;

/*
 * The same for a JSON document, which keeps its meaning: such characters can stand only in its strings, and become
 * \uNNNN there. Newlines and tabs between its members stay. Caller frees.
 */
char *jr_text_visible_json(const char *json) JR_MUST;

/* A JSON document without the blanks and newlines between its tokens. Caller frees. */
char *jr_text_compact_json(const char *json) JR_MUST;

/* The last line of `s` that is not blank, cleaned, at most `max` bytes; "" if there is none. Caller frees. */
char *jr_text_last_line(const char *s, size_t max) JR_MUST;

/*
 * The known word nearest to `word` by edit distance, for "did you mean"; NULL if none is near: one edit for every
 * three letters of the shorter of the two, rounded; none for one or two letters. Capitals count as small letters.
 * Borrowed from `words`.
 */
const char *jr_text_nearest(const char *word, const char *const *words, size_t count) JR_MUST;

/* The number of bytes of bytes[0..len) without an incomplete character at the end. */
size_t jr_text_whole(const char *bytes, size_t len) JR_MUST;

/* The length of a byte order mark at the start of a file: 3, or 0. Readers of JSON may ignore one (RFC 8259, 8.1). */
size_t jr_text_mark(const char *bytes, size_t len) JR_MUST;

/* What makes a noun of a regular plural: "" for 1, else "s". */
const char *jr_text_plural(int64_t count);

/* strlen, or 0 for NULL. */
size_t jr_text_size(const char *s) JR_MUST;

#endif
