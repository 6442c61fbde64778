/*
 * runner_times: how long the statements of the runner may take. See runner_parts.h.
 *
 * Only while runs are held does a lease depend on quick answers. When nothing is held, enough of the lease must be left
 * when the answer to a claim comes.
 *
 * While a session holds an old snapshot, vacuum leaves the index entries of all runs that were started since, and what
 * looks for work, for expired leases or for the runs of this runner walks over them: a second for some million entries.
 * If each of these statements were cancelled at the same timeout, nothing would start until the snapshot is gone. So
 * when one is cancelled the next ones get four times as long. Heartbeats wait behind them on the same connection, so
 * they get half a heartbeat at most while something is held: a lease is then renewed after three eighths of it, and the
 * fence is at five sixths. When all answers have come within the usual time for CALM_MS, one such step is taken back.
 */
#include <string.h>

#include "base/clock.h"
#include "runner/runner_parts.h"

#define PATIENT_MS 5000 /* a deadline, while nothing is held */
#define CANCELLED "57014"
#define SLOWER 4
#define SLOW_MOST 8 /* by then every lease is at its limit */
#define CALM_MS 30000

static int64_t
smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Half of what is left of a lease before the fence. */
static int64_t
half_ms(const struct jr_runner *runner)
{
	return (runner->opts->lease.lease_ms - runner->opts->lease.margin_ms) / 2;
}

void
jr_times_open(struct jr_runner *runner)
{
	struct jr_lease *patient = &runner->times.patient;

	*patient = runner->opts->lease;
	patient->deadline_ms = smaller(half_ms(runner), PATIENT_MS);
	patient->statement_ms = patient->deadline_ms * 3 / 5;
	patient->lock_ms = patient->deadline_ms / 5;
}

const struct jr_lease *
jr_times_usual(const struct jr_runner *runner)
{
	return jr_held_count(runner) == 0 ? &runner->times.patient : &runner->opts->lease;
}

/* lock_timeout stays as it is: a longer walk waits no longer for the locks of others. */
const struct jr_lease *
jr_times_walk(struct jr_runner *runner)
{
	const struct jr_lease *usual = jr_times_usual(runner);
	int64_t most = jr_held_count(runner) == 0 ? half_ms(runner) : usual->heartbeat_ms / 2;
	struct jr_lease *walk = &runner->times.walk;

	*walk = *usual;
	for (int64_t i = 0; i < runner->times.slow; i++)
		walk->deadline_ms = smaller(walk->deadline_ms * SLOWER, most);
	walk->statement_ms = walk->deadline_ms * 3 / 5;
	return walk;
}

void
jr_times_note(struct jr_runner *runner, const struct jr_reply *reply)
{
	struct jr_times *times = &runner->times;
	int64_t now_ms = jr_clock_now_ms();

	if (reply->end == JR_PG_FAILED && strcmp(reply->err.sqlstate, CANCELLED) == 0) {
		times->slow += times->slow < SLOW_MOST;
		times->slow_at_ms = now_ms;
	} else if (reply->end == JR_PG_DONE && now_ms - reply->sent_ms > jr_times_usual(runner)->statement_ms) {
		times->slow_at_ms = now_ms;
	} else if (reply->end == JR_PG_DONE && times->slow > 0 && now_ms - times->slow_at_ms >= CALM_MS) {
		times->slow--;
		times->slow_at_ms = now_ms;
	}
}

bool
jr_times_are_long(const struct jr_runner *runner)
{
	return runner->times.slow > 0;
}

size_t
jr_times_fewer(size_t most)
{
	return most < 8 ? 1 : most / 4;
}
