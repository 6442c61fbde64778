/*
 * document: JSON output for people and programs, made from texts that may contain any bytes.
 *
 * Each function takes over the reference `value`. Out of memory ends the program, as in mem.h.
 */
#ifndef JR_DOCUMENT_H
#define JR_DOCUMENT_H

#include <jansson.h>

/* jansson accepts only valid UTF-8, but file names may contain any bytes. Long texts are truncated. */
json_t *jr_document_string(const char *text, size_t len);

void jr_document_set(json_t *object, const char *name, json_t *value);
void jr_document_set_text(json_t *object, const char *name, const char *text); /* NULL: the member is left out */
void jr_document_append(json_t *array, json_t *value);

/* A list of the items, each up to the first byte that is in `end`. */
json_t *jr_document_list(char *const *items, size_t count, const char *end);

#endif
