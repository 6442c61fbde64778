/*
 * pg_batch: see pg_batch.h. A batch owns copies of its parameters and the results that have come.
 *
 * What must hold: the first failure is the batch's; what the server skipped because of it is none of its own.
 */
#include "pg_batch.h"

#include <stdlib.h>

#include "mem.h"
#include "sql_text.h"

void
jr_batch_add_statement(
    struct jr_batch *batch, const char *sql, size_t count, const char *const *values)
{
	struct jr_batch_statement *s;

	batch->statements =
	    jr_xrealloc(batch->statements, batch->count + 1, sizeof(*batch->statements));
	s = &batch->statements[batch->count++];
	s->sql = sql;
	s->count = count;
	s->values = count > 0 ? jr_xcalloc(count, sizeof(char *)) : NULL;
	for (size_t i = 0; i < count; i++)
		s->values[i] = jr_xstrdup_or_null(values[i]);
}

void
jr_batch_free(struct jr_batch *batch)
{
	if (batch == NULL)
		return;
	for (size_t i = 0; i < batch->count; i++) {
		for (size_t j = 0; j < batch->statements[i].count; j++)
			free(batch->statements[i].values[j]);
		free(batch->statements[i].values);
		if (batch->results != NULL)
			PQclear(batch->results[i]);
	}
	free(batch->statements);
	free(batch->results);
	free(batch);
}

struct jr_batch *
jr_batch_new(enum jr_batch_kind kind, const struct jr_lease *times, jr_reply_fn *fn, void *ctx)
{
	struct jr_batch *batch = jr_xcalloc(1, sizeof(*batch));
	char lock[24], statement[24];
	const char *settings[] = {lock, statement};

	batch->kind = kind;
	batch->deadline_ms = times->deadline_ms;
	batch->fn = fn;
	batch->ctx = ctx;
	if (kind != JR_BATCH_CLOSING) {
		jr_pg_print_int(lock, times->lock_ms);
		jr_pg_print_int(statement, times->statement_ms);
		jr_batch_add_statement(batch, jr_sql_begin, 0, NULL);
		jr_batch_add_statement(batch, jr_sql_settings, JR_COUNT(settings), settings);
	}
	batch->first = batch->count;
	return batch;
}

void
jr_batch_add(struct jr_batch *batch, const char *sql, size_t count, const char *const *values)
{
	jr_batch_add_statement(batch, sql, count, values);
	batch->owned++;
}

void
jr_batch_reply(struct jr_batch *batch, enum jr_pg_end end, const struct jr_err *err)
{
	struct jr_reply reply = {
	    .end = end, .sent_ms = batch->sent_ms, .failed_at = batch->failed_at};

	reply.result_count = batch->owned;
	if (end == JR_PG_DONE)
		reply.results = batch->results + batch->first;
	else
		reply.err = *err;
	if (batch->fn != NULL)
		batch->fn(batch->ctx, &reply);
	jr_batch_free(batch);
}

bool
jr_batch_send(struct jr_batch *batch, PGconn *conn)
{
	batch->results = jr_xcalloc(batch->count, sizeof(PGresult *));
	for (size_t i = 0; i < batch->count; i++) {
		const struct jr_batch_statement *s = &batch->statements[i];

		if (!PQsendQueryParams(conn, s->sql, (int)s->count, NULL,
			(const char *const *)s->values, NULL, NULL, 0))
			return false;
	}
	return PQpipelineSync(conn) == 1;
}

static void
note_failure(struct jr_batch *batch, const PGresult *result)
{
	if (batch->failed || PQresultStatus(result) == PGRES_PIPELINE_ABORTED)
		return;
	batch->failed = true;
	batch->failed_at = batch->at < batch->first ? 0 : batch->at - batch->first;
	jr_pg_result_error(result, &batch->err);
}

void
jr_batch_take(struct jr_batch *batch, PGresult *result)
{
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		note_failure(batch, result);
	if (batch->at < batch->count) {
		PQclear(batch->results[batch->at]);
		batch->results[batch->at] = result;
	} else
		PQclear(result);
	batch->answered = true;
}

bool
jr_batch_end_answer(struct jr_batch *batch)
{
	if (!batch->answered)
		return false;
	batch->answered = false;
	batch->at++;
	return true;
}
