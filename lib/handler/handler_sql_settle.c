/*
 * handler_sql_settle: the statement before COMMIT that settles the runs, and its result. See handler_sql_parts.h.
 *
 * A single run is settled here only if it succeeded. The runs of a batch are settled with any verdict; the owner of
 * each run decides what the verdict means: how long until the next attempt, and whether this was the last. What must
 * hold: the end that is reported later is the end that was written. So the owner is asked once for each transaction,
 * and its answer is kept.
 */
#include "handler/handler_sql_parts.h"

#include "pg/pg_form.h"
#include "sql_text.h"

#include <stdio.h>

/* The parameters of settle_group, in their order. All are arrays except the runner's id. */
enum settle_parameter {
	P_ID,
	P_CLAIM_SEQ,
	P_RUNNER_ID,
	P_OUTCOME,
	P_DELAY,
	P_ERROR_CODE,
	P_ERROR,
	P_COUNT
};

bool
jr_handler_sql_settle_judge(struct jr_handler_sql_work *const *works, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct jr_work_end end = jr_handler_sql_end_report(&works[i]->end);

		end.settled = true;
		jr_outcome_release(&works[i]->outcome);
		if (!works[i]->owner.judge(works[i]->owner.ctx, &end, &works[i]->outcome))
			return false;
	}
	return true;
}

void
jr_handler_sql_settle_add_one(struct jr_request *request, const struct jr_run *run, const char *result)
{
	char id[24], claim[24], runner_id[24];
	const char *values[] = {jr_print_int(id, run->id), jr_print_int(claim, run->claim_seq),
	    jr_print_int(runner_id, run->runner_id), result};

	jr_request_add(request, jr_sql_settle_one, JR_COUNT(values), values);
}

static void
add_work(struct jr_pg_array arrays[P_COUNT], const struct jr_handler_sql_work *work)
{
	const struct jr_outcome *outcome = &work->outcome;

	jr_pg_array_add_int(&arrays[P_ID], work->run->id);
	jr_pg_array_add_int(&arrays[P_CLAIM_SEQ], work->run->claim_seq);
	jr_pg_array_add(&arrays[P_OUTCOME], jr_outcome_word(outcome->kind));
	jr_pg_array_add_int(&arrays[P_DELAY], outcome->delay_ms);
	jr_pg_array_add(&arrays[P_ERROR_CODE], outcome->error_code);
	jr_pg_array_add(&arrays[P_ERROR], outcome->error);
}

/* The columns of settle_group. */
enum group_column {
	G_ID,
	G_STATUS,
	G_RUN_IN
};
static const struct jr_form_column group_columns[] = {
    [G_ID] = {"id", JR_COLUMN_INT, true, NULL},
    [G_STATUS] = {"status", JR_COLUMN_TEXT, true, "|queued|failed|succeeded|dead|cancelled|"},
    [G_RUN_IN] = {"run_in_ms", JR_COLUMN_INT, false, NULL},
};
static const struct jr_form group_form = JR_FORM("settle_group", group_columns);

static bool
have_all_succeeded(struct jr_handler_sql_work *const *works, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (works[i]->outcome.kind != JR_OUT_SUCCEEDED)
			return false;
	}
	return true;
}

/* The usual case, and cheaper: there is nothing to say of each run, and nothing to read back. */
static void
add_done(struct jr_request *request, struct jr_handler_sql_work *const *works, size_t count)
{
	struct jr_pg_array ids, claim_seqs;
	const char *values[3];
	char runner_id[24];

	jr_pg_array_init(&ids);
	jr_pg_array_init(&claim_seqs);
	for (size_t i = 0; i < count; i++) {
		jr_pg_array_add_int(&ids, works[i]->run->id);
		jr_pg_array_add_int(&claim_seqs, works[i]->run->claim_seq);
	}
	values[0] = jr_pg_array_end(&ids);
	values[1] = jr_pg_array_end(&claim_seqs);
	values[2] = jr_print_int(runner_id, works[0]->run->runner_id);
	jr_request_add(request, jr_sql_settle_done, JR_COUNT(values), values);
	jr_pg_array_release(&ids);
	jr_pg_array_release(&claim_seqs);
}

static void
add_group(struct jr_request *request, struct jr_handler_sql_work *const *works, size_t count)
{
	struct jr_pg_array arrays[P_COUNT];
	const char *values[P_COUNT];
	char runner_id[24];

	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_init(&arrays[i]);
	for (size_t i = 0; i < count; i++)
		add_work(arrays, works[i]);
	for (size_t i = 0; i < P_COUNT; i++)
		values[i] = jr_pg_array_end(&arrays[i]);
	values[P_RUNNER_ID] = jr_print_int(runner_id, works[0]->run->runner_id);
	jr_request_add(request, jr_sql_settle_group, P_COUNT, values);
	jr_request_expect(request, &group_form, count, count);
	for (size_t i = 0; i < P_COUNT; i++)
		jr_pg_array_release(&arrays[i]);
}

void
jr_handler_sql_settle_add_batch(struct jr_request *request, struct jr_handler_sql_work *const *works, size_t count)
{
	if (have_all_succeeded(works, count))
		add_done(request, works, count);
	else
		add_group(request, works, count);
}

void
jr_handler_sql_settle_read(const PGresult *result, struct jr_handler_sql_work *const *works, size_t count)
{
	/* settle_done returns nothing: it raises an error unless it has ended all. */
	if (have_all_succeeded(works, count))
		return;
	for (int row = 0; row < PQntuples(result); row++) {
		struct jr_handler_sql_work *work =
		    jr_handler_sql_find_work(works, count, (size_t)row, jr_pg_int(result, row, G_ID, 0));
		struct jr_outcome *outcome;

		if (work == NULL)
			continue;
		outcome = &work->outcome;
		(void)snprintf(outcome->status, sizeof(outcome->status), "%s", PQgetvalue(result, row, G_STATUS));
		outcome->left_ms = jr_pg_int(result, row, G_RUN_IN, -1);
	}
}
