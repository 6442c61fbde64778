/*
 * wait_runs: see wait_runs.h.
 *
 * Each poll asks only for the runs that were not over at the last one. If somebody retries a run that was over, it is
 * not waited for again. Results are read at the end, a few at a time, since each may have a megabyte.
 */
#include "wait_runs.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "print.h"
#include "sql_text.h"
#include "waits.h"

#define PAUSE_BASE_MS 100 /* the shortest pause is half of it */
#define PAUSE_CAP_MS 1000
#define SLICE 50

/* clang-format off */
enum open_column { O_ID, O_TYPE, O_STATUS };
enum end_column { E_ID, E_TYPE, E_STATUS, E_TRIED, E_ERROR, E_RESULT, E_DOCUMENT, E_OLDER };
/* clang-format on */

struct awaiter {
	const struct jr_app *app;
	struct jr_db **db;
	const struct jr_wait_runs *wait;
	int64_t until;
	size_t printed;      /* number of documents */
	bool bad;            /* a run did not succeed */
	struct jr_buf words; /* a line for each run that did not succeed or was superseded */
};

static int64_t
rest_ms(const struct awaiter *a)
{
	int64_t rest = a->until - jr_clock_now_ms();

	return rest < 0 ? 0 : rest;
}

/* The schema was checked when the command began, so this only connects. */
static bool
ensure_open(struct awaiter *a, struct jr_err *err)
{
	const struct jr_db_waits waits = jr_waits_of(a->app);
	int64_t patience = rest_ms(a) < JR_CMD_PATIENCE_MS ? rest_ms(a) : JR_CMD_PATIENCE_MS;

	if (*a->db != NULL && jr_db_is_open(*a->db))
		return true;
	jr_db_close(*a->db);
	*a->db = jr_db_open(jr_db_conninfo(a->app->dbname, NULL), patience, &waits, err);
	if (*a->db != NULL)
		jr_db_needs_grant(*a->db, a->app->kind);
	return *a->db != NULL;
}

static PGresult *
ask_once(struct awaiter *a, const char *sql, const char *ids, struct jr_err *err)
{
	if (!ensure_open(a, err))
		return NULL;
	return jr_db_query(*a->db, sql, 1, &ids, JR_CMD_TIMEOUT_MS, err);
}

/* While the database cannot be reached, try again until the time is over. */
static PGresult *
ask(struct awaiter *a, const char *sql, const char *ids, struct jr_err *err)
{
	struct jr_err last;
	PGresult *result = ask_once(a, sql, ids, &last);

	while (result == NULL && last.code == JR_E_TEMP && rest_ms(a) > 0) {
		poll(NULL, 0, (int)(rest_ms(a) < PAUSE_CAP_MS ? rest_ms(a) : PAUSE_CAP_MS));
		result = ask_once(a, sql, ids, &last);
	}
	if (result == NULL)
		*err = last;
	return result;
}

static char *
array_of_ids(const int64_t *ids, size_t count)
{
	struct jr_pg_array array;
	char *text;

	jr_pg_array_init(&array);
	for (size_t i = 0; i < count; i++)
		jr_pg_array_add_int(&array, ids[i]);
	jr_pg_array_end(&array);
	text = jr_buf_detach(&array.text);
	jr_pg_array_release(&array);
	return text;
}

static char *
ids_of(const PGresult *result)
{
	size_t count = (size_t)PQntuples(result);
	int64_t *ids = jr_xcalloc(count + 1, sizeof(*ids));
	char *text;

	for (size_t i = 0; i < count; i++)
		ids[i] = jr_pg_int(result, (int)i, O_ID, 0);
	text = array_of_ids(ids, count);
	free(ids);
	return text;
}

/* The runs that are not over when the time is over; NULL on failure. */
static PGresult *
poll_until_over(struct awaiter *a, struct jr_err *err)
{
	char *ids = array_of_ids(a->wait->ids, a->wait->count);
	PGresult *left = ask(a, jr_sql_wait, ids, err);
	struct jr_random random;

	jr_random_seed_system(&random);
	for (int64_t n = 1; left != NULL && PQntuples(left) > 0 && rest_ms(a) > 0; n++) {
		int64_t pause = jr_backoff_ms(&random, n, PAUSE_BASE_MS, PAUSE_CAP_MS);

		free(ids);
		ids = ids_of(left);
		PQclear(left);
		poll(NULL, 0, (int)(pause < rest_ms(a) ? pause : rest_ms(a)));
		left = ask(a, jr_sql_wait, ids, err);
	}
	free(ids);
	return left;
}

static void
add_line(struct jr_buf *words, char *line)
{
	jr_buf_adds(words, line);
	jr_buf_addc(words, '\n');
	free(line);
}

static void
add_bad(struct jr_buf *words, const PGresult *result, int row)
{
	const char *id = PQgetvalue(result, row, E_ID), *type = PQgetvalue(result, row, E_TYPE);
	const char *status = jr_pg_text(result, row, E_STATUS);
	const char *error = jr_pg_text(result, row, E_ERROR);
	char *line;

	if (status == NULL)
		line = jr_xasprintf("there is no run %s that you may see", id);
	else if (strcmp(status, "dead") == 0)
		line = jr_xasprintf("run %s (%s) is dead%s%s%s; look with jobrun logs %s", id, type,
		    PQgetvalue(result, row, E_TRIED), error == NULL ? "" : ": ", error == NULL ? "" : error, id);
	else
		line = jr_xasprintf(
		    "run %s (%s) is %s%s%s", id, type, status, error == NULL ? "" : ": ", error == NULL ? "" : error);
	add_line(words, line);
}

/* Printed after the results: between them, on a terminal, the lines would break the JSON document. */
static void
print_words(struct jr_buf *words)
{
	char *rest = words->data;

	fflush(stdout);
	for (char *line = strsep(&rest, "\n"); rest != NULL; line = strsep(&rest, "\n"))
		jr_print_line(stderr, "jobrun: ", line);
}

static void
print_element(const struct awaiter *a, const char *document)
{
	if (a->printed == 0)
		jr_print_document_begin("{}");
	fputs(a->printed == 0 ? ",\"runs\":[" : ",\n ", stdout);
	jr_print_compact(document);
}

static void
print_result(const char *json)
{
	jr_print_json(json);
	putchar('\n');
}

static void
print_one(struct awaiter *a, const PGresult *result, int row)
{
	const char *status = jr_pg_text(result, row, E_STATUS);
	bool waits = status != NULL && (strcmp(status, "queued") == 0 || strcmp(status, "retrying") == 0 ||
					   strcmp(status, "running") == 0);

	if (a->wait->alone && a->app->json)
		jr_print_document(PQgetvalue(result, row, E_DOCUMENT));
	else if (a->app->json)
		print_element(a, PQgetvalue(result, row, E_DOCUMENT));
	else if (jr_pg_text(result, row, E_RESULT) != NULL)
		print_result(PQgetvalue(result, row, E_RESULT));
	a->printed++;
	if (jr_pg_text(result, row, E_OLDER) != NULL)
		add_line(&a->words, jr_xasprintf("run %s was superseded by run %s, which stands for it",
					PQgetvalue(result, row, E_OLDER), PQgetvalue(result, row, E_ID)));
	if (waits || (status != NULL && strcmp(status, "succeeded") == 0))
		return; /* fail_late reports the runs that are not over */
	a->bad = true;
	add_bad(&a->words, result, row);
}

static bool
print_all(struct awaiter *a, struct jr_err *err)
{
	bool ok = true;

	for (size_t i = 0; ok && i < a->wait->count; i += SLICE) {
		size_t count = a->wait->count - i < SLICE ? a->wait->count - i : SLICE;
		char *ids = array_of_ids(a->wait->ids + i, count);
		PGresult *result = ask(a, jr_sql_wait_end, ids, err);

		ok = result != NULL;
		for (int row = 0; ok && row < PQntuples(result); row++)
			print_one(a, result, row);
		PQclear(result);
		free(ids);
	}
	if (a->app->json && !a->wait->alone && a->printed > 0) {
		putchar(']');
		jr_print_document_end();
	}
	print_words(&a->words);
	return ok;
}

static void
fail_late(const struct awaiter *a, const PGresult *left, struct jr_err *err)
{
	char *time = jr_format_duration(a->wait->timeout_ms);
	const char *id = PQgetvalue(left, 0, O_ID), *type = PQgetvalue(left, 0, O_TYPE);
	const char *status = PQgetvalue(left, 0, O_STATUS);

	if (a->wait->count == 1)
		jr_fail(err, JR_E_TEMP, "run %s (%s) is not over after %s: it is %s", id, type, time, status);
	else
		jr_fail(err, JR_E_TEMP, "%d of %zu runs %s not over after %s; one is run %s (%s), which is %s",
		    PQntuples(left), a->wait->count, PQntuples(left) == 1 ? "is" : "are", time, id, type, status);
	free(time);
}

/* Who has just enqueued a run may not know its id. */
static void
name_run(int64_t id, struct jr_err *err)
{
	char *what =
	    jr_xasprintf("run %" PRId64 " was queued, and how it ends is not known (jobrun wait %" PRId64 ")", id, id);

	jr_fail_in(err, what);
	free(what);
}

int
jr_wait_runs(const struct jr_app *app, struct jr_db **db, const struct jr_wait_runs *wait, struct jr_err *err)
{
	struct awaiter a = {
	    .app = app, .db = db, .wait = wait, .until = jr_clock_after(jr_clock_now_ms(), wait->timeout_ms)};
	PGresult *left = poll_until_over(&a, err);
	int status = 0;

	jr_buf_init(&a.words, SIZE_MAX / 4);
	if (left == NULL || !print_all(&a, err)) {
		if (wait->alone)
			name_run(wait->ids[0], err);
		status = (int)err->code;
	} else if (PQntuples(left) > 0) {
		fail_late(&a, left, err);
		status = JR_E_TEMP;
	} else if (a.bad)
		status = JR_E_NEWS;
	PQclear(left);
	jr_buf_release(&a.words);
	return status;
}
