/*
 * queue_tell: what running handlers have to tell. See queue.h.
 */
#include "pg/pg_array.h"
#include "runner/queue.h"
#include "sql_text.h"

/* In the order of the parameters, without the runner's id, which is no array. */
enum tell_parameter {
	P_ID,
	P_CLAIM_SEQ,
	P_RUNNER_ID,
	P_PROGRESS,
	P_CHECKPOINT,
	P_OUTPUT,
	P_DROPPED,
	P_COUNT
};

void
jr_queue_add_tell(struct jr_batch *batch, int64_t runner_id, const struct jr_tale *tales, size_t count)
{
	struct jr_pg_array arrays[P_COUNT];
	const char *values[P_COUNT];
	char runner[24];

	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++) {
		jr_pg_array_add_int(&arrays[P_ID], tales[i].id);
		jr_pg_array_add_int(&arrays[P_CLAIM_SEQ], tales[i].claim_seq);
		jr_pg_array_add(&arrays[P_PROGRESS], tales[i].progress);
		jr_pg_array_add(&arrays[P_CHECKPOINT], tales[i].checkpoint);
		jr_pg_array_add(&arrays[P_OUTPUT], tales[i].output);
		jr_pg_array_add_int(&arrays[P_DROPPED], tales[i].output_dropped);
	}
	for (size_t i = 0; i < P_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	values[P_RUNNER_ID] = jr_pg_print_int(runner, runner_id);
	jr_batch_add(batch, jr_sql_tell, P_COUNT, values);
	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_release(&arrays[i]);
}

size_t
jr_queue_count_told(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_told_row
jr_queue_read_told(const PGresult *result, size_t index)
{
	return (struct jr_told_row){
	    .id = jr_pg_int(result, (int)index, 0, 0), .claim_seq = jr_pg_int(result, (int)index, 1, 0)};
}
