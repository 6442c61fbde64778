/*
 * runner_claim: what to claim, how much, from which scope; and what it brought. See runner_parts.h.
 *
 * The combinations of (job type, queue, priority) that have a due run are read at most once a second and passed to the
 * claim with a cursor behind the last claimed run. Both are dropped after a second, after a heartbeat, when a claim
 * comes back empty, and before "nothing is due" is decided, so that an urgent run starts within two seconds in the
 * middle of a long drain. A notification that there may be work makes them older than they are: NEWS_MS after the look
 * before at the earliest, so that between two looks there is always a claim, and many notifications are one look.
 *
 * What must hold: a permit is held for each run before it is claimed, and each run that is started has it, its own or
 * that of its batch; permits of runs that did not come are given back. After a lost answer nothing is claimed before it
 * is known what runs under this runner's name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/pg_array.h"
#include "runner/runner_parts.h"

#define LOOK_MS 1000  /* how old the combinations may be; how often to look while handlers run */
#define NEWS_MS 10    /* between two looks, however many notifications come */
#define PERMIT_MS 100 /* how often a runner that stays tries for a permit that others have */
#define ADOPT_MS 1000 /* between two tries to give up on a claim */
#define ERRORS_MAX 5  /* failed claims in a row before the runner ends */

static int64_t
jittered(struct jr_runner *runner, int64_t ms)
{
	return ms * 4 / 5 + (int64_t)jr_random_below(&runner->random, (uint64_t)(ms * 2 / 5) + 1);
}

/* News is looked at soon, but a server that refuses is not asked more often because of it. */
static void
hasten(struct jr_runner *runner)
{
	int64_t last_ms = runner->candidates_at_ms > runner->looked_ms ? runner->candidates_at_ms : runner->looked_ms;

	if (runner->news && runner->claim_errors == 0 && last_ms + NEWS_MS < runner->claim_at_ms)
		runner->claim_at_ms = last_ms + NEWS_MS;
}

static void
look_again_in(struct jr_runner *runner, int64_t ms)
{
	runner->claim_at_ms = jr_clock_after(jr_clock_now_ms(), jittered(runner, ms));
	hasten(runner);
	jr_runner_wake_at(runner, runner->claim_at_ms);
}

static void
look_again_later(struct jr_runner *runner)
{
	look_again_in(runner, LOOK_MS);
}

void
jr_claim_look_soon(struct jr_runner *runner)
{
	runner->news = true;
	hasten(runner);
}

void
jr_claim_reset(struct jr_runner *runner)
{
	runner->candidates_at_ms = -1;
	for (size_t i = 0; i < runner->scope_count; i++)
		runner->scopes[i].cursor.set = false;
}

bool
jr_claim_is_single(const struct jr_runner *runner)
{
	return runner->opts->job_id > 0 || runner->opts->exec != NULL;
}

bool
jr_claim_is_over(const struct jr_runner *runner)
{
	return runner->draining || (runner->drained && !jr_linger_is_on(runner)) || runner->crowded ||
	       (jr_claim_is_single(runner) && runner->job_tried) || jr_claim_is_used_up(runner);
}

bool
jr_claim_is_used_up(const struct jr_runner *runner)
{
	const struct jr_runner_opts *opts = runner->opts;

	return opts->max_runs > 0 && runner->counted >= opts->max_runs;
}

void
jr_claim_count(struct jr_runner *runner, const struct jr_run *run, int64_t change)
{
	if (strcmp(run->job_type, JR_PRUNE_TYPE) != 0)
		runner->counted += change;
}

static bool
is_allowed(const struct jr_runner *runner)
{
	return runner->phase == JR_PHASE_WORK && !runner->draining && !runner->claim_in_doubt &&
	       !(jr_claim_is_single(runner) && runner->job_tried) && !jr_claim_is_used_up(runner);
}

void
jr_claim_fail_job(struct jr_runner *runner, const char *why)
{
	struct jr_err err;

	if (runner->opts->job_id == 0)
		return;
	jr_fail(&err, JR_E_TEMP, "run %" PRId64 " was not started: %s", runner->opts->job_id, why);
	jr_runner_fail(runner, &err);
}

/*
 * Nothing was due. Final if nothing runs and it does not stay; otherwise look again in a second. What a handler has
 * committed on its own connection since the look was sent was not seen by it: then the next look is now.
 */
static void
note_drained(struct jr_runner *runner)
{
	jr_claim_reset(runner);
	if (runner->stale)
		return;
	runner->busy_until_ms = 0;
	runner->drained = true;
	if (runner->held_count > 0 || jr_linger_is_on(runner))
		look_again_later(runner);
}

struct filter {
	struct jr_runner *runner;
	const struct jr_scope *scope;
};

static bool
is_of_scope(void *ctx, const char *job_type)
{
	const struct filter *filter = ctx;
	const struct jr_handler *handler = jr_handlers_find(filter->runner->opts->handlers, job_type);

	return handler != NULL && jr_scopes_find(filter->runner, handler) == filter->scope;
}

void
jr_claim_take_candidates(struct jr_runner *runner, const PGresult *result)
{
	bool missing = false;

	runner->candidates_count = (size_t)PQntuples(result);
	runner->candidates_at_ms = jr_clock_now_ms();
	jr_busy_forget(runner);
	for (size_t i = 0; i < runner->scope_count; i++) {
		struct jr_scope *scope = &runner->scopes[i];
		struct filter filter = {runner, scope};

		jr_queue_read_candidates(result, &scope->candidates, is_of_scope, &filter);
		scope->cursor.set = false;
		scope->drained = scope->candidates.count == 0;
		missing = missing || scope->drained;
	}
	runner->drained = false;
	if (runner->candidates_count > 0)
		runner->claim_at_ms = 0;
	else if (!jr_claim_is_single(runner))
		note_drained(runner);
	if (missing && runner->candidates_count >= JR_CANDIDATES_MAX && !runner->candidates_whole) {
		runner->candidates_whole = true; /* what was cut may be all of a scope's, whose permits are free */
		jr_claim_reset(runner);
	}
}

static bool
has_fresh_candidates(const struct jr_runner *runner)
{
	return runner->candidates_at_ms >= 0 && runner->candidates_count > 0 &&
	       jr_clock_now_ms() - runner->candidates_at_ms < (runner->news ? NEWS_MS : LOOK_MS);
}

/*
 * --job: its type is known only when it has been claimed, so a permit of each kind is had, and only types with one
 * asked for.
 */
static size_t
add_claim_job(struct jr_runner *runner, struct jr_request *request)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const char **types = jr_xcalloc(handlers->count + 1, sizeof(char *));
	struct jr_runner_facts facts = runner->facts;
	size_t count = 0;
	char *array;

	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (runner->permits[i].fd_count > 0)
			runner->claim_permits[i] = jr_permits_take(&runner->permits[i], 1);
	}
	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_handler *handler = &handlers->items[i];

		if (handler->kind->pool == JR_POOL_NONE || runner->claim_permits[handler->kind->pool] > 0)
			types[count++] = handler->job_type;
		else
			runner->crowded = true;
	}
	array = jr_pg_array_of(types, count);
	facts.job_types = array;
	runner->claim_scope = NULL;
	runner->claim_wanted = 1;
	jr_queue_add_claim_job(
	    request, &facts, runner->opts->job_id, runner->opts->lease.lease_ms, ++runner->claim_number);
	free(array);
	free(types);
	return 1;
}

size_t
jr_claim_add(struct jr_runner *runner, struct jr_request *request)
{
	const struct jr_runner_opts *opts = runner->opts;

	runner->claim_wanted = 0;
	runner->claim_busy = false;
	if (!is_allowed(runner))
		return 0;
	if (opts->job_id > 0)
		return add_claim_job(runner, request);
	if (jr_exec_add_claim(runner, request))
		return 1;
	if (!has_fresh_candidates(runner)) {
		runner->stale = false;
		runner->news = false;
		runner->looked_ms = jr_clock_now_ms();
		jr_queue_add_candidates(
		    request, &runner->facts, runner->candidates_whole ? INT64_MAX : JR_CANDIDATES_MAX);
		jr_queue_add_fire_due(request);
		runner->fired_last = true; /* what is found is claimed before it is too old */
		return 2;
	}
	if (jr_busy_add_claim(runner, request))
		return 1;
	if (!jr_scopes_choose(runner, false))
		return 0;
	runner->stale = false;
	jr_queue_add_claim(request, &runner->facts, &runner->claim_scope->candidates, &runner->claim_scope->cursor,
	    runner->claim_wanted, opts->lease.lease_ms, ++runner->claim_number);
	return 1;
}

/* How many are asked for after an answer that did not come. */
static size_t
fewer(size_t most)
{
	return most < 8 ? 1 : most / 4;
}

/* The permits that no run took. */
static void
give_back(struct jr_runner *runner)
{
	for (size_t i = 0; i < JR_POOL_COUNT; i++) {
		if (runner->claim_permits[i] > 0)
			jr_permits_give(&runner->permits[i], runner->claim_permits[i]);
		runner->claim_permits[i] = 0;
	}
	runner->claim_wanted = 0;
}

/* Runs of a batch share the permit of the first; *shared is that permit, for one answer. */
static struct jr_permit *
find_permit(
    struct jr_runner *runner, const struct jr_run *run, const struct jr_handler **batched, struct jr_permit **shared)
{
	const struct jr_handler *handler = jr_handlers_find(runner->opts->handlers, run->job_type);
	struct jr_permit *permit;

	if (runner->opts->exec != NULL)
		return jr_permit_of_none();
	if (handler == NULL)
		return NULL;
	if (*shared != NULL && *batched == handler) {
		(*shared)->runs++;
		return *shared;
	}
	permit = jr_permit_take(runner, handler->kind->pool);
	*batched = handler;
	*shared = handler->settings.batch > 0 ? permit : NULL;
	return permit;
}

/* When the lease of a run began: as the claim was sent or, as what is left of it tells, before it was adopted. */
static int64_t
begun_at(const struct jr_runner *runner, const PGresult *result, size_t index, int64_t sent_ms, bool adopted)
{
	if (!adopted)
		return sent_ms;
	return sent_ms + jr_queue_read_lease_left(result, index) - runner->opts->lease.lease_ms;
}

/*
 * What comes without a permit (adoption may find more than one claim's runs) is given back, not started. The shared
 * permit is held open meanwhile, since a run that is not started leaves it at once. The cursor (NULL: there is none) is
 * moved behind the last run.
 */
static void
take_runs(struct jr_runner *runner, const PGresult *result, int64_t sent_ms, struct jr_cursor *cursor, bool adopted)
{
	size_t rows = jr_queue_count_runs(result);
	const struct jr_handler *batched = NULL;
	struct jr_permit *shared = NULL, *open = NULL;

	runner->counts.claimed += (int64_t)rows;
	for (size_t i = 0; i < rows; i++) {
		struct jr_run *run = jr_queue_read_run(result, i, cursor);
		struct jr_permit *permit = find_permit(runner, run, &batched, &shared);

		jr_claim_count(runner, run, 1);
		if (shared != NULL && shared != open) {
			if (open != NULL)
				jr_permit_leave(runner, open);
			open = shared;
			open->runs++;
		}
		jr_held_take(runner, run, begun_at(runner, result, i, sent_ms, adopted), permit);
	}
	if (open != NULL)
		jr_permit_leave(runner, open);
	give_back(runner);
}

static bool
all_drained(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->scope_count; i++) {
		if (!runner->scopes[i].drained)
			return false;
	}
	return true;
}

/* What was left out is not drained: nobody has looked at it. */
static bool
is_nothing_due(const struct jr_runner *runner)
{
	return all_drained(runner) && !jr_busy_is_pending(runner);
}

/* An empty claim is the end of its scope only if it looked from the head and at all there is. */
static void
take_empty(struct jr_runner *runner, struct jr_scope *scope)
{
	bool whole = runner->candidates_count < JR_CANDIDATES_MAX || runner->candidates_whole;

	if (scope != NULL && scope->cursor.set)
		jr_claim_reset(runner);
	else if (scope != NULL && !whole) {
		runner->candidates_whole = true; /* what was cut may hold what can be claimed */
		jr_claim_reset(runner);
	} else {
		if (scope != NULL)
			scope->drained = true;
		if (scope == NULL || is_nothing_due(runner))
			note_drained(runner);
	}
}

static void
take_claim(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	struct jr_scope *scope = runner->claim_scope;
	bool again = scope == NULL && jr_busy_take_single(runner, result);

	if (scope != NULL)
		jr_busy_take_claim(runner, scope, result);
	runner->claim_errors = 0;
	if (runner->claim_most < JR_CLAIM_MOST)
		runner->claim_most++;
	runner->job_tried = !again;
	if (again)
		runner->crowded = false; /* its permits are had anew */
	else if (jr_queue_count_runs(result) > 0) {
		runner->drained = false;
		runner->candidates_whole = false;
		runner->crowded = false;
	} else if (!runner->claim_busy) {
		take_empty(runner, scope);
		jr_exec_take_nothing(runner, result);
	} else if (is_nothing_due(runner))
		note_drained(runner);
	if (scope != NULL && scope->batched != NULL)
		jr_scopes_note_batch(runner, scope, result);
	if (jr_queue_count_runs(result) > 0)
		(void)jr_runner_repeats(runner, &runner->claim_repeat, "claim", result);
	take_runs(runner, result, sent_ms, scope == NULL || runner->claim_busy ? NULL : &scope->cursor, false);
}

static void
note_claim_failure(struct jr_runner *runner, const struct jr_err *err)
{
	jr_log(JR_INFO, "claim_failed", JR_S("error", err->msg));
	jr_claim_reset(runner);
	if (err->code != JR_E_TEMP || ++runner->claim_errors >= ERRORS_MAX)
		jr_runner_fail(runner, err);
	else
		look_again_later(runner);
}

/* `first`: which of the request's results is the claim's; what stands before it failed or not together with it. */
void
jr_claim_reply(struct jr_runner *runner, const struct jr_reply *reply, size_t first)
{
	bool was_claim = runner->claim_wanted > 0;

	if (reply->end == JR_PG_DONE && was_claim)
		take_claim(runner, reply->results[first], reply->sent_ms);
	else if (reply->end == JR_PG_DONE) {
		jr_claim_take_candidates(runner, reply->results[first]);
		jr_fire_take_look(runner, reply->results[first + 1]);
	} else if (reply->end == JR_PG_UNKNOWN && was_claim) {
		runner->claim_in_doubt = true; /* its permits are kept until it is known */
		runner->claim_sent_ms = reply->sent_ms;
		runner->claim_most = fewer(runner->claim_wanted);
		runner->adopt_most = JR_CLAIM_MOST;
		jr_claim_reset(runner);
	} else {
		give_back(runner);
		jr_claim_reset(runner);
		if (reply->end == JR_PG_FAILED && first == 0)
			note_claim_failure(runner, &reply->err);
	}
}

static void
on_claim(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_claim_reply(runner, reply, 0);
	jr_runner_pump(runner);
}

/* Could anything be started at all? */
static bool
has_room(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->scope_count; i++) {
		if (!jr_scopes_is_full(runner, &runner->scopes[i]))
			return true;
	}
	return runner->scope_count == 0;
}

bool
jr_claim_try(struct jr_runner *runner)
{
	struct jr_request *request;

	if (!is_allowed(runner) || (runner->drained && runner->held_count == 0 && !jr_linger_is_on(runner)))
		return false;
	if (jr_clock_now_ms() < runner->claim_at_ms) {
		jr_runner_wake_at(runner, runner->claim_at_ms);
		return false;
	}
	if (!has_room(runner))
		return false;
	request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_claim, runner);
	if (jr_claim_add(runner, request) > 0) {
		runner->claim_alone = false;
		jr_pg_submit(runner->pg, request);
		return true;
	}
	jr_request_free(request);
	if (runner->stale && (runner->held_count == 0 || all_drained(runner))) { /* what has ended may have left work */
		jr_claim_reset(runner);
		return jr_claim_try(runner);
	}
	if (jr_busy_is_waited_for(runner))
		return false;
	if (is_nothing_due(runner))
		note_drained(runner); /* what is still locked counts as full */
	else if (jr_linger_is_on(runner))
		look_again_in(runner, PERMIT_MS);
	else if (runner->held_count == 0)
		runner->crowded = true; /* other runners of this host have every permit, and go on claiming */
	else
		look_again_later(runner);
	return false;
}

/*
 * What was asked for once is not waited for as long as it takes to give up on its claim: people wait for the answer.
 * One lease longer than it may last, as for results.
 */
static bool
is_too_late(const struct jr_runner *runner)
{
	return jr_claim_is_single(runner) &&
	       jr_clock_now_ms() >= jr_clock_after(runner->claim_sent_ms, 2 * runner->opts->lease.lease_ms);
}

static void
adopt_later(struct jr_runner *runner, const char *why)
{
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	jr_log(JR_INFO, "adopt_failed", JR_S("error", why));
	runner->adopt_at_ms = jr_clock_after(jr_clock_now_ms(), half < ADOPT_MS ? half : ADOPT_MS);
}

static void
on_adopt(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	bool done = reply->end == JR_PG_DONE && jr_queue_read_claims_void(reply->results[0]);
	struct jr_err err = reply->err;

	if (done) {
		size_t rows = jr_queue_count_runs(reply->results[1]);

		runner->claim_in_doubt = rows >= runner->adopt_most &&
					 !jr_runner_repeats(runner, &runner->adopt_repeat, "adopt", reply->results[1]);
		if (rows > 0)
			runner->job_tried = true;
		take_runs(runner, reply->results[1], reply->sent_ms, NULL, true);
	} else if (reply->end == JR_PG_UNKNOWN)
		runner->adopt_most = fewer(runner->adopt_most);
	else {
		if (reply->end == JR_PG_DONE)
			jr_fail(&err, JR_E_TEMP, "a claim that was not answered is not over in the server");
		adopt_later(runner, err.msg);
		if (err.code != JR_E_TEMP || is_too_late(runner))
			jr_runner_fail(runner, &err);
	}
	jr_runner_pump(runner);
}

/*
 * After a claim whose answer was lost it is given up on: from then on it takes nothing. Then, what runs under my name
 * that I do not know? Not what I have started or sent an outcome for, though it may still be running for the database.
 * Not before that claim is over in the server. It is said again until it is so, and nothing is claimed meanwhile; a
 * runner that ends says it with its goodbye.
 */
bool
jr_claim_try_adopt(struct jr_runner *runner)
{
	struct jr_request *request;
	struct jr_claim_list known = {0};

	if (!runner->claim_in_doubt)
		return false;
	if (jr_clock_now_ms() < runner->adopt_at_ms) {
		jr_runner_wake_at(runner, runner->adopt_at_ms);
		return false;
	}
	jr_held_name_known(runner, &known);
	request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_adopt, runner);
	jr_queue_add_claims_void(request, runner->facts.id, runner->claim_number);
	jr_queue_add_adopt(request, runner->facts.id, &known, runner->adopt_most);
	jr_claim_list_release(&known);
	jr_pg_submit(runner->pg, request);
	return true;
}
