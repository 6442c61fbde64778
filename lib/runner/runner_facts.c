/*
 * runner_facts: see runner_facts.h.
 */
#include "runner/runner_facts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "pg/pg_array.h"

#define RUNNER_ID_BITS 53
#define REFUSED_MAX 20 /* handlers that the database is told of */
#define REFUSED_LEN 500

/* Without housekeeping a host with --type in each line would never do any. */
bool
jr_facts_wants(const struct jr_runner_opts *opts, const struct jr_handler *handler)
{
	for (size_t i = 0; i < opts->type_count; i++) {
		if (strcmp(opts->types[i], handler->job_type) == 0)
			return true;
	}
	return opts->type_count == 0 || handler->kind->pool == JR_POOL_PRUNE;
}

bool
jr_facts_wants_queue(const struct jr_runner_opts *opts, const char *queue)
{
	for (size_t i = 0; i < opts->queue_count; i++) {
		if (strcmp(opts->queues[i], queue) == 0)
			return true;
	}
	return opts->queue_count == 0 || strcmp(queue, JR_PRUNE_QUEUE) == 0;
}

static char *
wanted_types(const struct jr_runner_opts *opts)
{
	const char **types = jr_xcalloc(opts->handlers->count + 1, sizeof(char *));
	size_t count = 0;
	char *array;

	for (size_t i = 0; i < opts->handlers->count; i++) {
		const struct jr_handler *handler = &opts->handlers->items[i];

		if (jr_facts_wants(opts, handler))
			types[count++] = handler->job_type;
	}
	array = jr_pg_array_of(types, count);
	free(types);
	return array;
}

/* NULL: all. */
static char *
wanted_queues(const struct jr_runner_opts *opts)
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

/* NULL: none. File names may be any bytes. */
static char *
refused_handlers(const struct jr_runner_opts *opts)
{
	const struct jr_handlers *handlers = opts->handlers;
	struct jr_pg_array array;
	char *text;

	if (handlers->problem_count == 0)
		return NULL;
	jr_pg_array_init(&array);
	for (size_t i = 0; i < handlers->problem_count && i < REFUSED_MAX; i++) {
		char *line = jr_text_clean(handlers->problems[i], strlen(handlers->problems[i]), REFUSED_LEN);

		jr_pg_array_add(&array, line);
		free(line);
	}
	text = jr_xstrdup(jr_pg_array_end(&array));
	jr_pg_array_release(&array);
	return text;
}

void
jr_facts_draw_id(struct jr_runner_facts *facts, struct jr_random *random)
{
	facts->id = (int64_t)jr_random_below(random, (UINT64_C(1) << RUNNER_ID_BITS) - 1) + 1;
}

void
jr_facts_init(struct jr_runner_facts *facts, struct jr_facts_texts *texts, const struct jr_runner_opts *opts,
    struct jr_random *random)
{
	*texts = (struct jr_facts_texts){
	    .job_types = wanted_types(opts), .queues = wanted_queues(opts), .refused = refused_handlers(opts)};
	if (gethostname(texts->host, sizeof(texts->host) - 1) != 0 || texts->host[0] == '\0')
		memcpy(texts->host, "localhost", sizeof("localhost"));
	*facts = (struct jr_runner_facts){.host = texts->host,
	    .version = opts->version,
	    .job_types = texts->job_types,
	    .queues = texts->queues,
	    .refused = texts->refused,
	    .pid = getpid(),
	    .permits = opts->permits[JR_POOL_EXEC],
	    .heartbeat_ms = opts->lease.heartbeat_ms};
	jr_facts_draw_id(facts, random);
}

void
jr_facts_release(struct jr_facts_texts *texts)
{
	free(texts->job_types);
	free(texts->queues);
	free(texts->refused);
}
