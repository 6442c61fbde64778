/*
 * pg_array: array parameters as the text that PostgreSQL reads ('{1,2,NULL}', '{"a","b \"c\""}').
 *
 * An array is built item by item. Its length is bounded by the number of runs in one statement and by the limits of
 * their texts. Format: PostgreSQL manual, "Arrays: Array Input and Output Syntax".
 */
#ifndef JR_PG_ARRAY_H
#define JR_PG_ARRAY_H

#include "base/buf.h"

struct jr_pg_array {
	struct jr_buf text; /* without the closing brace until jr_pg_array_end */
};

void jr_pg_array_init(struct jr_pg_array *array);
void jr_pg_array_add(struct jr_pg_array *array, const char *item); /* NULL is NULL */
void jr_pg_array_add_int(struct jr_pg_array *array, int64_t item);
void jr_pg_array_add_null(struct jr_pg_array *array);
const char *jr_pg_array_end(struct jr_pg_array *array); /* the literal; borrowed until release */
void jr_pg_array_release(struct jr_pg_array *array);

/* A text[] literal of `count` strings. Caller frees. */
char *jr_pg_array_of(const char *const *items, size_t count) JR_MUST;
char *jr_pg_array_or_null(const char *const *items, size_t count) JR_MUST; /* NULL when there is none */

#endif
