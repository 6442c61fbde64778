/*
 * types: see types.h.
 */
#include "types.h"

#include <stdlib.h>

#include "mem.h"
#include "options.h"

static bool
fail_unknown_type(const struct jr_handlers *handlers, const char *job_type, struct jr_err *err)
{
	const char **known = jr_xcalloc(handlers->count + 1, sizeof(char *));

	for (size_t i = 0; i < handlers->count; i++)
		known[i] = handlers->items[i].job_type;
	jr_fail_unknown(err, "job type on this host:", job_type, known, handlers->count,
	    "no handler of that name is in the handlers directory");
	free(known);
	return false;
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
