/*
 * runner_facts: what the database is told of a runner with given options: who it is, and what it would claim.
 */
#ifndef JR_RUNNER_FACTS_H
#define JR_RUNNER_FACTS_H

#include "base/backoff.h"
#include "runner/queue.h"
#include "runner/runner.h"

/* Is this one of the handlers that --type asks for? Housekeeping always is. */
bool jr_facts_wants(const struct jr_runner_opts *opts, const struct jr_handler *handler);
/* One of those that --queue asks for? The queue of housekeeping always is. */
bool jr_facts_wants_queue(const struct jr_runner_opts *opts, const char *queue);

/* The strings that the facts borrow. */
struct jr_facts_texts {
	char host[256];
	char *job_types, *queues, *refused; /* array literals */
};

/* All but linger_ms. texts stay where they are as long as the facts are used. */
void jr_facts_init(struct jr_runner_facts *facts, struct jr_facts_texts *texts, const struct jr_runner_opts *opts,
    struct jr_random *random);
void jr_facts_release(struct jr_facts_texts *texts);

void jr_facts_draw_id(struct jr_runner_facts *facts, struct jr_random *random); /* another one */

#endif
