/*
 * pg_batch: see pg_batch.h. A batch owns copies of its parameters and the results that have come.
 *
 * What must hold: the first failure is the batch's; what the server skipped because of it is none of its own.
 */
#include "pg/pg_batch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "pg/pg_form.h"
#include "sql_text.h"

#define JSONB_OID 3802 /* of pg_type: fixed since there is jsonb */

void
jr_batch_add_statement(struct jr_batch *batch, const char *sql, size_t count, const char *const *values)
{
	struct jr_batch_statement *s;

	batch->statements = jr_xrealloc(batch->statements, batch->count + 1, sizeof(*batch->statements));
	s = &batch->statements[batch->count++];
	*s = (struct jr_batch_statement){.sql = sql, .count = count};
	s->values = count > 0 ? jr_xcalloc(count, sizeof(char *)) : NULL;
	for (size_t i = 0; i < count; i++)
		s->values[i] = jr_xstrdup_or_null(values[i]);
}

static void
free_values(struct jr_batch_statement *statement)
{
	for (size_t i = 0; i < statement->count; i++)
		free(statement->values[i]);
	free(statement->values);
}

void
jr_batch_free(struct jr_batch *batch)
{
	if (batch == NULL)
		return;
	for (size_t i = 0; i < batch->count; i++) {
		free_values(&batch->statements[i]);
		if (batch->results != NULL)
			PQclear(batch->results[i]);
	}
	jr_pg_rows_release(&batch->rows);
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
	if (kind == JR_BATCH_WHOLE || kind == JR_BATCH_OPENING) {
		jr_pg_print_int(lock, times->lock_ms);
		jr_pg_print_int(statement, times->statement_ms);
		jr_batch_add_statement(batch, jr_sql_begin, 0, NULL);
		jr_batch_add_statement(batch, jr_sql_settings, JR_COUNT(settings), settings);
	}
	batch->first = batch->count;
	return batch;
}

/* BEGIN stays, the settings behind it go. */
void
jr_batch_bare(struct jr_batch *batch)
{
	assert(batch->owned == 0);
	batch->bare = true;
	while (batch->count > 1)
		free_values(&batch->statements[--batch->count]);
	batch->first = batch->count;
}

void
jr_batch_add(struct jr_batch *batch, const char *sql, size_t count, const char *const *values)
{
	jr_batch_add_statement(batch, sql, count, values);
	batch->owned++;
}

void
jr_batch_expect(struct jr_batch *batch, const struct jr_form *form, size_t least, size_t most)
{
	struct jr_batch_statement *statement = &batch->statements[batch->count - 1];

	statement->form = form;
	statement->least = least;
	statement->most = most;
}

bool
jr_batch_makes_sense(const struct jr_batch *batch, struct jr_err *err)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct jr_batch_statement *s = &batch->statements[i];

		if (s->form != NULL && !jr_form_check(s->form, batch->results[i], s->least, s->most, err))
			return false;
	}
	return true;
}

void
jr_batch_add_foreign(struct jr_batch *batch, const char *sql, const char *payload, size_t rows)
{
	jr_batch_add(batch, sql, 1, &payload);
	batch->statements[batch->count - 1].foreign = true;
	batch->rows.wanted = rows;
}

void
jr_batch_reply(struct jr_batch *batch, enum jr_pg_end end, const struct jr_err *err)
{
	struct jr_reply reply = {.end = end, .sent_ms = batch->sent_ms, .failed_at = batch->failed_at};

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
	const Oid jsonb = JSONB_OID; /* said, since a statement need not use $1 */

	batch->results = jr_xcalloc(batch->count, sizeof(PGresult *));
	for (size_t i = 0; i < batch->count; i++) {
		const struct jr_batch_statement *s = &batch->statements[i];

		if (!PQsendQueryParams(conn, s->sql, (int)s->count, s->foreign ? &jsonb : NULL,
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
	if (!batch->bare)
		jr_pg_result_error(result, &batch->err);
	else if (PQresultStatus(result) == PGRES_EMPTY_QUERY)
		jr_pg_fail(&batch->err, "42601", "there is no statement in it");
	else
		jr_pg_statement_error(result, &batch->err);
}

/* What is wrong is not for the server to say. */
static bool
refuse(struct jr_batch *batch, const char *sqlstate, const char *why)
{
	batch->failed = true;
	batch->failed_at = batch->at - batch->first;
	return jr_pg_fail(&batch->err, sqlstate, why);
}

void
jr_batch_refuse_rows(struct jr_batch *batch)
{
	refuse(batch, "54000", "its result is larger than 4 MiB");
}

bool
jr_batch_has_foreign(const struct jr_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->statements[i].foreign)
			return true;
	}
	return false;
}

bool
jr_batch_is_foreign(const struct jr_batch *batch)
{
	return batch->at < batch->count && batch->statements[batch->at].foreign;
}

static bool
is_good(ExecStatusType status)
{
	return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static bool
is_copy(ExecStatusType status)
{
	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

bool
jr_batch_take(struct jr_batch *batch, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_SINGLE_TUPLE) {
		if (!jr_pg_rows_take(&batch->rows, result))
			jr_batch_refuse_rows(batch);
		return !batch->failed;
	}
	if (is_copy(status)) {
		PQclear(result);
		return refuse(batch, "0A000", "COPY cannot be answered here");
	}
	if (!is_good(status))
		note_failure(batch, result);
	if (jr_batch_is_foreign(batch))
		result = jr_pg_rows_end(&batch->rows, result);
	if (batch->at < batch->count) {
		PQclear(batch->results[batch->at]);
		batch->results[batch->at] = result;
	} else
		PQclear(result);
	batch->answered = true;
	return true;
}

/*
 * libpq takes the wish for single rows when a statement has become the current one and nothing of its answer was seen.
 */
bool
jr_batch_end_answer(struct jr_batch *batch, PGconn *conn)
{
	if (!batch->answered)
		return false;
	batch->answered = false;
	batch->at++;
	if (jr_batch_is_foreign(batch))
		(void)PQsetSingleRowMode(conn); /* not after an error: then no row comes either */
	return true;
}
