/*
 * queue_candidates: the rows of candidates.sql, and the array literals for claim.sql. See queue.h.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/queue.h"

/* The items as array literals. */
static void
print_candidates(struct jr_candidates *candidates)
{
	struct jr_pg_array types, queues, priorities;

	jr_pg_array_init(&types);
	jr_pg_array_init(&queues);
	jr_pg_array_init(&priorities);
	candidates->best = candidates->count > 0 ? candidates->items[0].priority : 0;
	for (size_t i = 0; i < candidates->count; i++) {
		if (candidates->items[i].priority < candidates->best)
			candidates->best = candidates->items[i].priority;
		jr_pg_array_add(&types, candidates->items[i].job_type);
		jr_pg_array_add(&queues, candidates->items[i].queue);
		jr_pg_array_add_int(&priorities, candidates->items[i].priority);
	}
	free(candidates->types);
	free(candidates->queues);
	free(candidates->priorities);
	candidates->types = jr_xstrdup(jr_pg_array_end(&types));
	candidates->queues = jr_xstrdup(jr_pg_array_end(&queues));
	candidates->priorities = jr_xstrdup(jr_pg_array_end(&priorities));
	jr_pg_array_release(&types);
	jr_pg_array_release(&queues);
	jr_pg_array_release(&priorities);
}

/* The one row has none if nothing is due. */
size_t
jr_queue_count_candidates(const PGresult *result)
{
	return PQntuples(result) == 0 || PQgetisnull(result, 0, 0) ? 0 : (size_t)PQntuples(result);
}

void
jr_queue_read_candidates(
    const PGresult *result, struct jr_candidates *candidates, bool (*want)(void *ctx, const char *job_type), void *ctx)
{
	int count = (int)jr_queue_count_candidates(result);

	jr_candidates_release(candidates);
	candidates->items = jr_xcalloc((size_t)count + 1, sizeof(*candidates->items));
	for (int row = 0; row < count; row++) {
		if (want == NULL || want(ctx, PQgetvalue(result, row, 0)))
			candidates->items[candidates->count++] =
			    (struct jr_candidate){.job_type = jr_xstrdup(PQgetvalue(result, row, 0)),
				.queue = jr_xstrdup(PQgetvalue(result, row, 1)),
				.priority = jr_pg_int(result, row, 2, 0)};
	}
	print_candidates(candidates);
}

void
jr_candidates_copy(struct jr_candidates *candidates, const struct jr_candidate *one)
{
	jr_candidates_release(candidates);
	candidates->items = jr_xcalloc(1, sizeof(*candidates->items));
	candidates->items[0] = (struct jr_candidate){
	    .job_type = jr_xstrdup(one->job_type), .queue = jr_xstrdup(one->queue), .priority = one->priority};
	candidates->count = 1;
	print_candidates(candidates);
}

void
jr_candidates_move(
    struct jr_candidates *from, struct jr_candidates *to, bool (*want)(void *ctx, const char *queue), void *ctx)
{
	size_t kept = 0;

	to->items = jr_xrealloc(to->items, to->count + from->count + 1, sizeof(*to->items));
	for (size_t i = 0; i < from->count; i++) {
		if (want(ctx, from->items[i].queue))
			to->items[to->count++] = from->items[i];
		else
			from->items[kept++] = from->items[i];
	}
	from->count = kept;
	print_candidates(from);
	print_candidates(to);
}

void
jr_candidates_release(struct jr_candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++) {
		free(candidates->items[i].job_type);
		free(candidates->items[i].queue);
	}
	free(candidates->items);
	free(candidates->types);
	free(candidates->queues);
	free(candidates->priorities);
	*candidates = (struct jr_candidates){0};
}
