/*
 * pg_array: see pg_array.h. Every string is quoted; inside quotes only the quote and the backslash are special.
 */
#include "pg/pg_array.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* Room for the texts of JR_PERMITS_MAX runs with escapes. The callers bound the size of an item. */
#define ARRAY_MAX ((size_t)JR_PERMITS_MAX * (JR_OUTPUT_HEAD + JR_OUTPUT_TAIL) * 2)

void
jr_pg_array_init(struct jr_pg_array *array)
{
	jr_buf_init(&array->text, ARRAY_MAX);
	jr_buf_addc(&array->text, '{');
}

static void
separate(struct jr_pg_array *array)
{
	if (array->text.len > 1)
		jr_buf_addc(&array->text, ',');
}

void
jr_pg_array_add(struct jr_pg_array *array, const char *item)
{
	if (item == NULL) {
		jr_pg_array_add_null(array);
		return;
	}
	separate(array);
	jr_buf_addc(&array->text, '"');
	while (*item != '\0') {
		size_t plain = strcspn(item, "\"\\");

		jr_buf_add(&array->text, item, plain);
		item += plain;
		if (*item != '\0') {
			jr_buf_addc(&array->text, '\\');
			jr_buf_addc(&array->text, *item++);
		}
	}
	jr_buf_addc(&array->text, '"');
}

void
jr_pg_array_add_int(struct jr_pg_array *array, int64_t item)
{
	separate(array);
	jr_buf_addi(&array->text, item);
}

void
jr_pg_array_add_null(struct jr_pg_array *array)
{
	separate(array);
	jr_buf_adds(&array->text, "NULL");
}

const char *
jr_pg_array_end(struct jr_pg_array *array)
{
	jr_buf_addc(&array->text, '}');
	assert(!array->text.overflow);
	return array->text.data;
}

void
jr_pg_array_release(struct jr_pg_array *array)
{
	jr_buf_release(&array->text);
}

char *
jr_pg_array_of(const char *const *items, size_t count)
{
	struct jr_pg_array array;
	char *copy;

	jr_pg_array_init(&array);
	for (size_t i = 0; i < count; i++)
		jr_pg_array_add(&array, items[i]);
	copy = jr_xstrdup(jr_pg_array_end(&array));
	jr_pg_array_release(&array);
	return copy;
}

char *
jr_pg_array_or_null(const char *const *items, size_t count)
{
	return count == 0 ? NULL : jr_pg_array_of(items, count);
}
