/*
 * runner_busy: queues that a claim left out because another transaction has locked the queue's row, or a run with the
 * same unique key as a due one. See runner_parts.h.
 *
 * They are asked for again by claims of their own, from the head, after a short pause, while the others go on with
 * their cursor. When nothing else is left to do, the runner waits for them for JR_LOCKED_MS; after that they count as
 * full. The next look for work forgets them: it finds what is due in all queues.
 *
 * Where one run is wanted alone (--job, exec) it is asked for again in the same way. When that takes too long it is an
 * error, because the limit could not be checked.
 *
 * What must hold: a locked row never keeps runs of another queue, and nobody waits for it inside the database.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 200

struct names {
	const PGresult *result;
	size_t count;
	bool named; /* want those that are left out; else the others */
};

static bool
is_wanted(void *ctx, const char *queue)
{
	const struct names *names = ctx;

	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(jr_queue_read_left_out(names->result, i), queue) == 0)
			return names->named;
	}
	return !names->named;
}

bool
jr_busy_is_pending(const struct jr_runner *runner)
{
	struct jr_scope *scope;

	for (size_t i = 0; (scope = jr_scopes_at(runner, i)) != NULL; i++) {
		if (jr_scope_busy(scope)->count > 0)
			return true;
	}
	return false;
}

int64_t
jr_busy_at(const struct jr_runner *runner)
{
	return runner->busy.at_ms;
}

void
jr_busy_forget(struct jr_runner *runner)
{
	struct jr_scope *scope;

	for (size_t i = 0; (scope = jr_scopes_at(runner, i)) != NULL; i++)
		jr_candidates_release(jr_scope_busy(scope));
}

void
jr_busy_rest(struct jr_runner *runner)
{
	runner->busy.until_ms = 0;
}

/* Forget the queues that were asked for and are not locked any more, unless the answer was full. */
static void
take_answer(const struct jr_choice *choice, const PGresult *result)
{
	struct names others = {result, jr_queue_count_left_out(result), false};
	struct jr_candidates done = {0};

	if (jr_queue_count_runs(result) >= choice->wanted)
		return;
	jr_candidates_move(jr_scope_busy(choice->scope), &done, is_wanted, &others);
	jr_candidates_release(&done);
}

/* When to ask again: there are to be claims of other runs between two of these, whoever has the row now. */
static void
ask_later(struct jr_runner *runner, bool locked)
{
	int64_t ms = PAUSE_MIN_MS;

	if (locked)
		ms += (int64_t)jr_random_below(&runner->random, PAUSE_MAX_MS - PAUSE_MIN_MS + 1);
	runner->busy.at_ms = jr_clock_after(jr_clock_now_ms(), ms);
}

void
jr_busy_take_claim(struct jr_runner *runner, const struct jr_choice *choice, bool by_itself, const PGresult *result)
{
	size_t count = jr_queue_count_left_out(result);
	struct names left_out = {result, count, true};

	runner->counts.claims_locked += count > 0;
	if (jr_queue_count_runs(result) > 0)
		jr_busy_rest(runner);
	if (by_itself)
		take_answer(choice, result);
	else if (count > 0)
		jr_scope_leave_out(choice->scope, is_wanted, &left_out);
	if (by_itself || count > 0)
		ask_later(runner, count > 0);
	jr_unstarted_log(result);
}

bool
jr_busy_choose(struct jr_runner *runner, bool programs, size_t most, struct jr_choice *choice)
{
	if (!jr_busy_is_pending(runner) || jr_clock_now_ms() < runner->busy.at_ms)
		return false;
	if (jr_scopes_choose(runner, true, programs, most, choice))
		return true;
	ask_later(runner, true); /* something else is more urgent, or there is no permit */
	return false;
}

bool
jr_busy_is_waited_for(struct jr_runner *runner)
{
	struct jr_busy *busy = &runner->busy;
	int64_t now = jr_clock_now_ms();

	if (!jr_busy_is_pending(runner))
		return false;
	if (jr_held_count(runner) > 0)
		busy->until_ms = 0;
	else if (busy->until_ms == 0)
		busy->until_ms = jr_clock_after(now, JR_LOCKED_MS);
	else if (now >= busy->until_ms) {
		jr_busy_forget(runner);
		return false;
	}
	return true;
}

/* For too long. */
static void
fail_locked(struct jr_runner *runner, const struct jr_not_claimed *said)
{
	struct jr_err err;

	jr_unstarted_fail_locked(runner->opts->job_id, said, &err);
	jr_runner_fail(runner, &err);
}

bool
jr_busy_take_single(struct jr_runner *runner, const PGresult *result)
{
	struct jr_busy *busy = &runner->busy;
	struct jr_not_claimed said;
	int64_t now = jr_clock_now_ms();

	if (!jr_queue_read_not_claimed(result, &said))
		return false;
	if (said.reason != NULL) {
		jr_runner_fail_job(runner, said.reason);
		return false;
	}
	runner->counts.claims_locked++;
	if (busy->until_ms == 0) {
		busy->until_ms = jr_clock_after(now, JR_LOCKED_MS);
		jr_log(JR_INFO, JR_EVENT_LOCKED,
		    JR_S(said.queue != NULL ? "queue" : "definition",
			said.queue != NULL ? said.queue : said.definition));
	}
	if (now >= busy->until_ms) {
		fail_locked(runner, &said);
		return false;
	}
	ask_later(runner, true);
	return true;
}
