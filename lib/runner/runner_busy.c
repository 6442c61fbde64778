/*
 * runner_busy: queues that a claim left out, since somebody else had locked their row, or in them a run that has the
 * unique key of one that is due. See runner_parts.h.
 *
 * They are asked again by claims of their own, from the head, after a short pause, while the others go on with their
 * cursor. When nothing else is left to do a runner waits for them END_MS, and then it is as if they were full. The next
 * look for work forgets them: it finds what is due in all queues.
 *
 * What must hold: a locked row is never an error, and never keeps runs of another queue.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 200
#define END_MS 5000

struct names {
	const PGresult *result;
	bool named; /* want those that are left out; else the others */
};

static bool
is_wanted(void *ctx, const char *queue)
{
	const struct names *names = ctx;

	for (size_t i = 0; i < jr_queue_count_left_out(names->result); i++) {
		if (strcmp(jr_queue_read_left_out(names->result, i), queue) == 0)
			return names->named;
	}
	return !names->named;
}

bool
jr_busy_is_pending(const struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++) {
		if (runner->lanes[i].busy.count > 0)
			return true;
	}
	return false;
}

void
jr_busy_forget(struct jr_runner *runner)
{
	for (size_t i = 0; i < runner->lane_count; i++)
		jr_combos_release(&runner->lanes[i].busy);
}

/* What it was asked for alone and is not locked any more is done, unless there may be more of it. */
static void
take_answer(struct jr_runner *runner, struct jr_lane *lane, const PGresult *result)
{
	struct names others = {result, false};
	struct jr_combos done = {0};

	if (jr_queue_count_runs(result) >= runner->claim_wanted)
		return;
	jr_combos_move(&lane->busy, &done, is_wanted, &others);
	jr_combos_release(&done);
}

void
jr_busy_take_claim(struct jr_runner *runner, struct jr_lane *lane, const PGresult *result)
{
	struct names left_out = {result, true};
	size_t count = jr_queue_count_left_out(result);

	if (jr_queue_count_runs(result) > 0)
		runner->busy_until_ms = 0;
	if (runner->claim_busy)
		take_answer(runner, lane, result);
	else if (count > 0) {
		jr_combos_move(&lane->combos, &lane->busy, is_wanted, &left_out);
		lane->drained = lane->combos.count == 0;
	}
	runner->busy_at_ms = jr_clock_now_ms() + PAUSE_MIN_MS; /* others are to have claims between two of these */
	if (count == 0)
		return;
	runner->busy_at_ms += (int64_t)jr_random_below(&runner->random, PAUSE_MAX_MS - PAUSE_MIN_MS + 1);
	for (size_t i = 0; i < count; i++)
		jr_log(JR_INFO, "queue_left_out", JR_S("queue", jr_queue_read_left_out(result, i)),
		    JR_S("reason", "somebody else has locked its row, or a run of a unique key in it"));
}

bool
jr_busy_add_claim(struct jr_runner *runner, struct jr_batch *batch)
{
	const struct jr_cursor head = {0};

	if (jr_clock_now_ms() < runner->busy_at_ms || !jr_lanes_choose_busy(runner))
		return false;
	runner->claim_busy = true;
	jr_queue_add_claim(batch, &runner->facts, &runner->claim_lane->busy, &head, runner->claim_wanted,
	    runner->opts->lease.lease_ms, ++runner->claim_number);
	return true;
}

bool
jr_busy_is_waited_for(struct jr_runner *runner)
{
	int64_t now = jr_clock_now_ms();

	if (!jr_busy_is_pending(runner) || now >= runner->busy_at_ms)
		return false;
	if (runner->held_count > 0)
		runner->busy_until_ms = 0;
	else if (runner->busy_until_ms == 0)
		runner->busy_until_ms = jr_clock_after(now, END_MS);
	else if (now >= runner->busy_until_ms) {
		jr_busy_forget(runner);
		return false;
	}
	runner->claim_at_ms = runner->busy_at_ms;
	jr_runner_wake_at(runner, runner->claim_at_ms);
	return true;
}
