/*
 * pg_request: see pg_request.h. A request owns copies of its parameters and the results that have come.
 *
 * What must hold: the first failure is reported as the request's failure; the statements that the server skips because
 * of it do not count as failures.
 */
#include "pg/pg_request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "pg/pg_form.h"
#include "sql_text.h"

#define JSONB_OID 3802 /* in pg_type; never changes */

void
jr_request_add_statement(struct jr_request *request, const char *sql, size_t count, const char *const *values)
{
	struct jr_request_statement *s;

	request->statements = jr_xrealloc(request->statements, request->count + 1, sizeof(*request->statements));
	s = &request->statements[request->count++];
	*s = (struct jr_request_statement){.sql = sql, .count = count};
	s->values = count > 0 ? jr_xcalloc(count, sizeof(char *)) : NULL;
	for (size_t i = 0; i < count; i++)
		s->values[i] = jr_xstrdup_or_null(values[i]);
}

static void
free_values(struct jr_request_statement *statement)
{
	for (size_t i = 0; i < statement->count; i++)
		free(statement->values[i]);
	free(statement->values);
}

void
jr_request_free(struct jr_request *request)
{
	if (request == NULL)
		return;
	for (size_t i = 0; i < request->count; i++) {
		free_values(&request->statements[i]);
		if (request->results != NULL)
			PQclear(request->results[i]);
	}
	for (size_t i = 0; i < request->warning_count; i++)
		free(request->warnings[i]);
	jr_pg_rows_release(&request->rows);
	free(request->warnings);
	free(request->statements);
	free(request->results);
	free(request);
}

static void
add_parameters(struct jr_request *request, const struct jr_lease *times, const char *synchronous_commit)
{
	char lock[24], statement[24];
	const char *parameters[] = {
	    jr_print_int(lock, times->lock_ms), jr_print_int(statement, times->statement_ms), synchronous_commit};

	jr_request_add_statement(request, jr_sql_parameters, JR_COUNT(parameters), parameters);
	request->first = request->count;
}

struct jr_request *
jr_request_new(enum jr_request_kind kind, const struct jr_lease *times, jr_reply_fn *fn, void *ctx)
{
	struct jr_request *request = jr_xcalloc(1, sizeof(*request));

	request->kind = kind;
	request->deadline_ms = times->deadline_ms;
	request->fn = fn;
	request->ctx = ctx;
	if (kind == JR_REQUEST_WHOLE || kind == JR_REQUEST_OPENING) {
		jr_request_add_statement(request, jr_sql_begin, 0, NULL);
		add_parameters(request, times, "on");
	}
	return request;
}

/* Keep BEGIN and remove the parameters behind it. */
static void
remove_parameters(struct jr_request *request)
{
	assert(request->owned == 0);
	while (request->count > 1)
		free_values(&request->statements[--request->count]);
	request->first = request->count;
}

void
jr_request_bare(struct jr_request *request)
{
	remove_parameters(request);
	request->bare = true;
}

void
jr_request_told(struct jr_request *request)
{
	request->told = true;
}

void
jr_request_unflushed(struct jr_request *request, const struct jr_lease *times)
{
	remove_parameters(request);
	add_parameters(request, times, "off");
}

void
jr_request_clean(struct jr_request *request, const char *const *statements, size_t count)
{
	request->cleaning = statements;
	request->cleaning_count = count;
}

void
jr_request_add_rollback(struct jr_request *request, const struct jr_request *of)
{
	jr_request_add_statement(request, jr_sql_rollback, 0, NULL);
	if (of->cleaning_count == 0)
		return;
	jr_request_add_statement(request, jr_sql_begin, 0, NULL);
	for (size_t i = 0; i < of->cleaning_count; i++)
		jr_request_add_statement(request, of->cleaning[i], 0, NULL);
	jr_request_add_statement(request, jr_sql_commit, 0, NULL);
}

void
jr_request_add(struct jr_request *request, const char *sql, size_t count, const char *const *values)
{
	jr_request_add_statement(request, sql, count, values);
	request->owned++;
}

void
jr_request_expect(struct jr_request *request, const struct jr_form *form, size_t least, size_t most)
{
	struct jr_request_statement *statement = &request->statements[request->count - 1];

	statement->form = form;
	statement->least = least;
	statement->most = most;
}

bool
jr_request_makes_sense(const struct jr_request *request, struct jr_err *err)
{
	for (size_t i = 0; i < request->count; i++) {
		const struct jr_request_statement *s = &request->statements[i];

		if (s->form != NULL && !jr_form_check(s->form, request->results[i], s->least, s->most, err))
			return false;
	}
	return true;
}

void
jr_request_add_foreign(struct jr_request *request, const char *sql, const char *payload, size_t rows)
{
	jr_request_add(request, sql, 1, &payload);
	request->statements[request->count - 1].foreign = true;
	request->rows.wanted = rows;
}

void
jr_request_take_notice(struct jr_request *request, const struct jr_pg_events *events, const PGresult *notice)
{
	const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
	struct jr_err warning;

	if (state == NULL || strcmp(state, "JR001") != 0 || jr_request_has_foreign(request))
		return;
	jr_pg_logged_error(notice, &warning);
	request->events = events;
	request->warnings = jr_xrealloc(request->warnings, request->warning_count + 1, sizeof(*request->warnings));
	request->warnings[request->warning_count++] = jr_xstrdup(warning.msg);
}

static void
tell_warnings(const struct jr_request *request)
{
	for (size_t i = 0; i < request->warning_count; i++) {
		if (request->events->warned != NULL)
			request->events->warned(request->events->ctx, request->warnings[i]);
	}
}

void
jr_request_reply(struct jr_request *request, enum jr_pg_end end, const struct jr_err *err)
{
	struct jr_reply reply = {.end = end, .sent_ms = request->sent_ms, .failed_at = request->failed_at};

	reply.result_count = request->owned;
	if (end == JR_PG_DONE)
		reply.results = request->results + request->first;
	else
		reply.err = *err;
	if (request->fn != NULL)
		request->fn(request->ctx, &reply);
	if (end == JR_PG_DONE || end == JR_PG_UNKNOWN)
		tell_warnings(request);
	jr_request_free(request);
}

void
jr_request_reply_unsent(struct jr_request *request, const struct jr_err *err)
{
	while (request != NULL) {
		struct jr_request *next = request->next;

		jr_request_reply(request, JR_PG_UNSENT, err);
		request = next;
	}
}

bool
jr_request_send(struct jr_request *request, PGconn *conn)
{
	const Oid jsonb = JSONB_OID; /* given, since the server cannot infer it if the statement does not use $1 */

	request->results = jr_xcalloc(request->count, sizeof(PGresult *));
	for (size_t i = 0; i < request->count; i++) {
		const struct jr_request_statement *s = &request->statements[i];

		if (!PQsendQueryParams(conn, s->sql, (int)s->count, s->foreign ? &jsonb : NULL,
			(const char *const *)s->values, NULL, NULL, 0))
			return false;
	}
	return PQpipelineSync(conn) == 1;
}

static void
note_failure(struct jr_request *request, const PGresult *result)
{
	if (request->failed || PQresultStatus(result) == PGRES_PIPELINE_ABORTED)
		return;
	request->failed = true;
	request->failed_at = request->at < request->first ? 0 : request->at - request->first;
	if (!request->bare && request->told)
		jr_pg_result_error(result, &request->err);
	else if (!request->bare)
		jr_pg_logged_error(result, &request->err);
	else if (PQresultStatus(result) == PGRES_EMPTY_QUERY)
		jr_pg_fail(&request->err, "42601", "there is no statement in it");
	else
		jr_pg_statement_error(result, &request->err);
}

/* Fail the request with an error that this side found. Always false. */
static bool
refuse(struct jr_request *request, const char *sqlstate, const char *why)
{
	request->failed = true;
	request->failed_at = request->at - request->first;
	return jr_pg_fail(&request->err, sqlstate, why);
}

void
jr_request_refuse_rows(struct jr_request *request)
{
	refuse(request, "54000", "its result is larger than 4 MiB");
}

bool
jr_request_has_foreign(const struct jr_request *request)
{
	for (size_t i = 0; i < request->count; i++) {
		if (request->statements[i].foreign)
			return true;
	}
	return false;
}

bool
jr_request_is_foreign(const struct jr_request *request)
{
	return request->at < request->count && request->statements[request->at].foreign;
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
jr_request_take(struct jr_request *request, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_SINGLE_TUPLE) {
		if (!jr_pg_rows_take(&request->rows, result))
			jr_request_refuse_rows(request);
		return !request->failed;
	}
	if (is_copy(status)) {
		PQclear(result);
		return refuse(request, "0A000", "COPY is not supported here");
	}
	if (!is_good(status))
		note_failure(request, result);
	if (jr_request_is_foreign(request))
		result = jr_pg_rows_end(&request->rows, result);
	if (request->at < request->count) {
		PQclear(request->results[request->at]);
		request->results[request->at] = result;
	} else
		PQclear(result);
	request->answered = true;
	return true;
}

/*
 * libpq accepts PQsetSingleRowMode only when the statement is the current one and none of its answer was read.
 */
bool
jr_request_end_answer(struct jr_request *request, PGconn *conn)
{
	if (!request->answered)
		return false;
	request->answered = false;
	request->at++;
	if (jr_request_is_foreign(request))
		(void)PQsetSingleRowMode(conn); /* fails after an error; then no row comes either */
	return true;
}
