/*
 * runner_adopt: the doubt about a claim whose answer was lost. See runner_parts.h.
 *
 * First claims_void makes the claim take nothing more. Then adopt.sql reads the runs that the database has under this
 * runner's id and that it does not know: neither held, nor started or sent an outcome for before. This is repeated
 * until the claim is over in the server, and the runner claims nothing meanwhile. A runner that ends leaves it to its
 * goodbye.
 */
#include "base/clock.h"
#include "base/log.h"
#include "runner/runner_parts.h"

#define ADOPT_MS 1000   /* between two tries to give up on a claim */
#define ADOPT_MOST 4096 /* runs of one answer */

/*
 * --job and exec do not wait until the claim is over in the server, because people wait for the answer. They give up
 * two leases after it was sent.
 */
static bool
is_too_late(const struct jr_runner *runner)
{
	return jr_runner_is_single(runner) &&
	       jr_clock_now_ms() >= jr_clock_after(jr_claim_sent_ms(runner), 2 * runner->opts->lease.lease_ms);
}

static void
take_failure(struct jr_runner *runner, const struct jr_err *err)
{
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	jr_log(JR_INFO, JR_EVENT_ADOPT_FAILED, JR_S("error", err->msg));
	runner->adopt.at_ms = jr_clock_after(jr_clock_now_ms(), half < ADOPT_MS ? half : ADOPT_MS);
	if (err->code != JR_E_TEMP || is_too_late(runner))
		jr_runner_fail(runner, err);
}

static void
take_runs(struct jr_runner *runner, const PGresult *result, int64_t sent_ms)
{
	bool more = jr_queue_count_runs(result) >= runner->adopt.most;

	if (!more || jr_runner_repeats(runner, &runner->adopt.repeat, "adopt", result))
		jr_claim_resolve(runner);
	if (jr_queue_count_runs(result) > 0)
		jr_unanswered_end(runner);
	jr_claim_take_adopted(runner, result, sent_ms);
}

static void
on_adopt(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	struct jr_err err = reply->err;

	jr_times_note(runner, reply);
	if (reply->end == JR_PG_DONE && jr_queue_read_claims_void(reply->results[0]))
		take_runs(runner, reply->results[1], reply->sent_ms);
	else if (reply->end == JR_PG_UNKNOWN)
		runner->adopt.most = jr_times_fewer(runner->adopt.most);
	else {
		if (reply->end == JR_PG_DONE)
			jr_fail(&err, JR_E_TEMP, "a claim that was not answered is not over in the server");
		take_failure(runner, &err);
	}
}

bool
jr_adopt_try(struct jr_runner *runner)
{
	struct jr_adopt *adopt = &runner->adopt;
	struct jr_request *request;
	struct jr_claim_list known = {0};

	if (!jr_claim_is_in_doubt(runner))
		return false;
	if (jr_clock_now_ms() < adopt->at_ms) {
		jr_runner_wake_at(runner, adopt->at_ms);
		return false;
	}
	if (adopt->number != jr_claim_number(runner))
		adopt->most = ADOPT_MOST;
	adopt->number = jr_claim_number(runner);
	jr_held_name_known(runner, &known);
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_adopt, runner);
	jr_queue_add_claims_void(request, runner->facts.id, adopt->number);
	jr_queue_add_adopt(request, runner->facts.id, &known, adopt->most);
	jr_claim_list_release(&known);
	jr_pg_submit(runner->pg, request);
	return true;
}
