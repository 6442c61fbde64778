/*
 * runner_take: what a claim brought, and what it brought when its answer was lost. See runner_parts.h.
 *
 * What must hold: each run that is started has a place, its own or that of its set; the places that no run took are given
 * back; after a lost answer nothing is claimed before it is known what runs under this runner's name.
 */
#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

size_t
jr_claim_fewer(size_t most)
{
	return most < 8 ? 1 : most / 4;
}

/* The places that no run took. */
void
jr_claim_give_back(struct jr_runner *runner)
{
	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (runner->claim_places[i] > 0)
			jr_places_give(&runner->places[i], runner->claim_places[i]);
		runner->claim_places[i] = 0;
	}
	runner->claim_wanted = 0;
}

/* Runs of a set share the seat of the first; *shared is that seat, for one answer. */
static struct jr_seat *
find_seat(struct jr_runner *runner, const struct jr_run *run, const struct jr_handler **set, struct jr_seat **shared)
{
	const struct jr_handler *handler = jr_handlers_find(runner->opts->handlers, run->job_type);
	struct jr_seat *seat;

	if (runner->opts->exec != NULL)
		return jr_seat_of_none();
	if (handler == NULL)
		return NULL;
	if (handler->kind->pool == JR_POOL_PRUNE)
		runner->prunes++;
	if (*shared != NULL && *set == handler) {
		(*shared)->runs++;
		return *shared;
	}
	seat = jr_seat_take(runner, handler->kind->pool);
	*set = handler;
	*shared = handler->settings.batch > 0 ? seat : NULL;
	return seat;
}

/*
 * What comes without a place (adoption may find more than one claim's runs) is given back, not started. The shared seat
 * is held open meanwhile, since a run that is not started leaves it at once.
 */
void
jr_claim_take_runs(struct jr_runner *runner, const PGresult *result, int64_t sent_ms, struct jr_cursor *cursor)
{
	size_t rows = jr_queue_count_runs(result);
	const struct jr_handler *set = NULL;
	struct jr_seat *shared = NULL, *open = NULL;

	runner->counts.claimed += (int64_t)rows;
	for (size_t i = 0; i < rows; i++) {
		struct jr_run *run = jr_queue_read_run(result, i, cursor);
		struct jr_seat *seat = find_seat(runner, run, &set, &shared);

		if (shared != NULL && shared != open) {
			if (open != NULL)
				jr_seat_leave(runner, open);
			open = shared;
			open->runs++;
		}
		jr_held_take(runner, run, sent_ms, seat);
	}
	if (open != NULL)
		jr_seat_leave(runner, open);
	jr_claim_give_back(runner);
}

/* The lease of the claim in doubt has ended: nothing of it is worth adopting. */
static bool
is_too_late(const struct jr_runner *runner)
{
	return jr_clock_now_ms() >= jr_clock_after(runner->claim_sent_ms, runner->opts->lease.lease_ms);
}

/*
 * From when the leases of adopted runs count: the claim in doubt, or earlier if one of them is of an older claim that
 * was given up and executed late, as what is left of it tells.
 */
static int64_t
adopted_since(const struct jr_runner *runner, const struct jr_reply *reply)
{
	int64_t since_ms = runner->claim_sent_ms;

	for (size_t i = 0; i < jr_queue_count_runs(reply->results[0]); i++) {
		int64_t left_ms = jr_queue_read_lease_left(reply->results[0], i);
		int64_t begun_ms = reply->sent_ms + left_ms - runner->opts->lease.lease_ms;

		if (begun_ms < since_ms)
			since_ms = begun_ms;
	}
	return since_ms;
}

static void
on_adopt(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		runner->claim_in_doubt = jr_queue_count_runs(reply->results[0]) >= runner->adopt_most;
		if (jr_queue_count_runs(reply->results[0]) > 0)
			runner->job_tried = true;
		jr_claim_take_runs(runner, reply->results[0], adopted_since(runner, reply), NULL);
	} else if (reply->end == JR_PG_UNKNOWN)
		runner->adopt_most = jr_claim_fewer(runner->adopt_most);
	else if (reply->end == JR_PG_FAILED && reply->err.code == JR_E_TEMP && !is_too_late(runner))
		runner->adopt_at_ms = jr_clock_after(jr_clock_now_ms(), runner->opts->lease.heartbeat_ms / 2);
	else if (reply->end == JR_PG_FAILED) {
		runner->claim_in_doubt = false; /* their leases run out, and a tick finds them */
		jr_claim_give_back(runner);
		jr_runner_fail(runner, &reply->err);
	}
	jr_runner_pump(runner);
}

/* After a claim whose answer was lost: what runs under my name that I do not know? */
bool
jr_claim_try_adopt(struct jr_runner *runner)
{
	struct jr_batch *batch;
	struct jr_held_list all;

	if (!runner->claim_in_doubt)
		return false;
	if (jr_clock_now_ms() < runner->adopt_at_ms) {
		jr_runner_wake_at(runner, runner->adopt_at_ms);
		return false;
	}
	all = jr_held_select(runner, NULL);
	batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_adopt, runner);
	jr_queue_add_adopt(batch, runner->facts.id, all.runs, all.count, runner->adopt_most);
	jr_held_list_release(&all);
	jr_pg_submit(runner->pg, batch);
	return true;
}
