/*
 * types: see types.h.
 */
#include "types.h"

#include <stdlib.h>

#include "base/mem.h"
#include "options.h"

static bool
fail_unknown_type(const struct jr_handlers *handlers, const char *job_type, struct jr_err *err)
{
	const char **known = jr_xcalloc(handlers->count + 1, sizeof(char *));
	struct jr_err near;

	for (size_t i = 0; i < handlers->count; i++)
		known[i] = handlers->items[i].job_type;
	jr_fail_unknown(&near, "job type on this host:", job_type, known, handlers->count, "no handler has that name");
	free(known);
	return jr_fail(err, near.code, "%s (looked in %s; jobrun handlers lists them)", near.msg, handlers->directory);
}

bool
jr_types_check(const struct jr_handlers *handlers, const char *job_type, struct jr_err *err)
{
	const char *problem;

	if (jr_handlers_find(handlers, job_type) != NULL)
		return true;
	problem = jr_handlers_problem_of(handlers, job_type);
	if (problem != NULL)
		return jr_fail(err, JR_E_CONFIG, "%s", problem);
	return fail_unknown_type(handlers, job_type, err);
}
