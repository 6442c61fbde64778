/*
 * sql_scan: see sql_scan.h.
 *
 * A lexer reads one token after the other. A quoted text or a dollar quote is one token, and comments are skipped, so
 * their contents do not count. A semicolon ends the statement unless it is in parentheses (CREATE RULE) or in the body
 * of a CREATE FUNCTION ... BEGIN ATOMIC. The END of that body is found by counting CASE and END, as psql does. What
 * must hold: no byte after `end` is read.
 *
 * Source: PostgreSQL manual, "Lexical Structure"; psqlscan.l of its sources.
 */
#include "handler/sql_scan.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The key words that the scan needs, as constants K_... and as text. */
/* clang-format off */
#define KEY_WORDS(X) X(ABORT) X(AS) X(ATOMIC) X(BEGIN) X(CASE) X(COMMIT) X(COPY) X(CREATE) X(END) X(PREPARE) \
	X(RELEASE) X(ROLLBACK) X(SAVEPOINT) X(START) X(TRANSACTION)
#define KEY_WORD_CONSTANT(word) K_##word,
#define KEY_WORD_TEXT(word) #word,

enum key_word {
	KEY_WORDS(KEY_WORD_CONSTANT) K_OTHER
};
/* clang-format on */

enum token {
	NOTHING, /* the end of the text */
	WORD,
	SEMICOLON,
	OPEN, /* a parenthesis */
	CLOSE,
	DOT,
	OTHER
};

struct scan {
	const char *text, *at, *end;
	const char *token;   /* where the last token begins */
	enum key_word word;  /* the last token, if it was a WORD */
	enum key_word first; /* the first word of the statement */
	size_t words;        /* the number of words so far */
	int parentheses, bodies;
	bool is_label;  /* the last token was a point or AS, so the next word is a name */
	bool was_begin; /* the last token was BEGIN */
	struct jr_err *err;
};

/* Fail with the line and column of `at`. Always false. */
static bool
refuse(const struct scan *s, const char *at, const char *why)
{
	size_t line = 1, column = 1;

	for (const char *c = s->text; c < at; c++) {
		if (*c == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)*c & 0xC0) != 0x80) {
			column++;
		}
	}
	return jr_fail(s->err, JR_E_CONFIG, "%zu:%zu: %s", line, column, why);
}

static bool
begins(const struct scan *s, const char *with)
{
	size_t len = strlen(with);

	return (size_t)(s->end - s->at) >= len && memcmp(s->at, with, len) == 0;
}

static bool
is_word_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || ((unsigned char)c & 0x80) != 0;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word_rest(char c)
{
	return is_word_start(c) || is_digit(c) || c == '$';
}

static bool
is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Block comments nest. */
static bool
skip_block_comment(struct scan *s)
{
	const char *begin = s->at;
	size_t depth = 0;

	while (s->at < s->end) {
		if (begins(s, "/*"))
			depth++;
		else if (begins(s, "*/"))
			depth--;
		else {
			s->at++;
			continue;
		}
		s->at += 2;
		if (depth == 0)
			return true;
	}
	return refuse(s, begin, "this comment has no end");
}

static bool
skip_blanks(struct scan *s)
{
	while (s->at < s->end) {
		if (is_blank(*s->at)) {
			s->at++;
		} else if (begins(s, "--")) {
			while (s->at < s->end && *s->at != '\n' && *s->at != '\r')
				s->at++;
		} else if (begins(s, "/*")) {
			if (!skip_block_comment(s))
				return false;
		} else {
			break;
		}
	}
	return true;
}

/* Move from the opening quote to after the closing one. A doubled quote is part of the text. */
static bool
skip_quoted(struct scan *s, bool backslashes)
{
	const char *begin = s->at;
	char quote = *s->at++;

	for (; s->at < s->end; s->at++) {
		if (*s->at == quote) {
			s->at++;
			if (s->at == s->end || *s->at != quote)
				return true;
		} else if (*s->at == '\\' && backslashes && s->at + 1 < s->end) {
			s->at++;
		}
	}
	return refuse(s, begin, "this quote has no end");
}

/* $$ or $tag$: move to after its second occurrence. For $1 or a single $, move one byte. */
static bool
skip_dollar(struct scan *s)
{
	const char *begin = s->at++, *found;
	size_t len;

	if (s->at < s->end && is_word_start(*s->at)) {
		while (s->at < s->end && is_word_rest(*s->at) && *s->at != '$')
			s->at++;
	}
	if (s->at == s->end || *s->at != '$') {
		s->at = begin + 1;
		return true;
	}
	s->at++;
	len = (size_t)(s->at - begin);
	found = memmem(s->at, (size_t)(s->end - s->at), begin, len);
	if (found == NULL)
		return refuse(s, begin, "this dollar quote has no end");
	s->at = found + len;
	return true;
}

/* Does an E'' string continue on the next line? If so, move to its quote. */
static bool
goes_on(struct scan *s)
{
	const char *at = s->at;
	bool is_next_line = false;

	for (; at < s->end && is_blank(*at); at++)
		is_next_line = is_next_line || *at == '\n' || *at == '\r';
	if (!is_next_line || at == s->end || *at != '\'')
		return false;
	s->at = at;
	return true;
}

static enum key_word
key_word_of(const char *text, size_t len)
{
	static const char *const words[] = {KEY_WORDS(KEY_WORD_TEXT)};

	for (size_t i = 0; i < JR_COUNT(words); i++) {
		if (strlen(words[i]) == len && strncasecmp(words[i], text, len) == 0)
			return (enum key_word)i;
	}
	return K_OTHER;
}

/* A word, or an E'' string. */
static bool
read_word(struct scan *s, enum token *token)
{
	size_t len;

	while (s->at < s->end && is_word_rest(*s->at))
		s->at++;
	len = (size_t)(s->at - s->token);
	if (len == 1 && s->at < s->end && *s->at == '\'' && strchr("eE", *s->token) != NULL) {
		*token = OTHER;
		do {
			if (!skip_quoted(s, true))
				return false;
		} while (goes_on(s));
		return true;
	}
	*token = WORD;
	s->word = key_word_of(s->token, len);
	return true;
}

/* A number. Letters right after it do not make a word. */
static void
skip_number(struct scan *s)
{
	while (s->at < s->end && (is_word_start(*s->at) || is_digit(*s->at) || *s->at == '.'))
		s->at++;
}

static enum token
token_of(char c)
{
	return c == ';' ? SEMICOLON : c == '(' ? OPEN : c == ')' ? CLOSE : c == '.' ? DOT : OTHER;
}

static bool
next(struct scan *s, enum token *token)
{
	if (!skip_blanks(s))
		return false;
	s->token = s->at;
	*token = s->at < s->end ? OTHER : NOTHING;
	if (*token == NOTHING)
		return true;
	if (is_word_start(*s->at))
		return read_word(s, token);
	if (*s->at == '\'' || *s->at == '"')
		return skip_quoted(s, false);
	if (*s->at == '$')
		return skip_dollar(s);
	if (is_digit(*s->at)) {
		skip_number(s);
		return true;
	}
	*token = token_of(*s->at++);
	return true;
}

/* Why a handler may not begin with this word; NULL: it may. */
static const char *
problem_of_first(enum key_word word)
{
	static const char *const problems[] = {
	    [K_ABORT] = "leave out ABORT; to undo what it did, raise an error",
	    [K_BEGIN] = "leave out BEGIN",
	    [K_COMMIT] = "leave out COMMIT",
	    [K_END] = "leave out END",
	    [K_RELEASE] = "leave out RELEASE",
	    [K_ROLLBACK] = "leave out ROLLBACK; to undo what it did, raise an error",
	    [K_SAVEPOINT] = "leave out SAVEPOINT; a DO block can catch errors",
	    [K_START] = "leave out START TRANSACTION",
	    [K_OTHER] = NULL,
	};

	return problems[word];
}

/* Count the bodies of BEGIN ATOMIC ... END. Inside them, CASE has an END too. */
static void
count_bodies(struct scan *s)
{
	if (s->bodies == 0 && s->first == K_CREATE && s->was_begin && s->word == K_ATOMIC)
		s->bodies = 1;
	else if (s->bodies > 0 && s->word == K_CASE)
		s->bodies++;
	else if (s->bodies > 0 && s->word == K_END)
		s->bodies--;
}

static bool
refuse_transaction(const struct scan *s, const char *advice)
{
	char why[200];

	(void)snprintf(why, sizeof(why), "a handler runs inside jobrun's transaction: %s", advice);
	return refuse(s, s->token, why);
}

/* A word after a point or AS is a name. */
static bool
take_word(struct scan *s)
{
	bool is_name = s->is_label;

	s->words++;
	if (s->words == 1) {
		s->first = s->word;
		if (s->word == K_COPY)
			return refuse(s, s->token,
			    "COPY moves rows between client and server, and there is no client here: write INSERT or SELECT");
		if (problem_of_first(s->word) != NULL)
			return refuse_transaction(s, problem_of_first(s->word));
	}
	if (s->words == 2 && s->first == K_PREPARE && s->word == K_TRANSACTION)
		return refuse_transaction(s, "leave out PREPARE TRANSACTION");
	if (!is_name)
		count_bodies(s);
	s->was_begin = !is_name && s->word == K_BEGIN;
	s->is_label = !is_name && s->word == K_AS;
	return true;
}

/* Read a statement to its end. *found: there is one. */
static bool
take_statement(struct scan *s, bool *found)
{
	enum token token;

	*found = false;
	for (;;) {
		if (!next(s, &token))
			return false;
		if (token == NOTHING)
			break;
		if (token == SEMICOLON && s->parentheses == 0 && s->bodies == 0) {
			if (*found)
				break;
			continue;
		}
		*found = true;
		if (token == WORD) {
			if (!take_word(s))
				return false;
			continue;
		}
		if (token == OPEN)
			s->parentheses++;
		else if (token == CLOSE && s->parentheses > 0)
			s->parentheses--;
		s->was_begin = false;
		s->is_label = token == DOT;
	}
	return true;
}

bool
jr_handler_sql_scan(const char *text, size_t len, struct jr_err *err)
{
	struct scan s = {.text = text, .at = text, .end = text + len, .err = err};
	const char *nul = memchr(text, '\0', len);
	enum token token = SEMICOLON;
	bool found;

	if (nul != NULL)
		return refuse(&s, nul, "the text contains a NUL byte");
	if (!take_statement(&s, &found))
		return false;
	if (!found)
		return refuse(&s, text, "there is no statement in it");
	while (token == SEMICOLON) {
		if (!next(&s, &token))
			return false;
	}
	if (token != NOTHING)
		return refuse(&s, s.token,
		    "a second statement begins here, but a handler has only one: put several into a function, a DO block or WITH");
	return true;
}
