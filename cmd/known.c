/*
 * known: see known.h.
 */
#include "known.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "handler/handlers.h"
#include "print.h"

/* Some names; `text` is their storage. */
struct names {
	const char **items;
	size_t count;
	char *text;
};

/* The lines of `lines`, and the handlers, which may be NULL. */
static struct names
collect(const char *lines, const struct jr_handlers *handlers)
{
	size_t most = 1 + (handlers == NULL ? 0 : handlers->count);
	struct names names = {.text = jr_xstrdup(lines)};

	for (const char *at = lines; *at != '\0'; at++)
		most += *at == '\n';
	names.items = jr_xcalloc(most, sizeof(*names.items));
	for (char *rest = names.text, *word; (word = strsep(&rest, "\n")) != NULL;) {
		if (*word != '\0')
			names.items[names.count++] = word;
	}
	for (size_t i = 0; handlers != NULL && i < handlers->count; i++)
		names.items[names.count++] = handlers->items[i].job_type;
	return names;
}

static void
release(struct names *names)
{
	free(names->items);
	free(names->text);
}

/* near: a name that is spelt nearly so, or NULL. Caller frees. */
static char *
add_near(const char *words, const char *near)
{
	return near == NULL ? jr_xstrdup(words) : jr_xasprintf("%s; did you mean %s?", words, near);
}

char *
jr_known_words(const char *words, const char *name, const char *others)
{
	struct names names = collect(others == NULL ? "" : others, NULL);
	char *all = add_near(words, others == NULL ? NULL : jr_text_nearest(name, names.items, names.count));

	release(&names);
	return all;
}

static void
warn(const char *words)
{
	fflush(stdout);
	jr_print_line(stderr, "jobrun: warning: ", words);
}

void
jr_known_warn(const char *what, const char *name, const char *others)
{
	char *text, *all;

	if (others == NULL)
		return;
	text = jr_xasprintf("%s %s is not known so far", what, name);
	all = jr_known_words(text, name, others);
	warn(all);
	free(all);
	free(text);
}

/* `handlers`: those of this host, NULL if there are none or they cannot be read. */
static void
warn_type(const char *type, const char *others, const struct jr_handlers *handlers, bool only_near)
{
	struct names names = collect(others, handlers);
	const char *near = jr_text_nearest(type, names.items, names.count);
	const char *problem = handlers == NULL ? NULL : jr_handlers_problem_of(handlers, type);
	char *text =
	    problem != NULL
		? jr_xasprintf("no host has a handler for %s; %s", type, problem)
		: jr_xasprintf("no host has a handler for %s (no runner of the last day, nor this host)", type);
	char *all = add_near(text, problem == NULL ? near : NULL);

	if (names.count > 0 && (near != NULL || !only_near))
		warn(all);
	free(all);
	free(text);
	release(&names);
}

void
jr_known_warn_type(const char *type, const char *others, bool only_near)
{
	struct jr_handlers handlers;
	struct jr_err unused;
	char *directory;

	if (others == NULL)
		return;
	directory = jr_handlers_directory(NULL);
	if (!jr_handlers_load(&handlers, directory, &unused))
		warn_type(type, others, NULL, only_near);
	else {
		if (jr_handlers_find(&handlers, type) == NULL)
			warn_type(type, others, &handlers, only_near);
		jr_handlers_release(&handlers);
	}
	free(directory);
}
