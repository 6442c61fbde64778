/*
 * document: JSON output for people and programs. See document.h.
 */
#include "handler/document.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* of one string */

json_t *
jr_document_string(const char *text, size_t len)
{
	char *bytes = jr_text_clean(text, len, TEXT_MAX);
	json_t *string = json_string(bytes);

	free(bytes);
	return string;
}

void
jr_document_set(json_t *object, const char *name, json_t *value)
{
	if (value == NULL || json_object_set_new(object, name, value) != 0)
		abort(); /* out of memory, as in mem.h */
}

void
jr_document_set_text(json_t *object, const char *name, const char *text)
{
	if (text != NULL)
		jr_document_set(object, name, jr_document_string(text, strlen(text)));
}

void
jr_document_append(json_t *array, json_t *value)
{
	if (value == NULL || json_array_append_new(array, value) != 0)
		abort();
}

json_t *
jr_document_list(char *const *items, size_t count, const char *end)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		jr_document_append(list, jr_document_string(items[i], strcspn(items[i], end)));
	return list;
}
