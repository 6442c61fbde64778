/*
 * runner_scopes: what is claimed together, and the permits for it. See runner_parts.h.
 *
 * The permits of each pool are counted exactly among all runners of this user and database on the host: a struct
 * jr_permits for each. A batch of runs that a handler works on together takes one permit, which is given back when the
 * last run has left it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

#define BATCH_FIRST 100                   /* runs of the first batch that is claimed */
#define GATHER_MS 3                       /* how long a claim for sql waits for more connections */
#define SLOW_MS 100                       /* how long it does not wait for those that it waited for in vain */
#define QUICK_MS 5                        /* since the last claim: the statements are quick */
#define BATCH_BYTES ((size_t)8 * 1048576) /* of payloads in a batch, as far as the ones before it show */

/*
 * Job types that are claimed together, since they take the same kind of permit: one scope for each pool, and one for
 * each handler that takes its runs in batches. A claim is for one scope, so that queues with limits are locked in one
 * statement.
 */
struct jr_scope {
	enum jr_pool pool;
	const struct jr_handler
	    *batched;                    /* up to settings.batch runs of this type for one permit; NULL: one run each */
	struct jr_candidates candidates; /* of its types */
	struct jr_candidates busy;       /* of queues that were left out; runner_busy.c has claims for them */
	struct jr_cursor cursor;
	size_t most;        /* runs of the next batch: more after small payloads, fewer after large ones */
	bool drained;       /* the last look found nothing due, or claims have taken all of it */
	int64_t chosen_ms;  /* when a claim from it was sent last */
	int64_t waiting_ms; /* until when the next one waits for more connections; 0: it does not wait */
	size_t slow;        /* connections for which it does not wait... */
	int64_t slow_ms;    /* ...until then */
};

static bool
is_batched(const struct jr_handler *handler)
{
	return handler->settings.batch > 0;
}

static struct jr_scope *
find(const struct jr_runner *runner, const struct jr_handler *handler)
{
	const struct jr_handler *batched = is_batched(handler) ? handler : NULL;

	for (size_t i = 0; i < runner->scopes.count; i++) {
		struct jr_scope *scope = &runner->scopes.items[i];

		if (scope->batched == batched && scope->pool == handler->kind->pool)
			return scope;
	}
	return NULL;
}

void
jr_scopes_make(struct jr_runner *runner)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	struct jr_scopes *scopes = &runner->scopes;

	scopes->items = jr_xcalloc(handlers->count + 1, sizeof(*scopes->items));
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (jr_facts_wants(runner->opts, handler) && find(runner, handler) == NULL)
			scopes->items[scopes->count++] = (struct jr_scope){.pool = handler->kind->pool,
			    .batched = is_batched(handler) ? handler : NULL,
			    .most = BATCH_FIRST};
	}
}

bool
jr_scopes_open(struct jr_runner *runner, const char *permit_name, struct jr_err *err)
{
	static const char *const endings[JR_POOL_COUNT] = {
	    [JR_POOL_EXEC] = "", [JR_POOL_HTTP] = " http", [JR_POOL_SQL] = " sql", [JR_POOL_PRUNE] = " prune"};
	struct jr_scopes *scopes = &runner->scopes;
	bool ok = true;

	for (size_t i = 0; ok && i < scopes->count; i++) {
		enum jr_pool pool = scopes->items[i].pool;
		char *name;

		if (pool == JR_POOL_NONE)
			continue;
		name = jr_xasprintf("%s%s", permit_name, endings[pool]);
		if (scopes->permits[pool].fd_count == 0)
			ok = jr_permits_open(&scopes->permits[pool], runner->opts->state, name,
			    (size_t)runner->opts->permits[pool], err);
		free(name);
	}
	return ok;
}

void
jr_scopes_close(struct jr_runner *runner)
{
	struct jr_scopes *scopes = &runner->scopes;

	for (size_t i = 0; i < scopes->count; i++) {
		jr_candidates_release(&scopes->items[i].candidates);
		jr_candidates_release(&scopes->items[i].busy);
	}
	free(scopes->items);
	for (size_t i = 0; i < JR_POOL_COUNT; i++)
		jr_permits_close(&scopes->permits[i]);
}

/* --- permits --- */

static struct jr_permit *
new_permit(enum jr_pool pool)
{
	struct jr_permit *permit = jr_permit_of_none();

	permit->pool = pool;
	return permit;
}

/* A reserved one, else another. NULL: there is none. */
static struct jr_permit *
take_permit(struct jr_runner *runner, enum jr_pool pool)
{
	struct jr_scopes *scopes = &runner->scopes;

	if (pool == JR_POOL_NONE)
		return jr_permit_of_none();
	if (scopes->reserved[pool] == 0)
		return jr_permit_take_spare(runner, pool);
	scopes->reserved[pool]--;
	return new_permit(pool);
}

struct jr_permit *
jr_permit_take_spare(struct jr_runner *runner, enum jr_pool pool)
{
	struct jr_permits *permits = &runner->scopes.permits[pool];

	return permits->fd_count > 0 && jr_permits_take(permits, 1) > 0 ? new_permit(pool) : NULL;
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
		jr_permits_give(&runner->scopes.permits[permit->pool], 1);
	free(permit);
}

struct jr_permit *
jr_permit_find(
    struct jr_runner *runner, const struct jr_run *run, const struct jr_handler **batched, struct jr_permit **shared)
{
	const struct jr_handler *handler = jr_handlers_find(runner->opts->handlers, run->job_type);
	struct jr_permit *permit;

	if (runner->opts->exec != NULL)
		return jr_permit_of_none();
	if (handler == NULL)
		return NULL;
	if (*shared != NULL && *batched == handler) {
		(*shared)->runs++;
		return *shared;
	}
	permit = take_permit(runner, handler->kind->pool);
	*batched = handler;
	*shared = handler->settings.batch > 0 ? permit : NULL;
	return permit;
}

char *
jr_scopes_reserve_each(struct jr_runner *runner, bool *crowded)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const char **types = jr_xcalloc(handlers->count + 1, sizeof(char *));
	struct jr_scopes *scopes = &runner->scopes;
	size_t wanted = 0, count = 0;
	char *array;

	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (scopes->permits[i].fd_count > 0)
			scopes->reserved[i] = jr_permits_take(&scopes->permits[i], 1);
	}
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];
		enum jr_pool pool = handler->kind->pool;

		if (!jr_facts_wants(runner->opts, handler))
			continue;
		wanted++;
		if (pool == JR_POOL_NONE || scopes->reserved[pool] > 0)
			types[count++] = handler->job_type;
	}
	*crowded = count < wanted;
	array = jr_pg_array_of(types, count);
	free(types);
	return array;
}

void
jr_scopes_give_back(struct jr_runner *runner)
{
	struct jr_scopes *scopes = &runner->scopes;

	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (scopes->reserved[i] > 0)
			jr_permits_give(&scopes->permits[i], scopes->reserved[i]);
		scopes->reserved[i] = 0;
	}
}

/* Without permits -j limits what one claim takes. */
static size_t
count_free(const struct jr_runner *runner, enum jr_pool pool)
{
	enum jr_pool counted = pool == JR_POOL_NONE ? JR_POOL_EXEC : pool;
	size_t total = (size_t)runner->opts->permits[counted], held = runner->scopes.permits[pool].held_count;

	return total > held ? total - held : 0;
}

bool
jr_scopes_have_room(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->scopes.count; i++) {
		if (count_free(runner, runner->scopes.items[i].pool) > 0)
			return true;
	}
	return runner->scopes.count == 0;
}

static size_t
at_most(size_t wanted, size_t most)
{
	return wanted < most ? wanted : most;
}

/*
 * A claim of several runs costs little more than a claim of one. So a claim for sql waits until all connections of this
 * runner are free, but not for long, and only if there was a claim just before: then statements end quickly. As many
 * connections as were still busy in the end are not waited for by the next claims.
 */
static bool
must_gather(struct jr_runner *runner, struct jr_scope *scope)
{
	size_t total = (size_t)runner->opts->permits[JR_POOL_SQL], left = count_free(runner, JR_POOL_SQL);
	int64_t now_ms = jr_clock_now_ms();

	if (scope->pool != JR_POOL_SQL || scope->batched != NULL || left == 0)
		return false;
	if (now_ms >= scope->slow_ms)
		scope->slow = 0;
	if (total - left <= scope->slow)
		return false;
	if (scope->waiting_ms == 0 && now_ms - scope->chosen_ms <= QUICK_MS)
		scope->waiting_ms = now_ms + GATHER_MS;
	if (now_ms < scope->waiting_ms)
		return true;
	if (scope->waiting_ms != 0) {
		scope->slow = total - left;
		scope->slow_ms = now_ms + SLOW_MS;
	}
	return false;
}

int64_t
jr_scopes_gathering_ms(const struct jr_runner *runner)
{
	int64_t first_ms = JR_NEVER, now_ms = jr_clock_now_ms();

	for (size_t i = 0; i < runner->scopes.count; i++) {
		const struct jr_scope *scope = &runner->scopes.items[i];

		/* When the time is over, another scope or runner has its connections. */
		if (!scope->drained && scope->waiting_ms > now_ms && scope->waiting_ms < first_ms)
			first_ms = scope->waiting_ms;
	}
	return first_ms;
}

/*
 * Half of the transfers at a time: the server that is called and the database work at once then, on one half each.
 * Otherwise transfers that end quickly would all wait for the database, and it for them.
 */
static size_t
share(const struct jr_runner *runner, const struct jr_scope *scope)
{
	size_t total = (size_t)runner->opts->permits[JR_POOL_HTTP];

	return scope->pool == JR_POOL_HTTP ? total - total / 2 : SIZE_MAX;
}

/* How many more of the scope could be started, with permits for them. */
static size_t
reserve(struct jr_runner *runner, const struct jr_scope *scope, size_t most)
{
	struct jr_scopes *scopes = &runner->scopes;
	size_t room = at_most(count_free(runner, scope->pool), share(runner, scope));
	size_t wanted = scope->batched != NULL ? 1 : at_most(room, most), taken;

	if (count_free(runner, scope->pool) == 0)
		return 0;
	if (scope->pool == JR_POOL_NONE)
		return wanted;
	taken = jr_permits_take(&scopes->permits[scope->pool], wanted);
	scopes->reserved[scope->pool] = taken;
	if (scope->batched != NULL && taken > 0)
		return at_most(at_most((size_t)scope->batched->settings.batch, scope->most), most);
	return taken;
}

/* --- what is due --- */

struct filter {
	const struct jr_runner *runner;
	const struct jr_scope *scope;
};

static bool
is_of_scope(void *ctx, const char *job_type)
{
	const struct filter *filter = ctx;
	const struct jr_handler *handler = jr_handlers_find(filter->runner->opts->handlers, job_type);

	return handler != NULL && find(filter->runner, handler) == filter->scope &&
	       !jr_refused_has(filter->runner, handler);
}

bool
jr_scopes_take_candidates(struct jr_runner *runner, const PGresult *result)
{
	struct jr_scopes *scopes = &runner->scopes;
	bool all = true;

	scopes->candidates_count = jr_queue_count_candidates(result);
	for (size_t i = 0; i < scopes->count; i++) {
		struct jr_scope *scope = &scopes->items[i];
		struct filter filter = {runner, scope};

		jr_queue_read_candidates(result, &scope->candidates, is_of_scope, &filter);
		scope->cursor.set = false;
		scope->drained = scope->candidates.count == 0;
		all = all && !scope->drained;
	}
	return all;
}

bool
jr_scopes_take_named(struct jr_runner *runner, const struct jr_candidate *named)
{
	const struct jr_runner_opts *opts = runner->opts;
	const struct jr_handler *handler = jr_handlers_find(opts->handlers, named->job_type);
	struct jr_scope *wanted = NULL;

	if (handler != NULL && jr_facts_wants(opts, handler) && jr_facts_wants_queue(opts, named->queue) &&
	    !jr_refused_has(runner, handler))
		wanted = find(runner, handler);
	if (wanted == NULL || count_free(runner, wanted->pool) == 0)
		return false;
	for (size_t i = 0; i < runner->scopes.count; i++) {
		struct jr_scope *scope = &runner->scopes.items[i];

		jr_candidates_release(&scope->candidates);
		scope->cursor.set = false;
		scope->drained = scope != wanted;
	}
	jr_candidates_copy(&wanted->candidates, named);
	runner->scopes.candidates_count = 1;
	return true;
}

size_t
jr_scopes_count_candidates(const struct jr_runner *runner)
{
	return runner->scopes.candidates_count;
}

void
jr_scopes_forget_cursors(struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->scopes.count; i++)
		runner->scopes.items[i].cursor.set = false;
}

bool
jr_scopes_are_drained(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->scopes.count; i++) {
		if (!runner->scopes.items[i].drained)
			return false;
	}
	return true;
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
	for (size_t i = 0; i < runner->scopes.count; i++) {
		const struct jr_scope *scope = &runner->scopes.items[i];

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

/* The most urgent of each pool, else in turns. */
bool
jr_scopes_choose(struct jr_runner *runner, bool busy, bool programs, size_t most, struct jr_choice *choice)
{
	struct jr_scopes *scopes = &runner->scopes;

	*choice = (struct jr_choice){.scope = NULL};
	for (size_t i = 0; i < scopes->count; i++) {
		size_t n = (scopes->next + i) % scopes->count;
		struct jr_scope *scope = &scopes->items[n];
		size_t wanted = 0;

		if (!programs && jr_scope_is_of_programs(scope))
			continue;
		if (has_work(runner, scope, busy) && (busy || !must_gather(runner, scope)))
			wanted = reserve(runner, scope, most);
		if (wanted == 0)
			continue;
		scope->chosen_ms = jr_clock_now_ms();
		scope->waiting_ms = 0;
		*choice = (struct jr_choice){.scope = scope, .wanted = wanted};
		scopes->next = n + 1;
		return true;
	}
	return false;
}

bool
jr_scopes_choose_ahead(const struct jr_runner *runner, struct jr_choice *choice)
{
	for (size_t i = 0; i < runner->scopes.count; i++) {
		struct jr_scope *scope = &runner->scopes.items[i];

		if (!jr_scope_is_of_programs(scope) || !has_work(runner, scope, false))
			continue;
		*choice = (struct jr_choice){.scope = scope};
		return true;
	}
	return false;
}

size_t
jr_scopes_count_held(const struct jr_runner *runner, enum jr_pool pool)
{
	return runner->scopes.permits[pool].held_count;
}

struct jr_scope *
jr_scopes_at(const struct jr_runner *runner, size_t index)
{
	return index < runner->scopes.count ? &runner->scopes.items[index] : NULL;
}

bool
jr_scope_is_of_programs(const struct jr_scope *scope)
{
	return scope->pool == JR_POOL_EXEC && scope->batched == NULL;
}

const struct jr_candidates *
jr_scope_candidates(const struct jr_scope *scope)
{
	return &scope->candidates;
}

struct jr_candidates *
jr_scope_busy(struct jr_scope *scope)
{
	return &scope->busy;
}

struct jr_cursor *
jr_scope_cursor(struct jr_scope *scope)
{
	return &scope->cursor;
}

void
jr_scope_note_drained(struct jr_scope *scope)
{
	scope->drained = true;
}

void
jr_scope_leave_out(struct jr_scope *scope, bool (*want)(void *ctx, const char *queue), void *ctx)
{
	jr_candidates_move(&scope->candidates, &scope->busy, want, ctx);
	scope->drained = scope->candidates.count == 0;
}

/* A batch whose payloads were small may be followed by a larger one; large ones are to fit into memory. */
void
jr_scope_note_batch(struct jr_scope *scope, size_t wanted, const PGresult *result)
{
	size_t rows = jr_queue_count_runs(result), bytes = jr_queue_count_bytes(result);

	if (scope->batched == NULL)
		return;
	if (bytes > BATCH_BYTES) {
		scope->most = rows * BATCH_BYTES / bytes;
		if (scope->most == 0)
			scope->most = 1;
	} else if (rows == wanted && bytes <= BATCH_BYTES / 2 && scope->most < JR_BATCH_MAX) {
		scope->most *= 2;
	}
}
