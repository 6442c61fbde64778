/*
 * queue_settle: the statements about runs that are held, from adopt and heartbeat to settle and resolve. See queue.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/queue.h"
#include "sql_text.h"

void
jr_claim_list_add(struct jr_claim_list *list, int64_t id, int64_t claim_seq)
{
	if (list->count == list->space) {
		list->space = list->space == 0 ? 16 : list->space * 2;
		list->items = jr_xrealloc(list->items, list->space, sizeof(*list->items));
	}
	list->items[list->count++] = (struct jr_claim){.id = id, .claim_seq = claim_seq};
}

void
jr_claim_list_release(struct jr_claim_list *list)
{
	free(list->items);
	*list = (struct jr_claim_list){0};
}

/* The (id, claim_seq) by which runs are named, as two array literals: text.data of each. */
struct pairs {
	struct jr_pg_array ids, seqs;
};

static void
init_pairs(struct pairs *pairs, struct jr_run *const *runs, size_t count)
{
	jr_pg_array_init(&pairs->ids);
	jr_pg_array_init(&pairs->seqs);
	for (size_t i = 0; i < count; i++) {
		jr_pg_array_add_int(&pairs->ids, runs[i]->id);
		jr_pg_array_add_int(&pairs->seqs, runs[i]->claim_seq);
	}
	jr_pg_array_end(&pairs->ids);
	jr_pg_array_end(&pairs->seqs);
}

static void
init_pairs_of(struct pairs *pairs, const struct jr_claim_list *list)
{
	jr_pg_array_init(&pairs->ids);
	jr_pg_array_init(&pairs->seqs);
	for (size_t i = 0; i < list->count; i++) {
		jr_pg_array_add_int(&pairs->ids, list->items[i].id);
		jr_pg_array_add_int(&pairs->seqs, list->items[i].claim_seq);
	}
	jr_pg_array_end(&pairs->ids);
	jr_pg_array_end(&pairs->seqs);
}

static void
release_pairs(struct pairs *pairs)
{
	jr_pg_array_release(&pairs->ids);
	jr_pg_array_release(&pairs->seqs);
}

void
jr_queue_add_adopt(struct jr_batch *batch, int64_t runner_id, const struct jr_claim_list *known, size_t most)
{
	char runner[24], limit[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs_of(&pairs, known);
	values[0] = jr_pg_print_int(runner, runner_id);
	values[1] = pairs.ids.text.data;
	values[2] = pairs.seqs.text.data;
	values[3] = jr_pg_print_int(limit, (int64_t)most);
	jr_batch_add(batch, jr_sql_adopt, JR_COUNT(values), values);
	release_pairs(&pairs);
}

void
jr_queue_add_give_back(
    struct jr_batch *batch, int64_t runner_id, const struct jr_claim_list *begun, const struct jr_outcome *outcome)
{
	char runner[24];
	struct pairs pairs;
	const char *values[6];

	init_pairs_of(&pairs, begun);
	values[0] = jr_pg_print_int(runner, runner_id);
	values[1] = pairs.ids.text.data;
	values[2] = pairs.seqs.text.data;
	values[3] = jr_outcome_word(outcome->kind);
	values[4] = outcome->error_code;
	values[5] = outcome->error;
	jr_batch_add(batch, jr_sql_give_back, JR_COUNT(values), values);
	release_pairs(&pairs);
}

size_t
jr_queue_count_given(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_given_row
jr_queue_read_given(const PGresult *result, size_t index)
{
	return (struct jr_given_row){.id = jr_pg_int(result, (int)index, 0, 0),
	    .claim_seq = jr_pg_int(result, (int)index, 1, 0),
	    .settled = jr_pg_bool(result, (int)index, 2)};
}

void
jr_queue_add_heartbeat(
    struct jr_batch *batch, int64_t runner_id, struct jr_run *const *held, size_t count, int64_t lease_ms)
{
	char runner[24], lease[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs(&pairs, held, count);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_pg_print_int(runner, runner_id);
	values[3] = jr_pg_print_int(lease, lease_ms);
	jr_batch_add(batch, jr_sql_heartbeat, JR_COUNT(values), values);
	release_pairs(&pairs);
}

size_t
jr_queue_count_beats(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_beat_row
jr_queue_read_beat(const PGresult *result, size_t index)
{
	int row = (int)index;
	const char *state = PQgetvalue(result, row, 2);
	struct jr_beat_row beat = {.id = jr_pg_int(result, row, 0, 0),
	    .claim_seq = jr_pg_int(result, row, 1, 0),
	    .beat = JR_BEAT_GONE,
	    .cancel = jr_pg_bool(result, row, 3)};

	if (strcmp(state, "renewed") == 0)
		beat.beat = JR_BEAT_RENEWED;
	else if (strcmp(state, "busy") == 0)
		beat.beat = JR_BEAT_BUSY;
	return beat;
}

/* The parameters of tell, in their order. The runner's id is no array. */
enum tell_parameter {
	T_ID,
	T_CLAIM_SEQ,
	T_RUNNER_ID,
	T_PROGRESS,
	T_CHECKPOINT,
	T_OUTPUT,
	T_DROPPED,
	T_COUNT
};

void
jr_queue_add_tell(struct jr_batch *batch, int64_t runner_id, const struct jr_tale *tales, size_t count)
{
	struct jr_pg_array arrays[T_COUNT];
	const char *values[T_COUNT];
	char runner[24];

	for (size_t i = 0; i < T_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++) {
		jr_pg_array_add_int(&arrays[T_ID], tales[i].id);
		jr_pg_array_add_int(&arrays[T_CLAIM_SEQ], tales[i].claim_seq);
		jr_pg_array_add(&arrays[T_PROGRESS], tales[i].progress);
		jr_pg_array_add(&arrays[T_CHECKPOINT], tales[i].checkpoint);
		jr_pg_array_add(&arrays[T_OUTPUT], tales[i].output);
		jr_pg_array_add_int(&arrays[T_DROPPED], tales[i].output_dropped);
	}
	for (size_t i = 0; i < T_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	values[T_RUNNER_ID] = jr_pg_print_int(runner, runner_id);
	jr_batch_add(batch, jr_sql_tell, T_COUNT, values);
	for (size_t i = 0; i < T_COUNT; i++)
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

void
jr_queue_add_expired(struct jr_batch *batch, const struct jr_claim_list *held)
{
	struct pairs pairs;
	const char *values[2];

	init_pairs_of(&pairs, held);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	jr_batch_add(batch, jr_sql_expired, JR_COUNT(values), values);
	release_pairs(&pairs);
}

bool
jr_queue_read_expired(const PGresult *result)
{
	return PQntuples(result) > 0 && jr_pg_bool(result, 0, 0);
}

void
jr_queue_add_reclaim(struct jr_batch *batch, const struct jr_claim_list *held, int64_t after_id, int64_t limit)
{
	char after[24], most[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs_of(&pairs, held);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_pg_print_int(after, after_id);
	values[3] = jr_pg_print_int(most, limit);
	jr_batch_add(batch, jr_sql_reclaim, JR_COUNT(values), values);
	release_pairs(&pairs);
}

size_t
jr_queue_count_reclaimed(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_expired_row
jr_queue_read_reclaimed(const PGresult *result, size_t index)
{
	int row = (int)index;
	struct jr_expired_row expired = {.id = jr_pg_int(result, row, 0, 0),
	    .claim_seq = jr_pg_int(result, row, 1, 0),
	    .runner_id = jr_pg_int(result, row, 2, 0),
	    .attempts = jr_pg_int(result, row, 4, 0),
	    .max_attempts = jr_pg_int(result, row, 5, 0),
	    .backoff_base_ms = jr_pg_int(result, row, 6, -1),
	    .backoff_cap_ms = jr_pg_int(result, row, 7, -1)};

	snprintf(expired.job_type, sizeof(expired.job_type), "%s", PQgetvalue(result, row, 3));
	snprintf(expired.host, sizeof(expired.host), "%s", PQgetvalue(result, row, 8));
	return expired;
}

/* The columns of settle, in the order of its parameters. */
enum settle_parameter {
	P_ID,
	P_CLAIM_SEQ,
	P_RUNNER_ID,
	P_OUTCOME,
	P_DELAY,
	P_ERROR_CODE,
	P_ERROR,
	P_EXIT_STATUS,
	P_PID,
	P_CPU,
	P_RSS,
	P_OUTPUT,
	P_DROPPED,
	P_RESULT,
	P_PROGRESS,
	P_CHECKPOINT,
	P_COUNT
};

static void
add_or_null(struct jr_pg_array *array, bool present, int64_t value)
{
	if (present)
		jr_pg_array_add_int(array, value);
	else
		jr_pg_array_add_null(array);
}

static void
add_settlement(struct jr_pg_array arrays[P_COUNT], const struct jr_settlement *s)
{
	const struct jr_outcome *o = s->outcome;

	jr_pg_array_add_int(&arrays[P_ID], s->id);
	jr_pg_array_add_int(&arrays[P_CLAIM_SEQ], s->claim_seq);
	jr_pg_array_add_int(&arrays[P_RUNNER_ID], s->runner_id);
	jr_pg_array_add(&arrays[P_OUTCOME], jr_outcome_word(o->kind));
	jr_pg_array_add_int(&arrays[P_DELAY], o->delay_ms);
	jr_pg_array_add(&arrays[P_ERROR_CODE], o->error_code);
	jr_pg_array_add(&arrays[P_ERROR], o->error);
	add_or_null(&arrays[P_EXIT_STATUS], o->has_exit, o->exit_status);
	add_or_null(&arrays[P_PID], o->pid > 0, o->pid);
	add_or_null(&arrays[P_CPU], o->pid > 0, o->cpu_ms);
	add_or_null(&arrays[P_RSS], o->max_rss_kb > 0, o->max_rss_kb);
	jr_pg_array_add(&arrays[P_OUTPUT], o->output);
	jr_pg_array_add_int(&arrays[P_DROPPED], o->output_dropped);
	jr_pg_array_add(&arrays[P_RESULT], o->result);
	jr_pg_array_add(&arrays[P_PROGRESS], o->progress);
	jr_pg_array_add(&arrays[P_CHECKPOINT], o->checkpoint);
}

void
jr_queue_add_settle(struct jr_batch *batch, const struct jr_settlement *settlements, size_t count)
{
	struct jr_pg_array arrays[P_COUNT];
	const char *values[P_COUNT];

	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++)
		add_settlement(arrays, &settlements[i]);
	for (size_t i = 0; i < P_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	jr_batch_add(batch, jr_sql_settle, P_COUNT, values);
	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_release(&arrays[i]);
}

size_t
jr_queue_count_settled(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_settled_row
jr_queue_read_settled(const PGresult *result, size_t index)
{
	int row = (int)index;
	struct jr_settled_row settled = {.id = jr_pg_int(result, row, 0, 0),
	    .claim_seq = jr_pg_int(result, row, 1, 0),
	    .attempts = jr_pg_int(result, row, 3, 0),
	    .max_attempts = jr_pg_int(result, row, 4, 0),
	    .run_in_ms = jr_pg_int(result, row, 5, -1)};

	snprintf(settled.status, sizeof(settled.status), "%s", PQgetvalue(result, row, 2));
	return settled;
}

void
jr_queue_add_resolve(struct jr_batch *batch, int64_t runner_id, struct jr_run *const *held, size_t count)
{
	char runner[24];
	struct pairs pairs;
	const char *values[3];

	init_pairs(&pairs, held, count);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_pg_print_int(runner, runner_id);
	jr_batch_add(batch, jr_sql_resolve, JR_COUNT(values), values);
	release_pairs(&pairs);
}

size_t
jr_queue_count_answers(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_answer_row
jr_queue_read_answer(const PGresult *result, size_t index)
{
	int row = (int)index;
	const char *answer = PQgetvalue(result, row, 2);
	struct jr_answer_row read = {
	    .id = jr_pg_int(result, row, 0, 0), .claim_seq = jr_pg_int(result, row, 1, 0), .answer = JR_ANSWER_FENCED};

	snprintf(read.status, sizeof(read.status), "%s", PQgetvalue(result, row, 3));
	if (strcmp(answer, "running") == 0)
		read.answer = JR_ANSWER_RUNNING;
	else if (strcmp(answer, "accepted") == 0)
		read.answer = JR_ANSWER_ACCEPTED;
	return read;
}
