/*
 * runner_progress: what running handlers have to tell, written under the fence after each heartbeat. See
 * runner_parts.h.
 *
 * It goes in a request of its own, so that a text which the server refuses costs no heartbeat, and no other run its
 * progress. What was not written, because the row was locked or the connection went, is offered again with the next
 * heartbeat; what the server refuses by itself is dropped.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define PROGRESS_BYTES ((size_t)512 * 1024) /* of one request; at least one run goes */

void
jr_progress_forget(struct jr_held *held)
{
	free(held->progress.progress);
	free(held->progress.checkpoint);
	free(held->progress.output);
	held->progress = (struct jr_progress){.id = 0};
	held->telling = held->on_tell = false;
	held->untold = false;
	held->tell_alone = false;
}

static void
replace(char **text, const char *news)
{
	if (news == NULL)
		return;
	free(*text);
	*text = jr_xstrdup(news);
}

void
jr_progress_collect(struct jr_runner *runner)
{
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		struct jr_handler_progress news;

		held->telling = false;
		if (held->phase != JR_HELD_RUNNING || held->lost)
			continue;
		jr_attempt_progress(held->attempt, &news);
		replace(&held->progress.progress, news.progress);
		replace(&held->progress.checkpoint, news.checkpoint);
		if (news.output != NULL) {
			free(held->progress.output);
			held->progress.output = news.output;
			held->progress.output_dropped = news.output_dropped;
		}
		held->progress.id = held->run->id;
		held->progress.claim_seq = held->run->claim_seq;
	}
	runner->progress_wanted = true;
}

static size_t
progress_size(const struct jr_held *held)
{
	const struct jr_progress *progress = &held->progress;

	return jr_text_size(progress->progress) + jr_text_size(progress->checkpoint) + jr_text_size(progress->output);
}

/*
 * What was offered and not written. The server's refusal of several may be the fault of one, so they go one by one;
 * what it refuses by itself is dropped. What was not answered is offered once more: it may be too much for this link.
 */
static void
note_untold(struct jr_held *held, const struct jr_reply *reply, size_t offered)
{
	bool refused = reply->end == JR_PG_FAILED && reply->err.code != JR_E_TEMP;

	if (refused && offered > 1) {
		held->tell_alone = true;
		held->telling = false;
	} else if (refused || held->untold)
		jr_progress_forget(held);
	else
		held->untold = reply->end == JR_PG_UNKNOWN;
}

static size_t
count_offered(const struct jr_runner *runner)
{
	size_t count = 0;

	for (const struct jr_held *held = runner->held; held != NULL; held = held->next)
		count += held->on_tell;
	return count;
}

static void
take_told(struct jr_runner *runner, const PGresult *result)
{
	for (size_t i = 0; i < jr_queue_count_told(result); i++) {
		struct jr_told_row row = jr_queue_read_told(result, i);
		struct jr_held *held = jr_held_find(runner, row.id, row.claim_seq);

		if (held != NULL)
			jr_progress_forget(held);
	}
}

static void
on_told(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;
	size_t offered = count_offered(runner);

	if (reply->end == JR_PG_DONE)
		take_told(runner, reply->results[0]);
	else if (reply->end == JR_PG_FAILED)
		jr_log(offered > 1 ? JR_INFO : JR_WARN, "progress_refused", JR_S("error", reply->err.msg));
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		if (held->on_tell && reply->end != JR_PG_DONE)
			note_untold(held, reply, offered);
		held->on_tell = false;
	}
	if (reply->end == JR_PG_UNKNOWN || reply->end == JR_PG_UNSENT)
		runner->progress_wanted = false; /* the next heartbeat asks again */
	jr_runner_pump(runner);
}

bool
jr_progress_try(struct jr_runner *runner)
{
	struct jr_progress *items;
	struct jr_request *request;
	size_t count = 0, bytes = 0;

	if (!runner->progress_wanted)
		return false;
	items = jr_xcalloc(runner->held_count + 1, sizeof(*items));
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		size_t size = progress_size(held);

		if (size == 0 || held->telling || (count > 0 && (held->tell_alone || bytes + size > PROGRESS_BYTES)))
			continue;
		held->telling = held->on_tell = true;
		bytes += size;
		items[count++] = held->progress;
		if (held->tell_alone)
			break;
	}
	runner->progress_wanted = count > 0;
	if (count > 0) {
		request = jr_request_new(JR_REQUEST_WHOLE, jr_runner_times(runner), on_told, runner);
		jr_queue_add_progress(request, runner->facts.id, items, count);
		jr_pg_submit(runner->pg, request);
	}
	free(items);
	return count > 0;
}
