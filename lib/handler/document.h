/*
 * document: JSON for people and programs to read, out of texts that may have any bytes.
 *
 * Each function takes the references in `value`. Without memory the program ends, as in mem.h.
 */
#ifndef JR_DOCUMENT_H
#define JR_DOCUMENT_H

#include <jansson.h>

/* jansson takes only valid UTF-8, and names of files may have any bytes; long texts are cut. */
json_t *jr_document_string(const char *text, size_t len);

void jr_document_set(json_t *object, const char *name, json_t *value);
void jr_document_set_text(json_t *object, const char *name, const char *text); /* NULL: the member is left out */
void jr_document_append(json_t *array, json_t *value);

/* A list of the items, each up to the first of the bytes of `end`. */
json_t *jr_document_list(char *const *items, size_t count, const char *end);

#endif
