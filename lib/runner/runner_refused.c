/*
 * runner_refused: handlers that this runner may not start any more, although their files were good when it read the
 * directory: one is gone, or others can write to it. See runner_parts.h.
 *
 * Such a host does not have the job type. So the runs that were claimed are given back uncharged, and those that are
 * due are left to others, as if the file had been so when the runner read the directory. While runs of the type are
 * due, the runner looks whether the file is good again, at most once in AGAIN_MS.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define AGAIN_MS 1000

static size_t
index_of(const struct jr_runner *runner, const struct jr_handler *handler)
{
	return (size_t)(handler - runner->opts->handlers->items);
}

static bool
may_start(const struct jr_handler *handler, struct jr_err *err)
{
	return handler->kind->may_start == NULL || handler->kind->may_start(handler, err);
}

bool
jr_refused_may_start(struct jr_runner *runner, const struct jr_handler *handler, struct jr_err *err)
{
	const struct jr_runner_opts *opts = runner->opts;
	struct jr_refused *part = &runner->refused;
	int64_t *again_ms;

	if (may_start(handler, err))
		return true;
	if (part->again_ms == NULL)
		part->again_ms = jr_xcalloc(opts->handlers->count, sizeof(*part->again_ms));
	again_ms = &part->again_ms[index_of(runner, handler)];
	if (*again_ms == 0) {
		part->count++;
		if (opts->refused != NULL)
			opts->refused(opts->ctx, err->msg);
	}
	*again_ms = jr_clock_after(jr_clock_now_ms(), AGAIN_MS);
	return false;
}

bool
jr_refused_has(const struct jr_runner *runner, const struct jr_handler *handler)
{
	int64_t now_ms = jr_clock_now_ms(), *again_ms = NULL;
	struct jr_err err;

	if (runner->refused.again_ms != NULL)
		again_ms = &runner->refused.again_ms[index_of(runner, handler)];
	if (again_ms == NULL || *again_ms == 0)
		return false;
	if (now_ms >= *again_ms)
		*again_ms = may_start(handler, &err) ? 0 : jr_clock_after(now_ms, AGAIN_MS);
	return *again_ms != 0;
}

int64_t
jr_refused_count(const struct jr_runner *runner)
{
	return runner->refused.count;
}

void
jr_refused_close(struct jr_runner *runner)
{
	free(runner->refused.again_ms);
}
