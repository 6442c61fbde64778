/*
 * runner_unhandled: tell people of runs that no host has a handler for. See runner_parts.h.
 *
 * The first request says whether it is time to look. The look is a request of its own, after all other work, and is not
 * repeated: whatever becomes of it, the runner goes on. If its answer is lost, nobody is told that day.
 */
#include "base/log.h"
#include "runner/runner_parts.h"

void
jr_unhandled_want(struct jr_runner *runner)
{
	runner->unhandled.wanted = runner->opts->unhandled != NULL;
}

static void
on_told(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	jr_times_note(runner, reply);
	if (reply->end != JR_PG_DONE) {
		jr_log(JR_INFO, JR_EVENT_UNHANDLED_FAILED, JR_S("error", reply->err.msg));
		return;
	}
	for (size_t i = 0; i < jr_queue_count_unhandled(reply->results[0]); i++) {
		struct jr_unhandled_row row = jr_queue_read_unhandled(reply->results[0], i);

		runner->opts->unhandled(runner->opts->ctx, row.job_type, row.words, row.others);
	}
}

bool
jr_unhandled_try(struct jr_runner *runner)
{
	struct jr_request *request;

	if (!runner->unhandled.wanted || jr_runner_is_signalled(runner))
		return false;
	runner->unhandled.wanted = false;
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_walk(runner), on_told, runner);
	jr_queue_add_unhandled(request);
	jr_pg_submit(runner->pg, request);
	return true;
}
