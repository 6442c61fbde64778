/*
 * runner_progress: what running handlers report, written under the fence after each heartbeat. See runner_parts.h.
 *
 * While somebody follows a run, its handler is also asked each second. A heartbeat brings that somebody does, and the
 * answer to what was sent that nobody does any more; as long as there is nothing new, nothing is sent. After a request
 * that was refused or not answered only the next heartbeat goes on with it, so that a slow server is not asked more.
 *
 * It goes in a request of its own, so that a text which the server refuses costs no heartbeat, and no other run its
 * progress. What was not written, because the row was locked or the connection was lost, is sent again after the next
 * heartbeat; what the server refuses by itself is dropped.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define PROGRESS_BYTES ((size_t)512 * 1024) /* of one request; at least one run goes */
#define FOLLOWED_MS 1000

void
jr_progress_open(struct jr_runner *runner)
{
	runner->progress.at_ms = JR_NEVER;
}

static void
forget(struct jr_held *held)
{
	jr_progress_release(&held->progress.said);
	held->progress = (struct jr_held_progress){.state = JR_PROGRESS_NEW, .followed = held->progress.followed};
}

static bool
may_report(const struct jr_held *held)
{
	return jr_held_phase(held) == JR_HELD_RUNNING && !jr_start_is_lost(held);
}

static void
ask_again_soon(struct jr_runner *runner)
{
	runner->progress.at_ms = jr_clock_after(jr_clock_now_ms(), FOLLOWED_MS);
}

static void
replace(char **text, const char *newer)
{
	if (newer == NULL)
		return;
	free(*text);
	*text = jr_xstrdup(newer);
}

static void
collect_one(struct jr_held *held)
{
	struct jr_progress *said = &held->progress.said;
	struct jr_handler_progress report;

	held->progress.state = JR_PROGRESS_NEW;
	if (!may_report(held)) {
		forget(held); /* the outcome says it all */
		return;
	}
	jr_start_progress(held, &report);
	replace(&said->progress, report.progress);
	replace(&said->checkpoint, report.checkpoint);
	if (report.output != NULL) {
		free(said->output);
		said->output = report.output;
		said->output_dropped = report.output_dropped;
	}
	said->id = held->run->id;
	said->claim_seq = held->run->claim_seq;
}

/* After each heartbeat that was answered. */
static void
collect_all(struct jr_runner *runner)
{
	runner->progress.at_ms = JR_NEVER;
	for (struct jr_held *held = jr_held_first(runner); held != NULL; held = jr_held_next(held)) {
		collect_one(held);
		held->progress.followed = jr_heartbeat_is_followed(held);
		if (held->progress.followed)
			ask_again_soon(runner);
	}
}

static void
collect_followed(struct jr_runner *runner)
{
	runner->progress.at_ms = JR_NEVER;
	for (struct jr_held *held = jr_held_first(runner); held != NULL; held = jr_held_next(held)) {
		if (!held->progress.followed || !may_report(held))
			continue;
		collect_one(held);
		ask_again_soon(runner);
	}
}

/* Ask the handlers when it is time. */
static void
collect(struct jr_runner *runner)
{
	struct jr_progress_part *part = &runner->progress;

	if (part->beats != jr_heartbeat_count(runner)) {
		part->beats = jr_heartbeat_count(runner);
		part->wanted = true;
		collect_all(runner);
	} else if (jr_clock_now_ms() >= part->at_ms) {
		part->wanted = true;
		collect_followed(runner);
	}
	if (part->at_ms != JR_NEVER)
		jr_runner_wake_at(runner, part->at_ms);
}

static size_t
size_of(const struct jr_held *held)
{
	const struct jr_progress *said = &held->progress.said;

	return jr_text_size(said->progress) + jr_text_size(said->checkpoint) + jr_text_size(said->output);
}

static bool
is_sent(const struct jr_held *held)
{
	return held->progress.state == JR_PROGRESS_SENT;
}

/*
 * It was sent and not written. The server's refusal of several may be the fault of one, so they go one by one; what it
 * refuses by itself is dropped. What was not answered is sent once more: it may be too much for this connection.
 */
static void
note_unwritten(struct jr_held *held, const struct jr_reply *reply, size_t sent)
{
	struct jr_held_progress *progress = &held->progress;
	bool refused = reply->end == JR_PG_FAILED && reply->err.code != JR_E_TEMP;

	if (refused && sent > 1) {
		progress->alone = true;
		progress->state = JR_PROGRESS_NEW;
	} else if (refused || progress->unanswered) {
		forget(held);
	} else {
		progress->unanswered = reply->end == JR_PG_UNKNOWN;
		progress->state = JR_PROGRESS_OFFERED;
	}
}

/* Those that were not written although the request arrived were locked. */
static void
take_written(struct jr_runner *runner, const PGresult *result, const struct jr_held_list *sent)
{
	for (size_t i = 0; i < sent->count; i++)
		sent->held[i]->progress.state = JR_PROGRESS_OFFERED;
	for (size_t i = 0; i < jr_queue_count_written(result); i++) {
		struct jr_written_row row = jr_queue_read_written(result, i);
		struct jr_held *held = jr_held_find(runner, row.id, row.claim_seq);

		if (held == NULL)
			continue;
		held->progress.followed = row.followed;
		forget(held);
	}
	if (runner->progress.at_ms != JR_NEVER) /* not before others had their turn */
		ask_again_soon(runner);
}

static void
on_written(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	struct jr_held_list sent = jr_held_select(runner, is_sent);
	size_t count = runner->progress.sent;

	if (reply->end == JR_PG_FAILED)
		jr_log(count > 1 ? JR_INFO : JR_WARN, JR_EVENT_PROGRESS_REFUSED, JR_S("error", reply->err.msg));
	if (reply->end == JR_PG_DONE)
		take_written(runner, reply->results[0], &sent);
	else
		runner->progress.at_ms = JR_NEVER;
	for (size_t i = 0; reply->end != JR_PG_DONE && i < sent.count; i++)
		note_unwritten(sent.held[i], reply, count);
	if (reply->end == JR_PG_UNKNOWN || reply->end == JR_PG_UNSENT)
		runner->progress.wanted = false; /* the next heartbeat asks again */
	jr_held_list_release(&sent);
}

/* As many as fit, marked as sent; borrowed copies in *items. */
static size_t
choose(struct jr_runner *runner, struct jr_progress *items)
{
	size_t count = 0, bytes = 0;

	for (struct jr_held *held = jr_held_first(runner); held != NULL; held = jr_held_next(held)) {
		struct jr_held_progress *progress = &held->progress;
		size_t size = size_of(held);

		if (size == 0 || progress->state != JR_PROGRESS_NEW || !may_report(held))
			continue;
		if (count > 0 && (progress->alone || bytes + size > PROGRESS_BYTES))
			continue;
		progress->state = JR_PROGRESS_SENT;
		bytes += size;
		items[count++] = progress->said;
		if (progress->alone)
			break;
	}
	return count;
}

bool
jr_progress_try(struct jr_runner *runner)
{
	struct jr_progress *items;
	struct jr_request *request;
	size_t count;

	collect(runner);
	if (!runner->progress.wanted)
		return false;
	items = jr_xcalloc(jr_held_count(runner) + 1, sizeof(*items));
	count = choose(runner, items);
	runner->progress.wanted = count > 0;
	runner->progress.sent = count;
	if (count > 0) {
		request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_written, runner);
		jr_queue_add_progress(request, runner->facts.id, items, count);
		jr_pg_submit(runner->pg, request);
	}
	free(items);
	return count > 0;
}
