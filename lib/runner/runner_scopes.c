/*
 * runner_scopes: what is claimed together, and the permits for it. See runner_parts.h.
 *
 * Permits of each kind are counted by themselves, exactly, among all runners of this user and database on the host:
 * three files of struct jr_permits. A batch of runs that is worked on together takes one permit, which is given back
 * when the last of them has left it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

/*
 * Those asked for with --type, else all; housekeeping always, or a host with --type in each line would never have it.
 */
static bool
is_wanted(const struct jr_runner_opts *opts, const struct jr_handler *handler)
{
	for (size_t i = 0; i < opts->type_count; i++) {
		if (strcmp(opts->types[i], handler->job_type) == 0)
			return true;
	}
	return opts->type_count == 0 || handler->kind->pool == JR_POOL_PRUNE;
}

char *
jr_scopes_types(const struct jr_runner_opts *opts)
{
	const char **types = jr_xcalloc(opts->handlers->count + 1, sizeof(char *));
	size_t count = 0;
	char *array;

	for (size_t i = 0; i < opts->handlers->count; i++) {
		const struct jr_handler *handler = &opts->handlers->items[i];

		if (is_wanted(opts, handler))
			types[count++] = handler->job_type;
	}
	array = jr_pg_array_of(types, count);
	free(types);
	return array;
}

char *
jr_scopes_queues(const struct jr_runner_opts *opts)
{
	const char **queues;
	char *array;

	if (opts->queue_count == 0)
		return NULL;
	queues = jr_xcalloc(opts->queue_count + 1, sizeof(char *));
	for (size_t i = 0; i < opts->queue_count; i++)
		queues[i] = opts->queues[i];
	queues[opts->queue_count] = JR_PRUNE_QUEUE;
	array = jr_pg_array_of(queues, opts->queue_count + 1);
	free(queues);
	return array;
}

static bool
is_batched(const struct jr_handler *handler)
{
	return handler->settings.batch > 0;
}

struct jr_scope *
jr_scopes_find(struct jr_runner *runner, const struct jr_handler *handler)
{
	const struct jr_handler *batched = is_batched(handler) ? handler : NULL;

	for (size_t i = 0; i < runner->scope_count; i++) {
		struct jr_scope *scope = &runner->scopes[i];

		if (scope->batched == batched && scope->pool == handler->kind->pool)
			return scope;
	}
	return NULL;
}

void
jr_scopes_make(struct jr_runner *runner)
{
	const struct jr_handlers *handlers = runner->opts->handlers;

	runner->scopes = jr_xcalloc(handlers->count + 1, sizeof(*runner->scopes));
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (is_wanted(runner->opts, handler) && jr_scopes_find(runner, handler) == NULL)
			runner->scopes[runner->scope_count++] = (struct jr_scope){.pool = handler->kind->pool,
			    .batched = is_batched(handler) ? handler : NULL,
			    .most = JR_BATCH_FIRST};
	}
}

bool
jr_scopes_open(struct jr_runner *runner, const char *permit_name, struct jr_err *err)
{
	static const char *const endings[JR_POOL_COUNT] = {
	    [JR_POOL_EXEC] = "", [JR_POOL_HTTP] = " http", [JR_POOL_SQL] = " sql", [JR_POOL_PRUNE] = " prune"};
	bool ok = true;

	for (size_t i = 0; ok && i < runner->scope_count; i++) {
		enum jr_pool pool = runner->scopes[i].pool;
		char *name;

		if (pool == JR_POOL_NONE)
			continue;
		name = jr_xasprintf("%s%s", permit_name, endings[pool]);
		if (runner->permits[pool].fd_count == 0)
			ok = jr_permits_open(&runner->permits[pool], runner->opts->state, name,
			    (size_t)runner->opts->permits[pool], err);
		free(name);
	}
	return ok;
}

void
jr_scopes_close(struct jr_runner *runner)
{
	jr_busy_forget(runner);
	for (size_t i = 0; i < runner->scope_count; i++)
		jr_candidates_release(&runner->scopes[i].candidates);
	free(runner->scopes);
	for (size_t i = 0; i < JR_POOL_COUNT; i++)
		jr_permits_close(&runner->permits[i]);
}

bool
jr_scopes_is_full(const struct jr_runner *runner, const struct jr_scope *scope)
{
	return scope->pool != JR_POOL_NONE &&
	       (int64_t)runner->permits[scope->pool].held_count >= runner->opts->permits[scope->pool];
}

struct jr_permit *
jr_permit_take(struct jr_runner *runner, enum jr_pool pool)
{
	struct jr_permit *permit;

	if (pool == JR_POOL_NONE)
		return jr_permit_of_none();
	if (runner->claim_permits[pool] > 0)
		runner->claim_permits[pool]--;
	else if (runner->permits[pool].fd_count == 0 || jr_permits_take(&runner->permits[pool], 1) == 0)
		return NULL;
	permit = jr_xcalloc(1, sizeof(*permit));
	permit->pool = pool;
	permit->runs = 1;
	return permit;
}

struct jr_permit *
jr_permit_of_none(void)
{
	struct jr_permit *permit = jr_xcalloc(1, sizeof(*permit));

	permit->pool = JR_POOL_NONE;
	permit->runs = 1;
	return permit;
}

void
jr_permit_leave(struct jr_runner *runner, struct jr_permit *permit)
{
	if (--permit->runs > 0)
		return;
	if (permit->pool != JR_POOL_NONE)
		jr_permits_give(&runner->permits[permit->pool], 1);
	free(permit);
}

static size_t
cap(const struct jr_runner *runner, size_t wanted)
{
	const struct jr_runner_opts *opts = runner->opts;
	int64_t left = opts->max_runs - runner->counted;

	if (wanted > runner->claim_most)
		wanted = runner->claim_most;
	if (opts->max_runs > 0 && (int64_t)wanted > left)
		return left > 0 ? (size_t)left : 0;
	return wanted;
}

static size_t
batch_size(const struct jr_scope *scope)
{
	size_t batch = (size_t)scope->batched->settings.batch;

	return batch < scope->most ? batch : scope->most;
}

/* How many more of the scope could be started, and permits for them. Without permits, -j limits what a claim takes. */
static size_t
take_permits(struct jr_runner *runner, const struct jr_scope *scope)
{
	struct jr_permits *permits = &runner->permits[scope->pool];
	size_t free_count = (size_t)runner->opts->permits[scope->pool] - permits->held_count;
	size_t taken;

	if (scope->pool == JR_POOL_NONE)
		return cap(runner, (size_t)runner->opts->permits[JR_POOL_EXEC]);
	if (jr_scopes_is_full(runner, scope))
		return 0;
	taken = jr_permits_take(permits, scope->batched != NULL ? 1 : cap(runner, free_count));
	runner->claim_permits[scope->pool] = taken;
	if (scope->batched != NULL && taken > 0)
		return cap(runner, batch_size(scope));
	return taken;
}

/* The priority of what the scope would give next, or better than that. */
static int64_t
rank(const struct jr_scope *scope)
{
	return scope->cursor.set ? scope->cursor.priority : scope->candidates.best;
}

/* Is there more urgent work in any scope that wants permits of this pool? */
static bool
must_wait(const struct jr_runner *runner, enum jr_pool pool, int64_t priority)
{
	for (size_t i = 0; i < runner->scope_count; i++) {
		const struct jr_scope *scope = &runner->scopes[i];

		if (scope->pool == pool && !scope->drained && rank(scope) < priority)
			return true;
	}
	return false;
}

static bool
has_work(const struct jr_runner *runner, const struct jr_scope *scope, bool busy)
{
	if (busy)
		return scope->busy.count > 0 && !must_wait(runner, scope->pool, scope->busy.best);
	return !scope->drained && !must_wait(runner, scope->pool, rank(scope));
}

/*
 * The next scope that has work and a permit for it: the most urgent of each pool, else in turns; its permits are had.
 */
bool
jr_scopes_choose(struct jr_runner *runner, bool busy)
{
	for (size_t i = 0; i < runner->scope_count; i++) {
		size_t n = (runner->scope_next + i) % runner->scope_count;
		struct jr_scope *scope = &runner->scopes[n];

		if (!has_work(runner, scope, busy))
			continue;
		runner->claim_wanted = take_permits(runner, scope);
		if (runner->claim_wanted == 0)
			continue;
		runner->claim_scope = scope;
		runner->scope_next = n + 1;
		return true;
	}
	return false;
}

/* A batch whose payloads were small may be followed by a larger one; large ones are to fit into memory. */
void
jr_scopes_note_batch(const struct jr_runner *runner, struct jr_scope *scope, const PGresult *result)
{
	size_t rows = jr_queue_count_runs(result), bytes = jr_queue_count_bytes(result);

	if (bytes > JR_BATCH_BYTES) {
		scope->most = rows * JR_BATCH_BYTES / bytes;
		if (scope->most == 0)
			scope->most = 1;
	} else if (rows == runner->claim_wanted && bytes <= JR_BATCH_BYTES / 2 && scope->most < JR_BATCH_MAX)
		scope->most *= 2;
}
