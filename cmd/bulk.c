/*
 * bulk: the part of repair.h for the runs of a filter, which may be many thousands.
 *
 * First the runs are counted, which also gives the lowest and the highest id: runs that are enqueued later are not
 * touched. Then the ids are read in portions of up to PORTION, since waiting runs have no index in order of id and each
 * portion reads all of them. The server cuts a portion into batches. Each batch is a transaction of its own, whose
 * statement locks the rows and checks their status again. It waits for locks of others once; from then on it passes
 * over the runs that others have locked, so that a session that keeps one run locked does not block all others.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "print.h"
#include "repair.h"
#include "sql_text.h"

#define BATCH "1000"
#define PORTION 100000
#define LOCKED "55P03"

struct bulk {
	const struct jr_repair *repair;
	struct jr_db *db;
	struct jr_filter_params params;
	struct jr_repaired *repaired;
	int64_t first, last; /* the range of ids that is left */
	int64_t total;       /* runs that matched at the start */
	int64_t taken;       /* how many of them were in a batch already */
	bool passes;
};

static void
show_progress(const struct bulk *bulk)
{
	if (bulk->total > 1000 && jr_print_is_terminal(stderr))
		fprintf(stderr, "\r%" PRId64 " of %" PRId64 " runs", bulk->taken, bulk->total);
}

static void
end_progress(const struct bulk *bulk)
{
	if (bulk->total > 1000 && jr_print_is_terminal(stderr))
		fputs("\r\033[K", stderr);
}

/* Count the runs, and read the lowest and highest id. */
static bool
count_runs(struct bulk *bulk, struct jr_err *err)
{
	enum {
		RUNS = 2,
		FIRST = 4,
		LAST = 5
	};
	const char *values[JR_FILTER_COUNT + 1];
	PGresult *kinds;

	memcpy(values, bulk->params.values, sizeof(bulk->params.values));
	values[JR_FILTER_COUNT] = "f";
	kinds = jr_db_query(bulk->db, jr_sql_matching_kinds, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	if (kinds == NULL)
		return false;
	bulk->first = INT64_MAX;
	bulk->last = 0;
	for (int row = 0; row < PQntuples(kinds); row++) {
		int64_t first = jr_pg_int(kinds, row, FIRST, 0);
		int64_t last = jr_pg_int(kinds, row, LAST, 0);

		bulk->total += jr_pg_int(kinds, row, RUNS, 0);
		if (first < bulk->first)
			bulk->first = first;
		if (last > bulk->last)
			bulk->last = last;
	}
	PQclear(kinds);
	return true;
}

/* Read the next ids, in batches: rows (array of ids, how many, the last id). NULL on failure. */
static PGresult *
fetch_portion(struct bulk *bulk, int64_t size, struct jr_err *err)
{
	char limit[24], first[24], last[24];
	const char *values[JR_FILTER_COUNT + 3];

	memcpy(values, bulk->params.values, sizeof(bulk->params.values));
	values[JR_FILTER_LIMIT] = jr_print_int(limit, size);
	values[JR_FILTER_COUNT] = jr_print_int(first, bulk->first);
	values[JR_FILTER_COUNT + 1] = jr_print_int(last, bulk->last);
	values[JR_FILTER_COUNT + 2] = BATCH;
	return jr_db_query(bulk->db, jr_sql_matching_ids, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
}

static bool
try_batch(struct bulk *bulk, const char *ids, struct jr_err *err)
{
	const struct jr_repair *repair = bulk->repair;
	const char *values[] = {
	    ids, bulk->params.values[JR_FILTER_STATUSES], bulk->passes ? "t" : "f", repair->reason, repair->extra};
	size_t count = JR_COUNT(values) - (repair->extra == NULL);
	PGresult *result = jr_db_query(bulk->db, repair->sql_matching, count, values, JR_CMD_TIMEOUT_MS, err);

	if (result == NULL)
		return false;
	bulk->repaired->done += jr_pg_int(result, 0, 0, 0);
	bulk->repaired->asked += jr_pg_int(result, 0, 1, 0);
	bulk->repaired->left += jr_pg_int(result, 0, 2, 0);
	bulk->repaired->passed += jr_pg_int(result, 0, 3, 0);
	PQclear(result);
	return true;
}

static bool
do_batch(struct bulk *bulk, const char *ids, struct jr_err *err)
{
	if (try_batch(bulk, ids, err))
		return true;
	if (bulk->passes || strcmp(err->sqlstate, LOCKED) != 0)
		return false;
	bulk->passes = true;
	return try_batch(bulk, ids, err);
}

/* *more: there may be further portions. */
static bool
do_portion(struct bulk *bulk, int64_t size, bool *more, struct jr_err *err)
{
	PGresult *batches = fetch_portion(bulk, size, err);
	int64_t before = bulk->taken;
	bool ok = batches != NULL;

	for (int row = 0; ok && row < PQntuples(batches); row++) {
		ok = do_batch(bulk, PQgetvalue(batches, row, 0), err);
		if (!ok)
			break;
		bulk->taken += jr_pg_int(batches, row, 1, 0);
		bulk->first = jr_pg_int(batches, row, 2, bulk->last) + 1;
		show_progress(bulk);
	}
	*more = bulk->taken - before == size;
	PQclear(batches);
	return ok;
}

static bool
do_all(struct bulk *bulk, struct jr_err *err)
{
	bool more = bulk->total > 0, limited = bulk->repair->filter->limit > 0;

	while (more && bulk->first <= bulk->last) {
		int64_t size = PORTION;

		if (limited && bulk->total - bulk->taken < size)
			size = bulk->total - bulk->taken;
		if (size == 0)
			return true;
		if (!do_portion(bulk, size, &more, err))
			return false;
	}
	return true;
}

/* What to type for the rest: --limit counts anew, so it must be lower then. Caller frees. */
static char *
words_of_rest(const struct bulk *bulk, const struct jr_err *err)
{
	if (err->code == JR_E_PERM)
		return jr_xstrdup("");
	if (bulk->repair->filter->limit <= 0)
		return jr_xstrdup("; the same command again does the rest");
	if (jr_db_is_in_doubt(err))
		return jr_xstrdup("; count what was done before you repeat it with a lower --limit");
	return jr_xasprintf("; the same command with --limit %" PRId64 " does the rest",
	    bulk->total - bulk->taken + bulk->repaired->passed);
}

/* Add to the message how far the command came. If the answer to COMMIT was lost, that batch may have been committed. */
static void
say_how_far(const struct bulk *bulk, struct jr_err *err)
{
	char *rest = words_of_rest(bulk, err);
	char *how_far = jr_xasprintf("stopped after %" PRId64 " of %" PRId64 " run%s%s%s", bulk->taken, bulk->total,
	    jr_text_plural(bulk->total), jr_db_is_in_doubt(err) ? " (and perhaps the next 1000)" : "", rest);

	jr_fail_in(err, how_far);
	free(how_far);
	free(rest);
}

/* All is done but for what others have locked. */
static bool
fail_passed(const struct bulk *bulk, struct jr_err *err)
{
	char *rest;

	*err = (struct jr_err){.code = JR_E_TEMP};
	rest = words_of_rest(bulk, err);
	jr_fail(err, JR_E_TEMP, "passed over %" PRId64 " of %" PRId64 " run%s that other sessions keep locked%s",
	    bulk->repaired->passed, bulk->total, jr_text_plural(bulk->total), rest);
	free(rest);
	return false;
}

bool
jr_repair_matching(const struct jr_repair *repair, struct jr_repaired *repaired, struct jr_err *err)
{
	struct bulk bulk = {.repair = repair, .repaired = repaired};
	bool ok;

	*repaired = (struct jr_repaired){.done = 0};
	bulk.db = jr_cmd_connect(repair->app, err);
	if (bulk.db == NULL)
		return false;
	jr_filter_bind(repair->filter, repair->usual, &bulk.params);
	ok = count_runs(&bulk, err);
	if (ok) {
		ok = do_all(&bulk, err);
		end_progress(&bulk);
		if (!ok)
			say_how_far(&bulk, err);
		else if (repaired->passed > 0)
			ok = fail_passed(&bulk, err);
		else if (repaired->done + repaired->asked + repaired->left == 0)
			jr_filter_warn_unknown(repair->filter, bulk.db);
	}
	jr_filter_unbind(&bulk.params);
	jr_db_close(bulk.db);
	return ok;
}
