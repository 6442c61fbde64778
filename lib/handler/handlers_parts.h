/*
 * handlers_parts: shared by the files of handlers; no other file includes it. A file calls only functions of the files
 * above it in this list.
 *
 *	handlers_list.c      the list of handlers and problems, and look-ups in it
 *	handlers_judge.c     which files of the directory are handlers
 *	handlers_command.c   a command line as a handler
 *	handlers.c           the directory
 */
#ifndef JR_HANDLERS_PARTS_H
#define JR_HANDLERS_PARTS_H

#include "handler/handlers.h"

/* Append a handler to items, still without a kind. `name` is its file; NULL: built-in. Returns it, borrowed. */
struct jr_handler *jr_handlers_add(struct jr_handlers *handlers, const char *job_type, const char *name) JR_MUST;
void jr_handlers_drop(struct jr_handlers *handlers);                    /* the last one */
void jr_handlers_add_problem(struct jr_handlers *handlers, char *line); /* takes `line` */
void jr_handlers_sort(struct jr_handlers *handlers);                    /* after the last add */

/* Is it a hidden file, or one that editors and package managers leave behind? */
bool jr_handlers_is_passed_over(const char *name) JR_MUST;

/*
 * Judge the files of the directory; `names` are in any order. Adds each handler to the list, and a problem for each
 * file that looks like a handler but cannot be used.
 */
void jr_handlers_judge(struct jr_handlers *handlers, char *const *names, size_t count);

#endif
