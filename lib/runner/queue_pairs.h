/*
 * queue_pairs: the (id, claim_seq) pairs by which every write names the runs that it means, as two array literals.
 */
#ifndef JR_QUEUE_PAIRS_H
#define JR_QUEUE_PAIRS_H

#include "base/run.h"
#include "pg/pg_array.h"

struct jr_queue_pairs {
	struct jr_pg_array ids, seqs; /* closed: text.data is the literal */
};

void jr_queue_pairs_of(struct jr_queue_pairs *pairs, struct jr_run *const *runs, size_t count);
void jr_queue_pairs_release(struct jr_queue_pairs *pairs);

#endif
