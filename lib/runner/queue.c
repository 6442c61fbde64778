/*
 * queue: see queue.h. This file has claims and the runner's own row; queue_settle.c has the writes about held runs,
 * queue_fire.c schedules, and queue_candidates.c what is done with the rows of candidates.
 *
 * Parameters and columns stand in the order that the comment at the head of each .sql file gives. The form of an answer
 * stands in front of its statement; an answer of another form is never read.
 */
#include "runner/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "pg/need.h"
#include "pg/pg_array.h"
#include "sql_text.h"

void
jr_queue_add_need(struct jr_request *request)
{
	struct jr_need need;

	jr_need_init(&need);
	jr_request_add(request, jr_sql_need, JR_COUNT(need.values), need.values);
}

/* --- parameters --- */

static void
begin(struct jr_bound *bound, const char *sql, const struct jr_form *form, size_t least, size_t most)
{
	*bound = (struct jr_bound){.sql = sql, .form = form, .least = least, .most = most};
}

static void
put_text(struct jr_bound *bound, const char *text)
{
	bound->values[bound->count++] = text;
}

static void
put_int(struct jr_bound *bound, int64_t number)
{
	put_text(bound, jr_print_int(bound->numbers[bound->number_count++], number));
}

static void
put_interval(struct jr_bound *bound, int64_t ms)
{
	char *number = bound->numbers[bound->number_count++];

	snprintf(number, sizeof(bound->numbers[0]), "%" PRId64 "ms", ms);
	put_text(bound, number);
}

static void
add(struct jr_request *request, const struct jr_bound *bound)
{
	jr_request_add(request, bound->sql, bound->count, bound->values);
	jr_request_expect(request, bound->form, bound->least, bound->most);
}

/* --- the runner's row --- */

/* A statement whose one parameter is the runner. */
static void
add_of_runner(struct jr_request *request, const char *sql, int64_t runner_id)
{
	char id[24];
	const char *values[] = {jr_print_int(id, runner_id)};

	jr_request_add(request, sql, JR_COUNT(values), values);
}

enum start_column {
	B_JOB_TYPE, /* the first three are those of candidates */
	B_QUEUE,
	B_PRIORITY,
	B_ID,
	B_INSTALL_ID,
	B_DATABASE,
	B_IDLE_SESSION,
	B_EXPIRED,
	B_SLOT_DUE,
	B_LOOKS,
	B_OVER,
	B_COPIED
};
static const struct jr_form_column start_columns[] = {
    [B_JOB_TYPE] = {"job_type", JR_COLUMN_TEXT, false, NULL},
    [B_QUEUE] = {"queue", JR_COLUMN_TEXT, false, NULL},
    [B_PRIORITY] = {"priority", JR_COLUMN_INT, false, NULL},
    [B_ID] = {"id", JR_COLUMN_INT, true, NULL},
    [B_INSTALL_ID] = {"install_id", JR_COLUMN_TEXT, true, NULL},
    [B_DATABASE] = {"database", JR_COLUMN_TEXT, true, NULL},
    [B_IDLE_SESSION] = {"idle_session_timeout", JR_COLUMN_TEXT, false, NULL},
    [B_EXPIRED] = {"expired", JR_COLUMN_BOOL, true, NULL},
    [B_SLOT_DUE] = {"slot_due", JR_COLUMN_BOOL, true, NULL},
    [B_LOOKS] = {"looks", JR_COLUMN_BOOL, true, NULL},
    [B_OVER] = {"over", JR_COLUMN_BOOL, true, NULL},
    [B_COPIED] = {"copied", JR_COLUMN_TEXT, false, NULL},
};
static const struct jr_form start_form = JR_FORM("runner_start", start_columns);

void
jr_queue_bind_runner_start(
    struct jr_bound *bound, const struct jr_runner_facts *facts, int64_t most, const char *counts, bool needed)
{
	begin(bound, jr_sql_runner_start, &start_form, 0, JR_ROWS_ANY);
	put_int(bound, facts->id);
	put_text(bound, facts->host);
	put_int(bound, facts->pid);
	put_text(bound, facts->version);
	put_text(bound, facts->job_types);
	put_text(bound, facts->queues);
	put_int(bound, facts->permits);
	if (facts->linger_ms > 0)
		put_interval(bound, facts->linger_ms);
	else
		put_text(bound, NULL);
	put_int(bound, most);
	put_text(bound, counts);
	put_text(bound, facts->refused);
	put_interval(bound, facts->heartbeat_ms);
	put_text(bound, needed ? NULL : jr_functions_checksum);
}

void
jr_queue_add_runner_start(
    struct jr_request *request, const struct jr_runner_facts *facts, int64_t most, const char *counts, bool needed)
{
	struct jr_bound bound;

	jr_queue_bind_runner_start(&bound, facts, most, counts, needed);
	add(request, &bound);
}

/* A parameter of the server as SHOW prints it: a number with ms, s, min, h or d; 0 and what is not there: 0. */
static int64_t
shown_ms(const char *shown)
{
	int len = (int)strlen(shown);
	struct jr_err err;
	int64_t ms = 0;
	char *text;

	text = jr_xasprintf("%.*s", len > 3 && strcmp(shown + len - 3, "min") == 0 ? len - 2 : len, shown);
	if (!jr_parse_duration("idle_session_timeout", text, &ms, &err))
		ms = 0;
	free(text);
	return ms;
}

bool
jr_queue_read_runner_start(const PGresult *result, struct jr_started *started)
{
	if (PQntuples(result) == 0)
		return false;
	*started = (struct jr_started){.install_id = PQgetvalue(result, 0, B_INSTALL_ID),
	    .database = PQgetvalue(result, 0, B_DATABASE),
	    .idle_session_ms = shown_ms(PQgetvalue(result, 0, B_IDLE_SESSION)),
	    .expired = jr_pg_bool(result, 0, B_EXPIRED),
	    .slot_due = jr_pg_bool(result, 0, B_SLOT_DUE),
	    .looks = jr_pg_bool(result, 0, B_LOOKS),
	    .over = jr_pg_bool(result, 0, B_OVER),
	    .copied = jr_pg_text(result, 0, B_COPIED)};
	return true;
}

static const struct jr_form_column seen_columns[] = {{"here", JR_COLUMN_BOOL, true, NULL}};
static const struct jr_form seen_form = JR_FORM("runner_seen", seen_columns);

void
jr_queue_add_runner_seen(struct jr_request *request, int64_t runner_id)
{
	add_of_runner(request, jr_sql_runner_seen, runner_id);
	jr_request_expect(request, &seen_form, 1, 1);
}

bool
jr_queue_read_runner_seen(const PGresult *result)
{
	return jr_pg_bool(result, 0, 0);
}

void
jr_queue_add_runner_finish(struct jr_request *request, int64_t runner_id, const char *counts, int64_t claim_number)
{
	char id[24], number[24];
	const char *values[] = {jr_print_int(id, runner_id), counts, jr_print_int(number, claim_number)};

	jr_request_add(request, jr_sql_runner_finish, JR_COUNT(values), values);
}

static const struct jr_form_column backend_columns[] = {{"pid", JR_COLUMN_INT, true, NULL}};
static const struct jr_form backend_form = JR_FORM("backend", backend_columns);

void
jr_queue_add_backend(struct jr_request *request)
{
	jr_request_add(request, jr_sql_backend, 0, NULL);
	jr_request_expect(request, &backend_form, 1, 1);
}

int64_t
jr_queue_read_backend(const PGresult *result)
{
	return jr_pg_int(result, 0, 0, 0);
}

void
jr_queue_add_listen(struct jr_request *request)
{
	jr_request_add(request, jr_sql_listen, 0, NULL);
}

static const struct jr_form_column successor_columns[] = {{"found", JR_COLUMN_BOOL, true, NULL}};
static const struct jr_form successor_form = JR_FORM("successor", successor_columns);

void
jr_queue_add_successor(struct jr_request *request, int64_t runner_id, int64_t least_ms)
{
	char id[24], least[24];
	const char *values[] = {jr_print_int(id, runner_id), jr_print_int(least, least_ms)};

	jr_request_add(request, jr_sql_successor, JR_COUNT(values), values);
	jr_request_expect(request, &successor_form, 1, 1);
}

bool
jr_queue_read_successor(const PGresult *result)
{
	return jr_pg_bool(result, 0, 0);
}

void
jr_queue_add_linger_end(struct jr_request *request, int64_t runner_id)
{
	add_of_runner(request, jr_sql_linger_end, runner_id);
}

enum candidate_column {
	K_JOB_TYPE,
	K_QUEUE,
	K_PRIORITY,
	K_LOOK_MS
};
static const struct jr_form_column candidates_columns[] = {
    [K_JOB_TYPE] = {"job_type", JR_COLUMN_TEXT, false, NULL},
    [K_QUEUE] = {"queue", JR_COLUMN_TEXT, false, NULL},
    [K_PRIORITY] = {"priority", JR_COLUMN_INT, false, NULL},
    [K_LOOK_MS] = {"look_ms", JR_COLUMN_INT, true, NULL},
};
static const struct jr_form candidates_form = JR_FORM("candidates", candidates_columns);

void
jr_queue_add_candidates(struct jr_request *request, const struct jr_runner_facts *facts, int64_t most)
{
	struct jr_bound bound;

	begin(&bound, jr_sql_candidates, &candidates_form, 1, JR_ROWS_ANY);
	put_text(&bound, facts->job_types);
	put_text(&bound, facts->queues);
	put_int(&bound, most);
	put_text(&bound, facts->host);
	add(request, &bound);
}

int64_t
jr_queue_read_look_ms(const PGresult *result)
{
	return jr_pg_int(result, 0, K_LOOK_MS, 0);
}

/* The columns of claim, claim_job, exec_claim and adopt, in their order. */
enum run_column {
	C_ID,
	C_CLAIM_SEQ,
	C_JOB_TYPE,
	C_QUEUE,
	C_PRIORITY,
	C_RUN_AT,
	C_ATTEMPTS,
	C_MAX_ATTEMPTS,
	C_SNOOZES,
	C_RELEASES,
	C_TIMEOUT,
	C_BACKOFF_BASE,
	C_BACKOFF_CAP,
	C_EXPIRED,
	C_CANCELLED,
	C_KEY,
	C_SLOT,
	C_CHECKPOINT,
	C_TRACE_CONTEXT,
	C_PAYLOAD,
	C_RUNNER_ID,
	C_STARTED,
	C_SLOT_LOCAL,
	C_LEASE_LEFT /* of adopt; the others have tid there, which is not read */
};
static const struct jr_form_column run_columns[] = {
    [C_ID] = {"id", JR_COLUMN_INT, true, NULL},
    [C_CLAIM_SEQ] = {"claim_seq", JR_COLUMN_INT, true, NULL},
    [C_JOB_TYPE] = {"job_type", JR_COLUMN_TEXT, true, NULL},
    [C_QUEUE] = {"queue", JR_COLUMN_TEXT, true, NULL},
    [C_PRIORITY] = {"priority", JR_COLUMN_INT, true, NULL},
    [C_RUN_AT] = {"run_at", JR_COLUMN_TEXT, true, NULL},
    [C_ATTEMPTS] = {"attempts", JR_COLUMN_INT, true, NULL},
    [C_MAX_ATTEMPTS] = {"max_attempts", JR_COLUMN_INT, true, NULL},
    [C_SNOOZES] = {"snoozes", JR_COLUMN_INT, true, NULL},
    [C_RELEASES] = {"releases", JR_COLUMN_INT, true, NULL},
    [C_TIMEOUT] = {"timeout_ms", JR_COLUMN_INT, false, NULL},
    [C_BACKOFF_BASE] = {"backoff_base_ms", JR_COLUMN_INT, false, NULL},
    [C_BACKOFF_CAP] = {"backoff_cap_ms", JR_COLUMN_INT, false, NULL},
    [C_EXPIRED] = {"expired", JR_COLUMN_BOOL, true, NULL},
    [C_CANCELLED] = {"cancelled", JR_COLUMN_BOOL, true, NULL},
    [C_KEY] = {"key", JR_COLUMN_TEXT, true, NULL},
    [C_SLOT] = {"slot", JR_COLUMN_TEXT, false, NULL},
    [C_CHECKPOINT] = {"checkpoint", JR_COLUMN_TEXT, false, NULL},
    [C_TRACE_CONTEXT] = {"trace_context", JR_COLUMN_TEXT, false, NULL},
    [C_PAYLOAD] = {"payload", JR_COLUMN_TEXT, true, NULL},
    [C_RUNNER_ID] = {"runner_id", JR_COLUMN_INT, true, NULL},
    [C_STARTED] = {"started_ms", JR_COLUMN_INT, true, NULL},
    [C_SLOT_LOCAL] = {"slot_local", JR_COLUMN_TEXT, false, NULL},
    [C_LEASE_LEFT] = {"lease_left_ms", JR_COLUMN_INT, true, NULL},
};
#define CLAIM_FORM(name) .statement = (name), .columns = run_columns, .count = C_LEASE_LEFT
/* Rows that are no run: a queue that was left out, where to go on, or why the one run is not to be started. */
static const struct jr_form claim_form = {
    CLAIM_FORM("claim"), .notes = 1u << C_QUEUE | 1u << C_PRIORITY | 1u << C_RUN_AT | 1u << C_CLAIM_SEQ};
static const struct jr_form claim_job_form = {CLAIM_FORM("claim_job"), .notes = 1u << C_QUEUE | 1u << C_PAYLOAD};
static const struct jr_form exec_claim_form = {
    CLAIM_FORM("exec_claim"), .notes = 1u << C_JOB_TYPE | 1u << C_QUEUE | 1u << C_PAYLOAD};
const struct jr_form jr_form_adopt = JR_FORM("adopt", run_columns);

static void
put_cursor(struct jr_bound *bound, const struct jr_cursor *cursor)
{
	if (cursor->set) {
		put_int(bound, cursor->priority);
		put_text(bound, cursor->run_at);
		put_int(bound, cursor->id);
	} else {
		put_text(bound, NULL);
		put_text(bound, NULL);
		put_text(bound, NULL);
	}
}

void
jr_queue_bind_claim(struct jr_bound *bound, const struct jr_runner_facts *facts, const struct jr_candidates *candidates,
    const struct jr_cursor *cursor, const struct jr_claim_size *size, int64_t lease_ms, int64_t number)
{
	begin(bound, jr_sql_claim, &claim_form, 0, size->n + size->ahead);
	put_int(bound, facts->id);
	put_text(bound, facts->host);
	put_int(bound, (int64_t)size->n);
	put_text(bound, candidates->types);
	put_text(bound, candidates->queues);
	put_text(bound, candidates->priorities);
	put_cursor(bound, cursor);
	put_int(bound, lease_ms);
	put_int(bound, number);
	put_int(bound, (int64_t)size->ahead);
	put_text(bound, size->ahead_types != NULL ? size->ahead_types : "{}");
}

void
jr_queue_add_claim(struct jr_request *request, const struct jr_runner_facts *facts,
    const struct jr_candidates *candidates, const struct jr_cursor *cursor, const struct jr_claim_size *size,
    int64_t lease_ms, int64_t number)
{
	struct jr_bound bound;

	jr_queue_bind_claim(&bound, facts, candidates, cursor, size, lease_ms, number);
	add(request, &bound);
}

void
jr_queue_bind_claim_job(
    struct jr_bound *bound, const struct jr_runner_facts *facts, int64_t id, int64_t lease_ms, int64_t number)
{
	begin(bound, jr_sql_claim_job, &claim_job_form, 0, 1);
	put_int(bound, facts->id);
	put_text(bound, facts->host);
	put_int(bound, id);
	put_int(bound, lease_ms);
	put_text(bound, facts->job_types);
	put_int(bound, number);
}

void
jr_queue_add_claim_job(
    struct jr_request *request, const struct jr_runner_facts *facts, int64_t id, int64_t lease_ms, int64_t number)
{
	struct jr_bound bound;

	jr_queue_bind_claim_job(&bound, facts, id, lease_ms, number);
	add(request, &bound);
}

void
jr_queue_add_exec_claim(struct jr_request *request, const struct jr_runner_facts *facts, const char *definition,
    int64_t lease_ms, int64_t timeout_ms, const char *argv, int64_t number)
{
	char runner[24], lease[24], timeout[24], nth[24];
	const char *values[] = {jr_print_int(runner, facts->id), facts->host, definition, jr_print_int(lease, lease_ms),
	    timeout_ms >= 0 ? jr_print_int(timeout, timeout_ms) : NULL, argv, jr_print_int(nth, number)};

	jr_request_add(request, jr_sql_exec_claim, JR_COUNT(values), values);
	jr_request_expect(request, &exec_claim_form, 0, 1);
}

static const struct jr_form_column preview_columns[] = {
    {"id", JR_COLUMN_INT, false, NULL},
    {"job_type", JR_COLUMN_TEXT, true, NULL},
    {"queue", JR_COLUMN_TEXT, true, NULL},
    {"priority", JR_COLUMN_INT, true, NULL},
    {"try", JR_COLUMN_TEXT, false, NULL},
    {"due_for_ms", JR_COLUMN_INT, true, NULL},
    {"definition", JR_COLUMN_TEXT, false, NULL},
    {"doc", JR_COLUMN_TEXT, true, NULL},
};
static const struct jr_form preview_form = JR_FORM("preview", preview_columns);

void
jr_queue_bind_preview(struct jr_bound *bound, int64_t runner_id, size_t most, bool definitions)
{
	begin(bound, jr_sql_preview, &preview_form, 0, most);
	put_int(bound, runner_id);
	put_int(bound, (int64_t)most);
	put_text(bound, definitions ? "true" : "false");
}

static const struct jr_form_column claims_void_columns[] = {{"void", JR_COLUMN_BOOL, true, NULL}};
static const struct jr_form claims_void_form = JR_FORM("claims_void", claims_void_columns);

void
jr_queue_add_claims_void(struct jr_request *request, int64_t runner_id, int64_t number)
{
	char runner[24], nth[24];
	const char *values[] = {jr_print_int(runner, runner_id), jr_print_int(nth, number)};

	jr_request_add(request, jr_sql_claims_void, JR_COUNT(values), values);
	jr_request_expect(request, &claims_void_form, 1, 1);
}

bool
jr_queue_read_claims_void(const PGresult *result)
{
	return jr_pg_bool(result, 0, 0);
}

/* Rows that are no run; they come last. */
static size_t
count_notes(const PGresult *result)
{
	int rows = PQntuples(result), first = rows;

	while (first > 0 && PQgetisnull(result, first - 1, C_ID))
		first--;
	return (size_t)(rows - first);
}

bool
jr_queue_goes_on(const PGresult *result)
{
	int last = PQntuples(result) - 1;

	return count_notes(result) > 0 && !PQgetisnull(result, last, C_PRIORITY) &&
	       !PQgetisnull(result, last, C_RUN_AT) && !PQgetisnull(result, last, C_CLAIM_SEQ);
}

size_t
jr_queue_count_left_out(const PGresult *result)
{
	return count_notes(result) - (jr_queue_goes_on(result) ? 1 : 0);
}

const char *
jr_queue_read_left_out(const PGresult *result, size_t index)
{
	size_t after = index + (jr_queue_goes_on(result) ? 1 : 0);

	return PQgetvalue(result, PQntuples(result) - 1 - (int)after, C_QUEUE);
}

bool
jr_queue_read_not_claimed(const PGresult *result, struct jr_not_claimed *said)
{
	if (jr_queue_count_left_out(result) == 0)
		return false;
	*said = (struct jr_not_claimed){.queue = jr_pg_text(result, 0, C_QUEUE),
	    .definition = jr_pg_text(result, 0, C_JOB_TYPE),
	    .reason = jr_pg_text(result, 0, C_PAYLOAD)};
	return true;
}

size_t
jr_queue_count_runs(const PGresult *result)
{
	return (size_t)PQntuples(result) - count_notes(result);
}

size_t
jr_queue_count_bytes(const PGresult *result)
{
	size_t bytes = 0;

	for (int row = 0; row < PQntuples(result); row++)
		bytes += (size_t)PQgetlength(result, row, C_PAYLOAD);
	return bytes;
}

int64_t
jr_queue_read_lease_left(const PGresult *result, size_t index)
{
	return jr_pg_int(result, (int)index, C_LEASE_LEFT, 0);
}

static char *
copy_text(const PGresult *result, int row, enum run_column column)
{
	return jr_xstrdup_or_null(jr_pg_text(result, row, (int)column));
}

static void
move_cursor(struct jr_cursor *cursor, const PGresult *result, int row, enum run_column id)
{
	cursor->set = true;
	cursor->in_vain = false;
	cursor->id = jr_pg_int(result, row, (int)id, 0);
	cursor->priority = jr_pg_int(result, row, C_PRIORITY, 0);
	snprintf(cursor->run_at, sizeof(cursor->run_at), "%s", PQgetvalue(result, row, C_RUN_AT));
}

void
jr_queue_read_goes_on(const PGresult *result, struct jr_cursor *cursor)
{
	bool in_vain = jr_queue_count_runs(result) == 0 && (!cursor->set || cursor->in_vain);

	move_cursor(cursor, result, PQntuples(result) - 1, C_CLAIM_SEQ);
	cursor->in_vain = in_vain;
}

struct jr_run *
jr_queue_read_run(const PGresult *result, size_t index, struct jr_cursor *cursor)
{
	struct jr_run *run = jr_xcalloc(1, sizeof(*run));
	int row = (int)index;

	run->id = jr_pg_int(result, row, C_ID, 0);
	run->claim_seq = jr_pg_int(result, row, C_CLAIM_SEQ, 0);
	run->runner_id = jr_pg_int(result, row, C_RUNNER_ID, 0);
	run->started_ms = jr_pg_int(result, row, C_STARTED, 0);
	run->attempts = jr_pg_int(result, row, C_ATTEMPTS, 0);
	run->max_attempts = jr_pg_int(result, row, C_MAX_ATTEMPTS, 0);
	run->snoozes = jr_pg_int(result, row, C_SNOOZES, 0);
	run->releases = jr_pg_int(result, row, C_RELEASES, 0);
	run->timeout_ms = jr_pg_int(result, row, C_TIMEOUT, -1);
	run->grace_ms = -1;
	run->backoff_base_ms = jr_pg_int(result, row, C_BACKOFF_BASE, -1);
	run->backoff_cap_ms = jr_pg_int(result, row, C_BACKOFF_CAP, -1);
	run->expired = jr_pg_bool(result, row, C_EXPIRED);
	run->cancelled = jr_pg_bool(result, row, C_CANCELLED);
	run->job_type = copy_text(result, row, C_JOB_TYPE);
	run->queue = copy_text(result, row, C_QUEUE);
	run->payload = copy_text(result, row, C_PAYLOAD);
	run->key = copy_text(result, row, C_KEY);
	run->slot = copy_text(result, row, C_SLOT);
	run->slot_local = copy_text(result, row, C_SLOT_LOCAL);
	run->checkpoint = copy_text(result, row, C_CHECKPOINT);
	run->trace_context = copy_text(result, row, C_TRACE_CONTEXT);
	if (cursor != NULL)
		move_cursor(cursor, result, row, C_ID);
	return run;
}
