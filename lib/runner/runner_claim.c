/*
 * runner_claim: what to claim, and what it brought. See runner_parts.h.
 *
 * Each claim is for the candidates of one scope, which runner_look.c has. What must hold: a permit is reserved for each
 * run before it is claimed, and each run that is started has it, its own or that of its batch; permits of runs that did
 * not come are given back. After a lost answer the runner claims nothing until it has read which runs it holds.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define PERMIT_MS 100   /* how often a runner that stays tries for a permit */
#define ERRORS_MAX 5    /* failed claims in a row before the runner ends */
#define CLAIM_MOST 4096 /* runs of one answer */

void
jr_claim_open(struct jr_runner *runner)
{
	runner->claim.most = CLAIM_MOST;
}

static bool
has_tried_single(const struct jr_runner *runner)
{
	return jr_runner_is_single(runner) && runner->claim.job_tried;
}

static bool
is_allowed(const struct jr_runner *runner)
{
	return jr_runner_phase(runner) == JR_PHASE_WORK && !jr_runner_is_draining(runner) && !runner->claim.in_doubt &&
	       !has_tried_single(runner) && jr_start_left(runner) > 0;
}

bool
jr_claim_is_over(struct jr_runner *runner)
{
	jr_look_take_notice(runner);
	return jr_runner_is_draining(runner) || (jr_look_is_drained(runner) && !jr_start_stays(runner)) ||
	       runner->claim.crowded || has_tried_single(runner) || jr_start_left(runner) == 0;
}

/* --- the claim --- */

static void
add_claim_job(struct jr_runner *runner, struct jr_request *request)
{
	struct jr_claim_part *claim = &runner->claim;
	struct jr_runner_facts facts = runner->facts;
	char *types = jr_scopes_reserve_each(runner, &claim->job_crowded);

	facts.job_types = types;
	claim->choice = (struct jr_choice){.wanted = 1};
	jr_queue_add_claim_job(request, &facts, runner->opts->job_id, runner->opts->lease.lease_ms, ++claim->number);
	free(types);
}

static void
add_claim_exec(struct jr_runner *runner, struct jr_request *request)
{
	const struct jr_exec *exec = runner->opts->exec;
	struct jr_claim_part *claim = &runner->claim;

	claim->choice = (struct jr_choice){.wanted = 1};
	jr_queue_add_exec_claim(request, &runner->facts, exec->definition, runner->opts->lease.lease_ms,
	    exec->timeout_ms, exec->argv, ++claim->number);
}

/* Queues that were left out before go first, when it is time, and from the head. false: there is nothing to claim. */
static bool
add_claim(struct jr_runner *runner, struct jr_request *request)
{
	static const struct jr_cursor head;
	struct jr_claim_part *claim = &runner->claim;
	int64_t left = jr_start_left(runner);
	size_t most = left < (int64_t)claim->most ? (size_t)left : claim->most;
	bool programs = jr_ahead_is_short(runner); /* while enough of them wait, only other kinds are claimed */
	struct jr_claim_size size = {0};
	struct jr_scope *scope;
	char *types = NULL;

	claim->busy = jr_busy_choose(runner, programs, most, &claim->choice);
	if (!claim->busy && !jr_scopes_choose(runner, false, programs, most, &claim->choice) &&
	    (jr_ahead_count(runner) == 0 || !programs || !jr_scopes_choose_ahead(runner, &claim->choice)))
		return false;
	scope = claim->choice.scope;
	if (!claim->busy && jr_scope_is_of_programs(scope))
		claim->ahead = jr_ahead_choose(runner, most - claim->choice.wanted, &types);
	if (claim->choice.wanted + claim->ahead == 0)
		return false;
	size = (struct jr_claim_size){.n = claim->choice.wanted, .ahead = claim->ahead, .ahead_types = types};
	jr_queue_add_claim(request, &runner->facts, claim->busy ? jr_scope_busy(scope) : jr_scope_candidates(scope),
	    claim->busy ? &head : jr_scope_cursor(scope), &size, runner->opts->lease.lease_ms, ++claim->number);
	free(types);
	return true;
}

size_t
jr_claim_add(struct jr_runner *runner, struct jr_request *request)
{
	const struct jr_runner_opts *opts = runner->opts;

	jr_look_take_notice(runner);
	runner->claim.choice = (struct jr_choice){.wanted = 0};
	runner->claim.ahead = 0;
	runner->claim.busy = false;
	if (!is_allowed(runner))
		return 0;
	if (opts->job_id > 0)
		add_claim_job(runner, request);
	else if (opts->exec != NULL)
		add_claim_exec(runner, request);
	else if (jr_look_is_fresh(runner))
		return add_claim(runner, request) ? 1 : 0;
	else if (!jr_look_take_named(runner) || !add_claim(runner, request)) {
		jr_look_add(runner, request);
		return 2;
	}
	return 1;
}

/* --- what it brought --- */

/* A lease began when the claim was sent. For an adopted run that is computed from the time that is left. */
static int64_t
begun_at(const struct jr_runner *runner, const PGresult *result, size_t index, int64_t sent_ms, bool adopted)
{
	if (!adopted)
		return sent_ms;
	return sent_ms + jr_queue_read_lease_left(result, index) - runner->opts->lease.lease_ms;
}

/*
 * What comes without a permit (adoption may find more than one claim's runs) is given back, not started. The cursor
 * (NULL: there is none) is moved behind the last run.
 */
static void
take_runs(struct jr_runner *runner, const PGresult *result, int64_t sent_ms, struct jr_cursor *cursor, bool adopted)
{
	size_t rows = jr_queue_count_runs(result), ahead_from = adopted ? rows : runner->claim.choice.wanted;
	const struct jr_handler *batched = NULL;
	struct jr_permit *shared = NULL;

	runner->counts.claimed += (int64_t)rows;
	for (size_t i = 0; i < rows; i++) {
		struct jr_run *run = jr_queue_read_run(result, i, cursor);
		int64_t begun_ms = begun_at(runner, result, i, sent_ms, adopted);
		struct jr_permit *permit;

		if (i >= ahead_from) {
			jr_start_take_ahead(runner, run, begun_ms);
			continue;
		}
		permit = jr_permit_find(runner, run, &batched, &shared);
		if (permit != NULL && permit == shared)
			jr_start_take_batched(runner, run, begun_ms, permit);
		else
			jr_start_take(runner, run, begun_ms, permit);
	}
	jr_scopes_give_back(runner);
}

static void
take_nothing(struct jr_runner *runner, const PGresult *result)
{
	struct jr_claim_part *claim = &runner->claim;

	claim->empty++;
	claim->crowded = claim->crowded || claim->job_crowded;
	if (!claim->busy) {
		jr_look_note_empty(runner, claim->choice.scope);
		jr_exec_take_nothing(runner, result);
	} else if (jr_look_leaves_nothing(runner))
		jr_look_note_drained(runner);
}

/* Is there nothing more to bring? Runs beyond those that were asked for end at the first that is not for them. */
static bool
is_short(const struct jr_runner *runner, const PGresult *result)
{
	const struct jr_claim_part *claim = &runner->claim;

	return claim->choice.scope != NULL && !claim->busy && jr_queue_count_runs(result) < claim->choice.wanted &&
	       jr_queue_count_left_out(result) == 0 && !jr_queue_goes_on(result);
}

/* --job and exec: is the run to be asked for again, since something was locked? */
static bool
is_kept_out(struct jr_runner *runner, const PGresult *result)
{
	if (runner->claim.choice.scope != NULL || !jr_busy_take_single(runner, result))
		return false;
	runner->claim.crowded = false; /* its permits are taken anew */
	jr_look_wait_until(runner, jr_busy_at(runner));
	return true;
}

static void
note_runs(struct jr_runner *runner, const PGresult *result)
{
	struct jr_claim_part *claim = &runner->claim;

	jr_look_note_runs(runner);
	claim->crowded = false;
	if (claim->choice.scope != NULL)
		jr_scope_note_batch(claim->choice.scope, claim->choice.wanted, result);
	if (is_short(runner, result))
		jr_look_note_end(runner, claim->choice.scope);
	(void)jr_runner_repeats(runner, &claim->repeat, "claim", result);
}

static void
take_claim(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	struct jr_claim_part *claim = &runner->claim;
	struct jr_scope *scope = claim->choice.scope;
	bool again = is_kept_out(runner, result), tries = claim->choice.wanted > 0;
	bool goes_on = scope != NULL && jr_queue_goes_on(result);

	jr_unanswered_end(runner);
	if (scope != NULL)
		jr_busy_take_claim(runner, &claim->choice, claim->busy, result);
	jr_look_note_answer(runner);
	if (claim->most < CLAIM_MOST)
		claim->most++;
	claim->job_tried = !again;
	if (jr_queue_count_runs(result) > 0)
		note_runs(runner, result);
	else if (goes_on && claim->busy)
		jr_look_drop(runner); /* a claim by a new look goes on */
	else if (!again && tries && !goes_on)
		take_nothing(runner, result);
	if (scope != NULL && !claim->busy && jr_scope_is_of_programs(scope))
		jr_ahead_note_claim(runner, result, claim->choice.wanted + claim->ahead, jr_clock_now_ms() - sent_ms);
	take_runs(runner, result, sent_ms, scope == NULL || claim->busy ? NULL : jr_scope_cursor(scope), false);
	if (goes_on && !claim->busy) {
		jr_queue_read_goes_on(result, jr_scope_cursor(scope));
		jr_look_goes_on(runner, jr_clock_now_ms() - sent_ms);
	}
	claim->choice.wanted = 0;
	claim->ahead = 0;
}

static void
note_failure(struct jr_runner *runner, const struct jr_err *err)
{
	jr_log(JR_INFO, JR_EVENT_CLAIM_FAILED, JR_S("error", err->msg));
	if (err->code != JR_E_TEMP || jr_look_note_failure(runner) >= ERRORS_MAX)
		jr_runner_fail(runner, err);
	else
		jr_look_again_in(runner, JR_LOOK_MS);
}

static void
note_unanswered(struct jr_runner *runner, int64_t sent_ms)
{
	struct jr_claim_part *claim = &runner->claim;

	claim->in_doubt = true; /* its permits are kept until it is known */
	claim->sent_ms = sent_ms;
	claim->most = jr_times_fewer(claim->choice.wanted + claim->ahead);
	claim->choice.wanted = 0;
	claim->ahead = 0;
	jr_look_drop(runner);
}

/* `first`: the index of the claim's first result. Results before it belong to a settle in the same transaction. */
void
jr_claim_reply(struct jr_runner *runner, const struct jr_reply *reply, size_t first)
{
	bool was_claim = runner->claim.choice.wanted + runner->claim.ahead > 0;

	jr_look_take_notice(runner);
	jr_times_note(runner, reply);
	jr_report_claim(runner, was_claim ? reply->sent_ms : 0);
	jr_unanswered_note(runner, reply, first == 0);
	if (reply->end == JR_PG_DONE && was_claim)
		take_claim(runner, reply->results[first], reply->sent_ms);
	else if (reply->end == JR_PG_DONE) {
		jr_look_take(runner, reply->results[first], jr_queue_read_look_ms(reply->results[first]));
		jr_fire_take_look(runner, jr_queue_read_fire_due(reply->results[first + 1]), true);
	} else if (reply->end == JR_PG_UNKNOWN && was_claim) {
		note_unanswered(runner, reply->sent_ms);
	} else {
		jr_scopes_give_back(runner);
		runner->claim.choice.wanted = 0;
		runner->claim.ahead = 0;
		jr_look_drop(runner);
		if (reply->end == JR_PG_FAILED && first == 0)
			note_failure(runner, &reply->err);
	}
}

static void
on_claim(void *ctx, const struct jr_reply *reply)
{
	jr_claim_reply(ctx, reply, 0);
}

/* Nothing can be claimed now. When is it worth while to try again? */
static void
wait(struct jr_runner *runner)
{
	if (jr_scopes_gathering_ms(runner) < JR_NEVER)
		jr_look_wait_until(runner, jr_scopes_gathering_ms(runner));
	else if (jr_busy_is_waited_for(runner))
		jr_look_wait_until(runner, jr_busy_at(runner));
	else if (jr_look_leaves_nothing(runner))
		jr_look_note_drained(runner); /* queues that are still locked count as full */
	else if (jr_start_stays(runner))
		jr_look_again_in(runner, PERMIT_MS);
	else if (jr_held_count(runner) == 0)
		runner->claim.crowded = true; /* other runners of this host have every permit, and go on claiming */
	else
		jr_look_again_in(runner, JR_LOOK_MS);
}

static bool
try_once(struct jr_runner *runner)
{
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_claim, runner);

	if (jr_claim_add(runner, request) == 0) {
		jr_request_free(request);
		return false;
	}
	runner->claim.sent_alone++;
	jr_pg_submit(runner->pg, request);
	return true;
}

bool
jr_claim_try(struct jr_runner *runner)
{
	jr_look_take_notice(runner);
	if (!is_allowed(runner) ||
	    (jr_look_is_drained(runner) && jr_held_count(runner) == 0 && !jr_start_stays(runner)))
		return false;
	if (jr_look_is_early(runner))
		return false;
	if (!jr_scopes_have_room(runner) && (jr_ahead_count(runner) == 0 || !jr_ahead_is_short(runner)))
		return false;
	if (try_once(runner))
		return true;
	if (jr_look_is_stale(runner) && jr_ahead_is_short(runner) &&
	    (jr_held_count(runner) == 0 || jr_scopes_are_drained(runner))) {
		jr_look_drop(runner); /* what has ended may have left work */
		return try_once(runner);
	}
	wait(runner);
	return false;
}

bool
jr_claim_is_crowded(const struct jr_runner *runner)
{
	return runner->claim.crowded;
}

bool
jr_claim_is_tried(const struct jr_runner *runner)
{
	return runner->claim.job_tried;
}

int64_t
jr_claim_number(const struct jr_runner *runner)
{
	return runner->claim.number;
}

int64_t
jr_claim_count_sent_alone(const struct jr_runner *runner)
{
	return runner->claim.sent_alone;
}

int64_t
jr_claim_count_empty(const struct jr_runner *runner)
{
	return runner->claim.empty;
}

/* --- doubt --- */

bool
jr_claim_is_in_doubt(const struct jr_runner *runner)
{
	return runner->claim.in_doubt;
}

int64_t
jr_claim_sent_ms(const struct jr_runner *runner)
{
	return runner->claim.sent_ms;
}

void
jr_claim_resolve(struct jr_runner *runner)
{
	runner->claim.in_doubt = false;
}

void
jr_claim_take_adopted(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	if (jr_queue_count_runs(result) > 0)
		runner->claim.job_tried = true;
	take_runs(runner, result, sent_ms, NULL, true);
}
