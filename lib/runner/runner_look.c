/*
 * runner_look: see runner_look.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "runner/runner_parts.h"

#define LOOK_SHARE 10   /* candidates are good for so many times as long as the look took, */
#define LOOKED_MS 10000 /* but no longer than this, */
#define LOOKED_SHARE 6  /* unless the look took seconds */
#define NOTIFIED_MS 5   /* between two looks, however many notifications come */

void
jr_look_open(struct jr_runner *runner)
{
	runner->look.candidates_at_ms = -1;
}

void
jr_look_close(struct jr_runner *runner)
{
	free(runner->look.named);
}

/* --- when --- */

static int64_t
jittered(struct jr_runner *runner, int64_t ms)
{
	return ms * 4 / 5 + (int64_t)jr_random_below(&runner->random, (uint64_t)(ms * 2 / 5) + 1);
}

/* How long candidates are good for, at least `least`. Below JR_LOOK_MS what a look took is chance. */
static int64_t
good_for_ms(const struct jr_look *look, int64_t least)
{
	int64_t share_ms = LOOK_SHARE * look->took_ms, most_ms = LOOKED_SHARE * look->took_ms;

	if (share_ms <= JR_LOOK_MS || look->unseen)
		return least;
	most_ms = most_ms > LOOKED_MS ? most_ms : LOOKED_MS;
	return share_ms < most_ms ? share_ms : most_ms;
}

/* After a notification the look is soon, but a server that refuses is not asked more often because of it. */
static void
hasten(struct jr_runner *runner)
{
	struct jr_look *look = &runner->look;
	int64_t last_ms = look->candidates_at_ms > look->looked_ms ? look->candidates_at_ms : look->looked_ms;

	if (look->notified && look->errors == 0 && last_ms + NOTIFIED_MS < look->at_ms)
		look->at_ms = last_ms + NOTIFIED_MS;
}

void
jr_look_wait_until(struct jr_runner *runner, int64_t at_ms)
{
	runner->look.at_ms = at_ms;
	jr_runner_wake_at(runner, at_ms);
}

void
jr_look_again_in(struct jr_runner *runner, int64_t ms)
{
	runner->look.at_ms = jr_clock_after(jr_clock_now_ms(), jittered(runner, ms));
	hasten(runner);
	jr_runner_wake_at(runner, runner->look.at_ms);
}

bool
jr_look_is_early(struct jr_runner *runner)
{
	if (jr_clock_now_ms() >= runner->look.at_ms)
		return false;
	jr_runner_wake_at(runner, runner->look.at_ms);
	return true;
}

static void
forget_named(struct jr_look *look)
{
	free(look->named);
	look->named = NULL;
}

bool
jr_look_soon(struct jr_runner *runner)
{
	bool first = !runner->look.notified;

	forget_named(&runner->look);
	runner->look.notified = true;
	hasten(runner);
	return first;
}

/* Only one that is alone, or comes again, is kept. */
bool
jr_look_soon_for(struct jr_runner *runner, const char *named)
{
	struct jr_look *look = &runner->look;

	if (look->notified && look->named != NULL && strcmp(look->named, named) == 0)
		return false;
	if (!jr_look_soon(runner))
		return false;
	look->named = jr_xstrdup(named);
	return true;
}

void
jr_look_drop(struct jr_runner *runner)
{
	runner->look.candidates_at_ms = -1;
	jr_scopes_forget_cursors(runner);
}

void
jr_look_take_notice(struct jr_runner *runner)
{
	struct jr_look *look = &runner->look;
	bool ended = look->ended != jr_start_count_ended(runner);
	bool fired = look->fired != jr_fire_count_looks(runner);
	bool reclaimed = look->reclaimed != jr_reclaim_count_taken(runner);
	bool refused = look->refused != jr_refused_count(runner);

	look->stale = look->stale || ended;
	if (ended)
		look->at_ms = 0;
	if (ended || fired || reclaimed)
		look->drained = false;
	if (fired || reclaimed || refused || look->beats != jr_heartbeat_count(runner))
		jr_look_drop(runner);
	if (fired)
		(void)jr_look_soon(runner);
	look->ended = jr_start_count_ended(runner);
	look->fired = jr_fire_count_looks(runner);
	look->reclaimed = jr_reclaim_count_taken(runner);
	look->beats = jr_heartbeat_count(runner);
	look->refused = jr_refused_count(runner);
}

bool
jr_look_is_fresh(const struct jr_runner *runner)
{
	const struct jr_look *look = &runner->look;
	int64_t good_ms = good_for_ms(look, look->notified ? NOTIFIED_MS : JR_LOOK_MS);

	return look->candidates_at_ms >= 0 && jr_scopes_count_candidates(runner) > 0 &&
	       !(look->used_up && jr_scopes_are_drained(runner)) &&
	       jr_clock_now_ms() - look->candidates_at_ms < good_ms;
}

/* --- the look --- */

static void
note_sent(struct jr_look *look)
{
	forget_named(look);
	look->notified = false;
	look->looked_ms = jr_clock_now_ms();
}

void
jr_look_add(struct jr_runner *runner, struct jr_request *request)
{
	struct jr_look *look = &runner->look;

	note_sent(look);
	look->stale = false;
	jr_queue_add_candidates(request, &runner->facts, look->whole ? INT64_MAX : JR_CANDIDATES_MAX);
	jr_queue_add_fire_due(request);
}

void
jr_look_take(struct jr_runner *runner, const PGresult *result, int64_t look_ms)
{
	struct jr_look *look = &runner->look;
	bool all = jr_scopes_take_candidates(runner, result);
	size_t count = jr_scopes_count_candidates(runner);

	look->candidates_at_ms = jr_clock_now_ms();
	look->took_ms = look_ms;
	look->unseen = false;
	look->used_up = false;
	jr_busy_forget(runner);
	look->drained = false;
	if (count > 0)
		look->at_ms = 0;
	else if (!jr_runner_is_single(runner))
		jr_look_note_drained(runner);
	if (!all && count >= JR_CANDIDATES_MAX && !look->whole) {
		look->whole = true; /* the cut list has nothing for a scope that may have permits: look up all */
		jr_look_drop(runner);
	}
}

/* "TYPE PRIORITY QUEUE", as jobrun.enqueue() writes it. Nothing of it is trusted. */
static bool
take_named(struct jr_runner *runner, char *named)
{
	char *rest = named, *type = strsep(&rest, " "), *priority = strsep(&rest, " ");
	struct jr_candidate candidate = {.job_type = type, .queue = rest};
	struct jr_err err;

	return rest != NULL && jr_parse_int("priority", priority, INT16_MIN, INT16_MAX, &candidate.priority, &err) &&
	       jr_parse_queue("queue", rest, &err) && jr_scopes_take_named(runner, &candidate);
}

bool
jr_look_take_named(struct jr_runner *runner)
{
	struct jr_look *look = &runner->look;

	if (look->named == NULL || !look->drained || jr_runner_is_single(runner) || jr_look_is_early(runner) ||
	    !take_named(runner, look->named))
		return false;
	note_sent(look);
	look->candidates_at_ms = look->looked_ms;
	look->unseen = true;
	look->used_up = false;
	look->drained = false;
	return true;
}

/* --- what claims have found --- */

bool
jr_look_is_drained(const struct jr_runner *runner)
{
	return runner->look.drained;
}

bool
jr_look_is_stale(const struct jr_runner *runner)
{
	return runner->look.stale;
}

/*
 * Nothing was due. If nothing is held and the runner does not stay, it ends; otherwise it looks again in a second. The
 * look did not see work that a handler enqueued after the look was sent: in that case it looks again at once.
 */
void
jr_look_note_drained(struct jr_runner *runner)
{
	jr_unanswered_end(runner);
	jr_look_drop(runner);
	if (runner->look.stale)
		return;
	jr_busy_rest(runner);
	runner->look.drained = true;
	if (jr_held_count(runner) > 0 || jr_start_stays(runner))
		jr_look_again_in(runner, JR_LOOK_MS);
}

bool
jr_look_leaves_nothing(const struct jr_runner *runner)
{
	return !runner->look.unseen && !runner->look.used_up && jr_scopes_are_drained(runner) &&
	       !jr_busy_is_pending(runner);
}

/* A scope is drained only if claims went from its head to its end and the list of candidates was not cut. */
void
jr_look_note_empty(struct jr_runner *runner, struct jr_scope *scope)
{
	struct jr_look *look = &runner->look;
	bool whole = jr_scopes_count_candidates(runner) < JR_CANDIDATES_MAX || look->whole;

	if (look->unseen || look->used_up ||
	    (scope != NULL && jr_scope_cursor(scope)->set && !jr_scope_cursor(scope)->in_vain))
		jr_look_drop(runner);
	else if (scope != NULL && !whole) {
		look->whole = true; /* what was cut may hold what can be claimed */
		jr_look_drop(runner);
	} else {
		if (scope != NULL)
			jr_scope_note_drained(scope);
		if (scope == NULL || jr_look_leaves_nothing(runner))
			jr_look_note_drained(runner);
	}
}

void
jr_look_note_runs(struct jr_runner *runner)
{
	runner->look.drained = false;
	runner->look.whole = false;
}

void
jr_look_note_end(struct jr_runner *runner, struct jr_scope *scope)
{
	struct jr_look *look = &runner->look;
	int64_t left_ms = look->candidates_at_ms + JR_LOOK_MS - jr_clock_now_ms();

	if (jr_scopes_count_candidates(runner) >= JR_CANDIDATES_MAX)
		return; /* the list may have been cut: the scope may have more */
	jr_scope_note_drained(scope);
	look->used_up = true;
	if (!look->stale && jr_scopes_are_drained(runner) && !jr_busy_is_pending(runner))
		jr_look_again_in(runner, left_ms > 0 ? left_ms : 0);
}

void
jr_look_note_answer(struct jr_runner *runner)
{
	runner->look.errors = 0;
}

int64_t
jr_look_note_failure(struct jr_runner *runner)
{
	return ++runner->look.errors;
}

void
jr_look_goes_on(struct jr_runner *runner, int64_t took_ms)
{
	runner->look.took_ms += took_ms;
}
