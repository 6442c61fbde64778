/*
 * runner_phase: the phases of a held run. See runner_parts.h.
 *
 *	claimed ----> running ----> ended ----> sent ----> accepted
 *	 | |           ^ |            ^          | ^           ^
 *	 | +-> ahead --+ |            |  refused | | again     |
 *	 |       |       |            |          v |           |
 *	 +-------+-------|------------+        offered         |
 *	   cannot be     |                        ^            |
 *	   started       |            not applied |            | applied
 *	                 +----------> in doubt ---+------------+
 *	                  own commit
 *	                  not answered
 *
 * Ahead: it was claimed before there was a permit for it, and waits for one.
 * Besides: sent -> in doubt (not answered, or no row after an earlier doubt); offered -> in doubt (a heartbeat does not
 * find it after an earlier doubt); running -> accepted (the handler has committed the end of the run itself); and all
 * but accepted -> gone (the lease is lost, fenced out, or the time to offer it is over). Accepted and gone are final;
 * the run is dropped then. Beside the phase, runner_start.c keeps whether the lease of a running run, or of one in
 * doubt, is lost.
 *
 * What must hold: nothing but `sent` has an outcome on the wire, and nothing is sent from `in doubt` before it was
 * read.
 */
#include "base/err.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define BIT(phase) (1U << (phase))

static const char *const names[JR_HELD_PHASES] = {
    [JR_HELD_CLAIMED] = "claimed",
    [JR_HELD_AHEAD] = "ahead",
    [JR_HELD_RUNNING] = "running",
    [JR_HELD_ENDED] = "ended",
    [JR_HELD_OFFERED] = "offered",
    [JR_HELD_SENT] = "sent",
    [JR_HELD_IN_DOUBT] = "in doubt",
    [JR_HELD_ACCEPTED] = "accepted",
    [JR_HELD_GONE] = "gone",
};

/* From each phase, those that may follow. */
static const unsigned allowed[JR_HELD_PHASES] = {
    [JR_HELD_CLAIMED] = BIT(JR_HELD_AHEAD) | BIT(JR_HELD_RUNNING) | BIT(JR_HELD_ENDED) | BIT(JR_HELD_GONE),
    [JR_HELD_AHEAD] = BIT(JR_HELD_RUNNING) | BIT(JR_HELD_ENDED) | BIT(JR_HELD_GONE),
    [JR_HELD_RUNNING] = BIT(JR_HELD_ENDED) | BIT(JR_HELD_IN_DOUBT) | BIT(JR_HELD_ACCEPTED) | BIT(JR_HELD_GONE),
    [JR_HELD_ENDED] = BIT(JR_HELD_SENT) | BIT(JR_HELD_GONE),
    [JR_HELD_OFFERED] = BIT(JR_HELD_SENT) | BIT(JR_HELD_IN_DOUBT) | BIT(JR_HELD_GONE),
    [JR_HELD_SENT] = BIT(JR_HELD_ACCEPTED) | BIT(JR_HELD_OFFERED) | BIT(JR_HELD_IN_DOUBT) | BIT(JR_HELD_GONE),
    [JR_HELD_IN_DOUBT] = BIT(JR_HELD_OFFERED) | BIT(JR_HELD_ACCEPTED) | BIT(JR_HELD_GONE),
    [JR_HELD_ACCEPTED] = 0,
    [JR_HELD_GONE] = 0,
};

static bool
may_move(enum jr_held_phase from, enum jr_held_phase to)
{
	return (allowed[from] & BIT(to)) != 0;
}

static void
enter(struct jr_held *held, enum jr_held_phase phase)
{
	size_t *counts = held->runner->phase.counts;

	counts[held->life.phase]--;
	held->life.phase = phase;
	counts[phase]++;
}

static void
give_up(struct jr_held *held, enum jr_held_phase to)
{
	enum jr_held_phase from = held->life.phase;
	struct jr_err err;

	jr_log(JR_ERROR, JR_EVENT_IMPOSSIBLE_CHANGE, JR_I("run", held->run->id), JR_I("claim", held->run->claim_seq),
	    JR_S("from", names[from]), JR_S("to", names[to]));
	jr_fail(&err, JR_E_BUG, "run %lld cannot go from %s to %s: this is a bug of jobrun, please report it",
	    (long long)held->run->id, names[from], names[to]);
	jr_runner_fail(held->runner, &err);
	enter(held, JR_HELD_GONE);
}

bool
jr_held_move(struct jr_held *held, enum jr_held_phase to)
{
	struct jr_held_life *life = &held->life;

	if (!may_move(life->phase, to)) {
		give_up(held, to);
		return false;
	}
	enter(held, to);
	life->begun = life->begun || to == JR_HELD_RUNNING;
	life->sent = life->sent || to == JR_HELD_SENT;
	life->doubted = life->doubted || to == JR_HELD_IN_DOUBT;
	return true;
}

void
jr_held_count_one(const struct jr_held *held, bool more)
{
	held->runner->phase.counts[held->life.phase] += more ? 1 : (size_t)-1;
}

size_t
jr_held_count_in(const struct jr_runner *runner, enum jr_held_phase phase)
{
	return runner->phase.counts[phase];
}

enum jr_held_phase
jr_held_phase(const struct jr_held *held)
{
	return held->life.phase;
}

bool
jr_held_was_begun(const struct jr_held *held)
{
	return held->life.begun;
}

bool
jr_held_was_doubted(const struct jr_held *held)
{
	return held->life.doubted;
}

bool
jr_held_was_sent(const struct jr_held *held)
{
	return held->life.sent;
}
