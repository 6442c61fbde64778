/*
 * queue_settle: the statements about runs that are held, from adopt and heartbeat to settle and resolve. See queue.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
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

/* The ids and claim_seqs that name the runs, as two array literals: text.data of each. */
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
jr_queue_add_adopt(struct jr_request *request, int64_t runner_id, const struct jr_claim_list *known, size_t most)
{
	char runner[24], limit[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs_of(&pairs, known);
	values[0] = jr_print_int(runner, runner_id);
	values[1] = pairs.ids.text.data;
	values[2] = pairs.seqs.text.data;
	values[3] = jr_print_int(limit, (int64_t)most);
	jr_request_add(request, jr_sql_adopt, JR_COUNT(values), values);
	jr_request_expect(request, &jr_form_adopt, 0, most);
	release_pairs(&pairs);
}

/* The answers of all statements below begin with these columns. */
enum pair_column {
	C_ID,
	C_CLAIM_SEQ,
	C_OTHERS
};
#define PAIR_COLUMNS                                                                                                   \
	[C_ID] = {"id", JR_COLUMN_INT, true, NULL}, [C_CLAIM_SEQ] = {"claim_seq", JR_COLUMN_INT, true, NULL}
#define ENDS "|queued|failed|succeeded|dead|cancelled|"

enum heartbeat_column {
	H_STATE = C_OTHERS,
	H_CANCEL,
	H_FOLLOWED
};
static const struct jr_form_column heartbeat_columns[] = {
    PAIR_COLUMNS,
    [H_STATE] = {"state", JR_COLUMN_TEXT, true, "|renewed|busy|gone|"},
    [H_CANCEL] = {"cancel", JR_COLUMN_BOOL, true, NULL},
    [H_FOLLOWED] = {"followed", JR_COLUMN_BOOL, true, NULL},
};
static const struct jr_form heartbeat_form = JR_FORM("heartbeat", heartbeat_columns);

enum give_back_column {
	G_SETTLED = C_OTHERS
};
static const struct jr_form_column give_back_columns[] = {
    PAIR_COLUMNS,
    [G_SETTLED] = {"settled", JR_COLUMN_BOOL, true, NULL},
};
static const struct jr_form give_back_form = JR_FORM("give_back", give_back_columns);

void
jr_queue_add_give_back(
    struct jr_request *request, int64_t runner_id, const struct jr_claim_list *begun, const struct jr_outcome *outcome)
{
	char runner[24];
	struct pairs pairs;
	const char *values[6];

	init_pairs_of(&pairs, begun);
	values[0] = jr_print_int(runner, runner_id);
	values[1] = pairs.ids.text.data;
	values[2] = pairs.seqs.text.data;
	values[3] = jr_outcome_word(outcome->kind);
	values[4] = outcome->error_code;
	values[5] = outcome->error;
	jr_request_add(request, jr_sql_give_back, JR_COUNT(values), values);
	jr_request_expect(request, &give_back_form, 0, JR_ROWS_ANY);
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
	return (struct jr_given_row){.id = jr_pg_int(result, (int)index, C_ID, 0),
	    .claim_seq = jr_pg_int(result, (int)index, C_CLAIM_SEQ, 0),
	    .settled = jr_pg_bool(result, (int)index, G_SETTLED)};
}

void
jr_queue_add_heartbeat(
    struct jr_request *request, int64_t runner_id, struct jr_run *const *held, size_t count, int64_t lease_ms)
{
	char runner[24], lease[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs(&pairs, held, count);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_print_int(runner, runner_id);
	values[3] = jr_print_int(lease, lease_ms);
	jr_request_add(request, jr_sql_heartbeat, JR_COUNT(values), values);
	jr_request_expect(request, &heartbeat_form, count, count);
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
	const char *state = PQgetvalue(result, row, H_STATE);
	struct jr_beat_row beat = {.id = jr_pg_int(result, row, C_ID, 0),
	    .claim_seq = jr_pg_int(result, row, C_CLAIM_SEQ, 0),
	    .beat = JR_BEAT_GONE,
	    .cancel = jr_pg_bool(result, row, H_CANCEL),
	    .followed = jr_pg_bool(result, row, H_FOLLOWED)};

	if (strcmp(state, "renewed") == 0)
		beat.beat = JR_BEAT_RENEWED;
	else if (strcmp(state, "busy") == 0)
		beat.beat = JR_BEAT_BUSY;
	return beat;
}

/* The parameters of progress.sql, in their order. The runner's id is no array. */
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

enum written_column {
	W_FOLLOWED = C_OTHERS
};
static const struct jr_form_column progress_columns[] = {
    PAIR_COLUMNS,
    [W_FOLLOWED] = {"followed", JR_COLUMN_BOOL, true, NULL},
};
static const struct jr_form progress_form = JR_FORM("progress", progress_columns);

void
jr_progress_release(struct jr_progress *progress)
{
	free(progress->progress);
	free(progress->checkpoint);
	free(progress->output);
	*progress = (struct jr_progress){.id = 0};
}

void
jr_queue_add_progress(struct jr_request *request, int64_t runner_id, const struct jr_progress *items, size_t count)
{
	struct jr_pg_array arrays[T_COUNT];
	const char *values[T_COUNT];
	char runner[24];

	for (size_t i = 0; i < T_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++) {
		jr_pg_array_add_int(&arrays[T_ID], items[i].id);
		jr_pg_array_add_int(&arrays[T_CLAIM_SEQ], items[i].claim_seq);
		jr_pg_array_add(&arrays[T_PROGRESS], items[i].progress);
		jr_pg_array_add(&arrays[T_CHECKPOINT], items[i].checkpoint);
		jr_pg_array_add(&arrays[T_OUTPUT], items[i].output);
		jr_pg_array_add_int(&arrays[T_DROPPED], items[i].output_dropped);
	}
	for (size_t i = 0; i < T_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	values[T_RUNNER_ID] = jr_print_int(runner, runner_id);
	jr_request_add(request, jr_sql_progress, T_COUNT, values);
	jr_request_expect(request, &progress_form, 0, count);
	for (size_t i = 0; i < T_COUNT; i++)
		jr_pg_array_release(&arrays[i]);
}

size_t
jr_queue_count_written(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_written_row
jr_queue_read_written(const PGresult *result, size_t index)
{
	return (struct jr_written_row){.id = jr_pg_int(result, (int)index, C_ID, 0),
	    .claim_seq = jr_pg_int(result, (int)index, C_CLAIM_SEQ, 0),
	    .followed = jr_pg_bool(result, (int)index, W_FOLLOWED)};
}

static const struct jr_form_column expired_columns[] = {{"expired", JR_COLUMN_BOOL, true, NULL}};
static const struct jr_form expired_form = JR_FORM("expired", expired_columns);

void
jr_queue_add_expired(struct jr_request *request, const struct jr_claim_list *held)
{
	struct pairs pairs;
	const char *values[2];

	init_pairs_of(&pairs, held);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	jr_request_add(request, jr_sql_expired, JR_COUNT(values), values);
	jr_request_expect(request, &expired_form, 1, 1);
	release_pairs(&pairs);
}

bool
jr_queue_read_expired(const PGresult *result)
{
	return jr_pg_bool(result, 0, 0);
}

enum reclaim_column {
	R_RUNNER_ID = C_OTHERS,
	R_JOB_TYPE,
	R_ATTEMPTS,
	R_MAX_ATTEMPTS,
	R_BACKOFF_BASE,
	R_BACKOFF_CAP,
	R_LOCKED_BY
};
static const struct jr_form_column reclaim_columns[] = {
    PAIR_COLUMNS,
    [R_RUNNER_ID] = {"runner_id", JR_COLUMN_INT, true, NULL},
    [R_JOB_TYPE] = {"job_type", JR_COLUMN_TEXT, true, NULL},
    [R_ATTEMPTS] = {"attempts", JR_COLUMN_INT, true, NULL},
    [R_MAX_ATTEMPTS] = {"max_attempts", JR_COLUMN_INT, true, NULL},
    [R_BACKOFF_BASE] = {"backoff_base_ms", JR_COLUMN_INT, false, NULL},
    [R_BACKOFF_CAP] = {"backoff_cap_ms", JR_COLUMN_INT, false, NULL},
    [R_LOCKED_BY] = {"locked_by", JR_COLUMN_TEXT, true, NULL},
};
static const struct jr_form reclaim_form = JR_FORM("reclaim", reclaim_columns);

void
jr_queue_add_reclaim(struct jr_request *request, const struct jr_claim_list *held, int64_t after_id, int64_t limit)
{
	char after[24], most[24];
	struct pairs pairs;
	const char *values[4];

	init_pairs_of(&pairs, held);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_print_int(after, after_id);
	values[3] = jr_print_int(most, limit);
	jr_request_add(request, jr_sql_reclaim, JR_COUNT(values), values);
	jr_request_expect(request, &reclaim_form, 0, (size_t)limit);
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
	struct jr_expired_row expired = {.id = jr_pg_int(result, row, C_ID, 0),
	    .claim_seq = jr_pg_int(result, row, C_CLAIM_SEQ, 0),
	    .runner_id = jr_pg_int(result, row, R_RUNNER_ID, 0),
	    .attempts = jr_pg_int(result, row, R_ATTEMPTS, 0),
	    .max_attempts = jr_pg_int(result, row, R_MAX_ATTEMPTS, 0),
	    .backoff_base_ms = jr_pg_int(result, row, R_BACKOFF_BASE, -1),
	    .backoff_cap_ms = jr_pg_int(result, row, R_BACKOFF_CAP, -1)};

	snprintf(expired.job_type, sizeof(expired.job_type), "%s", PQgetvalue(result, row, R_JOB_TYPE));
	snprintf(expired.host, sizeof(expired.host), "%s", PQgetvalue(result, row, R_LOCKED_BY));
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

enum settle_column {
	S_STATUS = C_OTHERS,
	S_ATTEMPTS,
	S_MAX_ATTEMPTS,
	S_RUN_IN
};
static const struct jr_form_column settle_columns[] = {
    PAIR_COLUMNS,
    [S_STATUS] = {"status", JR_COLUMN_TEXT, true, ENDS},
    [S_ATTEMPTS] = {"attempts", JR_COLUMN_INT, true, NULL},
    [S_MAX_ATTEMPTS] = {"max_attempts", JR_COLUMN_INT, true, NULL},
    [S_RUN_IN] = {"run_in_ms", JR_COLUMN_INT, false, NULL},
};
static const struct jr_form settle_form = JR_FORM("settle", settle_columns);

void
jr_queue_add_settle(struct jr_request *request, const struct jr_settlement *settlements, size_t count)
{
	struct jr_pg_array arrays[P_COUNT];
	const char *values[P_COUNT];

	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++)
		add_settlement(arrays, &settlements[i]);
	for (size_t i = 0; i < P_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	jr_request_add(request, jr_sql_settle, P_COUNT, values);
	jr_request_expect(request, &settle_form, 0, count);
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
	struct jr_settled_row settled = {.id = jr_pg_int(result, row, C_ID, 0),
	    .claim_seq = jr_pg_int(result, row, C_CLAIM_SEQ, 0),
	    .attempts = jr_pg_int(result, row, S_ATTEMPTS, 0),
	    .max_attempts = jr_pg_int(result, row, S_MAX_ATTEMPTS, 0),
	    .run_in_ms = jr_pg_int(result, row, S_RUN_IN, -1)};

	snprintf(settled.status, sizeof(settled.status), "%s", PQgetvalue(result, row, S_STATUS));
	return settled;
}

enum resolve_column {
	A_ANSWER = C_OTHERS,
	A_STATUS,
	A_OUTCOME
};
static const struct jr_form_column resolve_columns[] = {
    PAIR_COLUMNS,
    [A_ANSWER] = {"answer", JR_COLUMN_TEXT, true, "|running|accepted|fenced|"},
    [A_STATUS] = {"status", JR_COLUMN_TEXT, false, "|running" ENDS},
    [A_OUTCOME] = {"outcome", JR_COLUMN_TEXT, true, NULL},
};
static const struct jr_form resolve_form = JR_FORM("resolve", resolve_columns);

void
jr_queue_add_resolve(struct jr_request *request, int64_t runner_id, struct jr_run *const *held, size_t count)
{
	char runner[24];
	struct pairs pairs;
	const char *values[3];

	init_pairs(&pairs, held, count);
	values[0] = pairs.ids.text.data;
	values[1] = pairs.seqs.text.data;
	values[2] = jr_print_int(runner, runner_id);
	jr_request_add(request, jr_sql_resolve, JR_COUNT(values), values);
	jr_request_expect(request, &resolve_form, count, count);
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
	const char *answer = PQgetvalue(result, row, A_ANSWER);
	struct jr_answer_row read = {.id = jr_pg_int(result, row, C_ID, 0),
	    .claim_seq = jr_pg_int(result, row, C_CLAIM_SEQ, 0),
	    .answer = JR_ANSWER_FENCED};

	snprintf(read.status, sizeof(read.status), "%s", PQgetvalue(result, row, A_STATUS));
	snprintf(read.outcome, sizeof(read.outcome), "%s", PQgetvalue(result, row, A_OUTCOME));
	if (strcmp(answer, "running") == 0)
		read.answer = JR_ANSWER_RUNNING;
	else if (strcmp(answer, "accepted") == 0)
		read.answer = JR_ANSWER_ACCEPTED;
	return read;
}
