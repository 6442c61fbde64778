/*
 * handlers_files: what tests of the handlers directory share: one of their own, with files, read.
 */
#ifndef JR_TEST_HANDLERS_FILES_H
#define JR_TEST_HANDLERS_FILES_H

#include "handler/handlers.h"
#include "processes.h"

#define SCRIPT "#!/bin/sh\nexit 0\n"

static int
set_up(void **state)
{
	*state = make_directory();
	return 0;
}

static int
tear_down(void **state)
{
	remove_directory(*state);
	return 0;
}

static inline void
add(const char *directory, const char *name, const char *text, mode_t mode)
{
	free(make_file(directory, name, text, mode));
}

static inline void
load(struct jr_handlers *handlers, const char *directory)
{
	struct jr_err err = {0};

	if (!jr_handlers_load(handlers, directory, &err))
		fail_msg("%s", err.msg);
}

/* A line of `problems` that begins with `name` and has `text` in it. */
static inline void
expect_problem(const struct jr_handlers *handlers, const char *name, const char *text)
{
	for (size_t i = 0; i < handlers->problem_count; i++) {
		const char *line = handlers->problems[i];

		if (strncmp(line, name, strlen(name)) == 0 && strstr(line, text) != NULL)
			return;
	}
	fail_msg("no problem \"%s: %s\" (of %zu)", name, text, handlers->problem_count);
}

#endif
