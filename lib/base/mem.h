/*
 * mem: allocation that does not fail.
 *
 * Out of memory ends the process with a line on stderr (abort): the lease makes that safe for the runs it held and the
 * watchdog kills its handlers. None of these returns NULL. Release with free().
 */
#ifndef JR_MEM_H
#define JR_MEM_H

#include "base/base.h"

void *jr_xmalloc(size_t size) JR_MUST;
void *jr_xcalloc(size_t count, size_t size) JR_MUST;
void *jr_xrealloc(void *p, size_t count, size_t size) JR_MUST; /* count * size is checked for overflow */
char *jr_xstrdup(const char *s) JR_MUST;
void jr_strings_free(char **strings);                 /* and each of them; NULL-terminated, NULL is fine */
char *jr_xstrdup_or_null(const char *s) JR_MUST;      /* NULL for NULL */
char *jr_xmemdup0(const char *s, size_t len) JR_MUST; /* len bytes and a terminator */
char *jr_xasprintf(const char *fmt, ...) JR_PRINTF(1, 2) JR_MUST;

#endif
