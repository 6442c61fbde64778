/*
 * handlers_parts: what the files of handlers share; nobody else includes it. Each calls only what stands above it.
 *
 *	handlers_list.c      the list of handlers and problems: to make it, and to look something up in it
 *	handlers_judge.c     which files of the directory are handlers
 *	handlers_command.c   a command line as a handler
 *	handlers.c           the directory
 */
#ifndef JR_HANDLERS_PARTS_H
#define JR_HANDLERS_PARTS_H

#include "handler/handlers.h"

/* A handler at the end of items, still without a kind; its file is `name` (NULL: built-in). Borrowed. */
struct jr_handler *jr_handlers_add(struct jr_handlers *handlers, const char *job_type, const char *name) JR_MUST;
void jr_handlers_drop(struct jr_handlers *handlers);                    /* the last one */
void jr_handlers_add_problem(struct jr_handlers *handlers, char *line); /* takes `line` */
void jr_handlers_sort(struct jr_handlers *handlers);                    /* when all has been added */

/* Is it a name that editors and packages leave behind? */
bool jr_handlers_is_passed_over(const char *name) JR_MUST;

/*
 * Judge the files of the directory, `names` in any order: each that is a handler is added to the list, each that is not
 * used though it looks as if it should be is a problem.
 */
void jr_handlers_judge(struct jr_handlers *handlers, char *const *names, size_t count);

#endif
