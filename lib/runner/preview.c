/*
 * preview: see preview.h. Two round trips: the first opens the transaction and looks for work, the second claims what
 * there is and rolls back. If that did not look at all, and found nothing, both follow again behind what it has seen.
 */
#include "runner/preview.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "runner/queue.h"
#include "runner/runner_facts.h"
#include "runner/runner_unstarted.h"

#define PAUSE_MS 100 /* before a locked queue is asked for again */

struct preview {
	struct jr_db *db;
	const struct jr_runner_opts *opts;
	struct jr_runner_facts facts;
	size_t most;
	int64_t timeout_ms;
	bool warned; /* that the database is a copy */
	bool locked; /* another transaction has locked a queue, or the run of --job */
	struct jr_cursor cursor;
	bool goes_on; /* nothing was claimed, and there is more behind the cursor */
};

static void
clear(PGresult **results, size_t count)
{
	for (size_t i = 0; i < count; i++)
		PQclear(results[i]);
}

static struct jr_statement
statement_of(const struct jr_bound *bound)
{
	return (struct jr_statement){bound->sql, bound->count, bound->values};
}

static bool
is_sense(const struct jr_bound *bound, const PGresult *result, struct jr_err *err)
{
	return jr_form_check(bound->form, result, bound->least, bound->most, err);
}

static void
warn_copied(struct preview *preview, const struct jr_started *started)
{
	const struct jr_runner_opts *opts = preview->opts;

	if (opts->copied != NULL && !preview->warned)
		opts->copied(opts->ctx, started->copied);
	preview->warned = true;
}

/* There is no row if another runner has the id: then a random number of 53 bits has come twice. */
static bool
take_look(struct preview *preview, const PGresult *result, struct jr_candidates *candidates, struct jr_err *err)
{
	struct jr_started started;

	if (!jr_queue_read_runner_start(result, &started))
		return jr_fail(err, JR_E_BUG, "runner_start gave no row: " JR_NONSENSE_HINT);
	warn_copied(preview, &started);
	jr_queue_read_candidates(result, candidates, NULL, NULL);
	return true;
}

/* Open the transaction, and look up what is due. */
static bool
look(struct preview *preview, struct jr_candidates *candidates, struct jr_err *err)
{
	struct jr_bound start;
	PGresult *result;
	bool ok;

	jr_queue_bind_runner_start(&start, &preview->facts, INT64_MAX, NULL, true);
	if (!jr_db_begin(
		preview->db, (struct jr_statement[]){statement_of(&start)}, 1, &result, preview->timeout_ms, err))
		return false;
	ok = is_sense(&start, result, err) && take_look(preview, result, candidates, err);
	PQclear(result);
	return ok;
}

static void
bind_claim(const struct preview *preview, const struct jr_candidates *candidates, struct jr_bound *bound)
{
	const struct jr_runner_opts *opts = preview->opts;
	struct jr_claim_size size = {.n = preview->most};

	if (opts->max_runs > 0 && (uint64_t)opts->max_runs < size.n)
		size.n = (size_t)opts->max_runs;
	if (opts->job_id > 0)
		jr_queue_bind_claim_job(bound, &preview->facts, opts->job_id, opts->lease.lease_ms, 1);
	else
		jr_queue_bind_claim(
		    bound, &preview->facts, candidates, &preview->cursor, &size, opts->lease.lease_ms, 1);
}

/* Why the one run of --job was not claimed, if there is a reason. false: there is one. */
static bool
take_job(struct preview *preview, const PGresult *result, struct jr_err *err)
{
	int64_t job_id = preview->opts->job_id;
	struct jr_not_claimed said;

	if (!jr_queue_read_not_claimed(result, &said))
		return true;
	preview->locked = said.reason == NULL;
	if (preview->locked)
		jr_unstarted_fail_locked(job_id, &said, err);
	else
		jr_unstarted_fail(job_id, said.reason, err);
	return false;
}

static bool
take_claim(struct preview *preview, const PGresult *result, struct jr_err *err)
{
	if (preview->opts->job_id > 0)
		return take_job(preview, result, err);
	preview->locked = jr_queue_count_left_out(result) > 0;
	preview->goes_on = jr_queue_goes_on(result) && jr_queue_count_runs(result) == 0;
	if (preview->goes_on)
		jr_queue_read_goes_on(result, &preview->cursor);
	jr_unstarted_log(result);
	return true;
}

/* Claim, list what is held now, and roll back. NULL on failure. */
static PGresult *
claim(struct preview *preview, const struct jr_candidates *candidates, struct jr_err *err)
{
	struct jr_bound bound, held;
	PGresult *results[2];

	bind_claim(preview, candidates, &bound);
	jr_queue_bind_preview(&held, preview->facts.id, preview->most, preview->opts->job_id == 0);
	if (!jr_db_drop(preview->db, (struct jr_statement[]){statement_of(&bound), statement_of(&held)}, 2, results,
		preview->timeout_ms, err))
		return NULL;
	if (is_sense(&bound, results[0], err) && is_sense(&held, results[1], err) &&
	    take_claim(preview, results[0], err)) {
		PQclear(results[0]);
		return results[1];
	}
	clear(results, 2);
	return NULL;
}

static PGresult *
ask(struct preview *preview, struct jr_err *err)
{
	struct jr_candidates candidates = {0};
	PGresult *rows = NULL;

	if (!preview->goes_on)
		preview->cursor.set = false;
	preview->goes_on = false;
	preview->locked = false;
	if (look(preview, &candidates, err))
		rows = claim(preview, &candidates, err);
	jr_candidates_release(&candidates);
	return rows;
}

PGresult *
jr_preview(struct jr_db *db, const struct jr_runner_opts *opts, size_t most, int64_t timeout_ms, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), JR_LOCKED_MS);
	struct preview preview = {.db = db, .opts = opts, .most = most, .timeout_ms = timeout_ms};
	struct jr_facts_texts texts;
	struct jr_random random;
	PGresult *rows;

	jr_random_seed_system(&random);
	jr_facts_init(&preview.facts, &texts, opts, &random);
	rows = ask(&preview, err);
	while (preview.goes_on || (preview.locked && jr_clock_now_ms() < until)) {
		PQclear(rows);
		rows = preview.goes_on || jr_db_pause(db, PAUSE_MS, err) ? ask(&preview, err) : NULL;
	}
	jr_facts_release(&texts);
	return rows;
}
