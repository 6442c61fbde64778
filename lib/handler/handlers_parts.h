/*
 * handlers_parts: what the files of handlers share; nobody else includes it.
 */
#ifndef JR_HANDLERS_PARTS_H
#define JR_HANDLERS_PARTS_H

#include "handler/handlers.h"

/*
 * Judge the files of the directory, `names` in the order of strcmp: each that is a handler goes to handlers->items, each
 * that is not used though it looks as if it should be has a line in handlers->problems.
 */
void jr_handlers_judge(struct jr_handlers *handlers, char *const *names, size_t count);

/* A handler at the end of items, still without a kind; its file is `name` (NULL: built-in). Borrowed. */
struct jr_handler *jr_handlers_add(struct jr_handlers *handlers, const char *job_type, const char *name) JR_MUST;
void jr_handlers_drop(struct jr_handlers *handlers); /* the last one */

#endif
