/* here: see here.h. */
#include "here.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "handler/handlers.h"
#include "pg/pg_array.h"

static char *
types_of(const struct jr_handlers *handlers)
{
	const char **types = jr_xcalloc(handlers->count + 1, sizeof(char *));
	char *array;

	for (size_t i = 0; i < handlers->count; i++)
		types[i] = handlers->items[i].job_type;
	array = jr_pg_array_of(types, handlers->count);
	free(types);
	return array;
}

void
jr_here_read(struct jr_here *here)
{
	char *directory = jr_handlers_directory(NULL);
	struct jr_handlers handlers;
	struct jr_err unused;

	*here = (struct jr_here){.types = NULL};
	if (gethostname(here->host, sizeof(here->host) - 1) != 0 || here->host[0] == '\0')
		memcpy(here->host, "localhost", sizeof("localhost"));
	if (jr_handlers_load(&handlers, directory, &unused)) {
		here->types = types_of(&handlers);
		jr_handlers_release(&handlers);
	}
	free(directory);
}

void
jr_here_release(struct jr_here *here)
{
	free(here->types);
}
