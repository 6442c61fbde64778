/*
 * mem: allocation that does not fail.
 *
 * A program that cannot allocate a few bytes cannot report it to the database either. It writes one line from fixed
 * storage and aborts. What must hold: no function returns NULL, and no multiplication of sizes overflows.
 */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static JR_NORETURN void
out_of_memory(void)
{
	static const char line[] = "jobrun: out of memory\n";
	ssize_t written = write(STDERR_FILENO, line, sizeof(line) - 1);

	(void)written; /* nothing else can be done */
	abort();
}

void *
jr_xmalloc(size_t size)
{
	void *p = malloc(size > 0 ? size : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *
jr_xcalloc(size_t count, size_t size)
{
	void *p = calloc(count > 0 ? count : 1, size > 0 ? size : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *
jr_xrealloc(void *p, size_t count, size_t size)
{
	size_t bytes;
	void *grown;

	if (__builtin_mul_overflow(count, size, &bytes))
		out_of_memory();
	grown = realloc(p, bytes > 0 ? bytes : 1);
	if (grown == NULL)
		out_of_memory();
	return grown;
}

char *
jr_xstrdup(const char *s)
{
	return jr_xmemdup0(s, strlen(s));
}

char *
jr_xstrdup_or_null(const char *s)
{
	return s != NULL ? jr_xstrdup(s) : NULL;
}

char *
jr_xmemdup0(const char *s, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		out_of_memory();
	copy = jr_xmalloc(len + 1);
	if (len > 0)
		memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *
jr_xasprintf(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = jr_xvasprintf(fmt, args);
	va_end(args);
	return text;
}

char *
jr_xvasprintf(const char *fmt, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, args) < 0)
		out_of_memory();
	return text;
}

void
jr_strings_free(char **strings)
{
	for (size_t i = 0; strings != NULL && strings[i] != NULL; i++)
		free(strings[i]);
	free(strings);
}
