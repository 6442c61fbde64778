/*
 * handlers_list: the handlers of the directory, and the problems with files that cannot be used.
 *
 * What must hold: after jr_handlers_sort, `items` is in the order that jr_handlers_find needs, and `problems` is in the
 * same order on every host.
 */
#include "handler/handlers_parts.h"

#include "base/mem.h"
#include "handler/trust.h"
#include "process/isolate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct jr_handler *
jr_handlers_add(struct jr_handlers *handlers, const char *job_type, const char *name)
{
	struct jr_handler *handler;

	handlers->items = jr_xrealloc(handlers->items, handlers->count + 1, sizeof(*handlers->items));
	handler = &handlers->items[handlers->count++];
	*handler = (struct jr_handler){
	    .job_type = jr_xstrdup(job_type),
	    .path = name != NULL ? jr_xasprintf("%s/%s", handlers->directory, name) : NULL,
	    .directory = jr_xstrdup(handlers->directory),
	    .trust = jr_trust_new(),
	};
	jr_settings_init(&handler->settings);
	return handler;
}

void
jr_handlers_drop(struct jr_handlers *handlers)
{
	struct jr_handler *handler = &handlers->items[--handlers->count];

	free(handler->job_type);
	free(handler->path);
	free(handler->settings_path);
	free(handler->directory);
	free(handler->sql);
	jr_isolation_free(handler->isolation);
	jr_trust_free(handler->trust);
	jr_settings_release(&handler->settings);
}

void
jr_handlers_add_problem(struct jr_handlers *handlers, char *line)
{
	handlers->problems = jr_xrealloc(handlers->problems, handlers->problem_count + 1, sizeof(*handlers->problems));
	handlers->problems[handlers->problem_count++] = line;
}

static int
compare_handlers(const void *a, const void *b)
{
	return strcmp(((const struct jr_handler *)a)->job_type, ((const struct jr_handler *)b)->job_type);
}

static int
compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void
jr_handlers_sort(struct jr_handlers *handlers)
{
	if (handlers->count > 0)
		qsort(handlers->items, handlers->count, sizeof(*handlers->items), compare_handlers);
	if (handlers->problem_count > 0)
		qsort(handlers->problems, handlers->problem_count, sizeof(*handlers->problems), compare_lines);
}

void
jr_handlers_release(struct jr_handlers *handlers)
{
	while (handlers->count > 0)
		jr_handlers_drop(handlers);
	free(handlers->items);
	free(handlers->directory);
	for (size_t i = 0; i < handlers->problem_count; i++)
		free(handlers->problems[i]);
	free(handlers->problems);
	*handlers = (struct jr_handlers){0};
}

const struct jr_handler *
jr_handlers_find(const struct jr_handlers *handlers, const char *job_type)
{
	size_t low = 0, high = handlers->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(job_type, handlers->items[middle].job_type);

		if (order == 0)
			return &handlers->items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* A line begins with the file's name: the job type, with or without an ending. */
bool
jr_handlers_is_about(const char *line, const char *job_type)
{
	static const char *const endings[] = {":", ".sql:", ".json:"};
	size_t len = strlen(job_type);

	if (strncasecmp(line, job_type, len) != 0)
		return false;
	for (size_t i = 0; i < JR_COUNT(endings); i++) {
		if (strncmp(line + len, endings[i], strlen(endings[i])) == 0)
			return true;
	}
	return false;
}

const char *
jr_handlers_problem_of(const struct jr_handlers *handlers, const char *job_type)
{
	for (size_t i = 0; i < handlers->problem_count; i++) {
		if (jr_handlers_is_about(handlers->problems[i], job_type))
			return handlers->problems[i];
	}
	return NULL;
}

bool
jr_handlers_check(const struct jr_handlers *handlers, struct jr_err *err)
{
	for (size_t i = 0; i < handlers->count; i++) {
		if (handlers->items[i].path != NULL)
			return true;
	}
	if (handlers->problem_count > 0)
		return jr_fail(err, JR_E_CONFIG, "%s", handlers->problems[0]);
	return jr_fail(err, JR_E_CONFIG,
	    "no handler is in %s: put an executable file, a .sql or a .json there, named after its job type",
	    handlers->directory);
}
