/*
 * runner_tell: what running handlers have to tell, written under the fence after each heartbeat. See runner_parts.h.
 *
 * It goes in a batch of its own, so that a text which the server refuses costs no heartbeat, and no other run its
 * progress. What was not written, because the row was locked or the connection went, is offered again with the next
 * heartbeat; what the server refuses by itself is dropped.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define TELL_BYTES ((size_t)512 * 1024) /* of one batch; at least one run goes */

void
jr_tell_forget(struct jr_held *held)
{
	free(held->tale.progress);
	free(held->tale.checkpoint);
	free(held->tale.output);
	held->tale = (struct jr_tale){.id = 0};
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
jr_tell_collect(struct jr_runner *runner)
{
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		struct jr_news news;

		held->telling = false;
		if (held->phase != JR_HELD_RUNNING || held->lost)
			continue;
		jr_attempt_news(held->attempt, &news);
		replace(&held->tale.progress, news.progress);
		replace(&held->tale.checkpoint, news.checkpoint);
		if (news.output != NULL) {
			free(held->tale.output);
			held->tale.output = news.output;
			held->tale.output_dropped = news.output_dropped;
		}
		held->tale.id = held->run->id;
		held->tale.claim_seq = held->run->claim_seq;
	}
	runner->tell_wanted = true;
}

static size_t
tale_size(const struct jr_held *held)
{
	const struct jr_tale *tale = &held->tale;

	return jr_text_size(tale->progress) + jr_text_size(tale->checkpoint) + jr_text_size(tale->output);
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
		jr_tell_forget(held);
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
			jr_tell_forget(held);
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
		runner->tell_wanted = false; /* the next heartbeat asks again */
	jr_runner_pump(runner);
}

bool
jr_tell_try(struct jr_runner *runner)
{
	struct jr_tale *tales;
	struct jr_batch *batch;
	size_t count = 0, bytes = 0;

	if (!runner->tell_wanted)
		return false;
	tales = jr_xcalloc(runner->held_count + 1, sizeof(*tales));
	for (struct jr_held *held = runner->held; held != NULL; held = held->next) {
		size_t size = tale_size(held);

		if (size == 0 || held->telling || (count > 0 && (held->tell_alone || bytes + size > TELL_BYTES)))
			continue;
		held->telling = held->on_tell = true;
		bytes += size;
		tales[count++] = held->tale;
		if (held->tell_alone)
			break;
	}
	runner->tell_wanted = count > 0;
	if (count > 0) {
		batch = jr_batch_new(JR_BATCH_WHOLE, jr_runner_times(runner), on_told, runner);
		jr_queue_add_tell(batch, runner->facts.id, tales, count);
		jr_pg_submit(runner->pg, batch);
	}
	free(tales);
	return count > 0;
}
