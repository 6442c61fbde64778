/*
 * mem: allocation that does not fail.
 *
 * When memory runs out, the process writes a line to stderr and aborts. The runs it held go back to the queue when
 * their leases end, and the watchdog kills its handlers. None of these functions returns NULL. Release with free().
 */
#ifndef JR_MEM_H
#define JR_MEM_H

#include <stdarg.h>

#include "base/base.h"

void *jr_xmalloc(size_t size) JR_MUST;
void *jr_xcalloc(size_t count, size_t size) JR_MUST;
void *jr_xrealloc(void *p, size_t count, size_t size) JR_MUST; /* count * size is checked for overflow */
char *jr_xstrdup(const char *s) JR_MUST;
void jr_strings_free(char **strings);                 /* a NULL-terminated array and its strings; NULL is fine */
char *jr_xstrdup_or_null(const char *s) JR_MUST;      /* NULL for NULL */
char *jr_xmemdup0(const char *s, size_t len) JR_MUST; /* len bytes and a terminator */
char *jr_xasprintf(const char *fmt, ...) JR_PRINTF(1, 2) JR_MUST;
char *jr_xvasprintf(const char *fmt, va_list args) JR_PRINTF(1, 0) JR_MUST;

#endif
