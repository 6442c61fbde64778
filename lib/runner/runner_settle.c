/*
 * runner_settle: outcomes, until they are accepted or fenced out. See runner_parts.h.
 *
 * All known outcomes go in one settle, with the next claim in the same transaction. If their texts are too much for
 * one, the oldest go first, and nothing is claimed before the others have gone: programs that print much must not end
 * faster than the database takes what they print. If the settle fails it is repeated without the claim, then run by
 * run: one bad row never takes the others with it. Rows that others have locked are asked for one after the other,
 * briefly and with pauses, so that whoever keeps many of them locked, as `cancel` in an open transaction does, holds
 * back neither the other outcomes nor the claims. An outcome loses its texts only if the server refuses it for a reason
 * that can lie in them; after any other refusal it is sent again as it is. A settle that was not answered leaves its
 * runs in doubt; they are read (resolve.sql) before anything is sent again, and zero rows after an unanswered try are
 * read again before they are called fenced out. The same holds for a sql handler's own commit; when the lease is lost,
 * too, the read is all that is done: what has arrived is reported, and nothing else is written.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "runner/runner_parts.h"

#define REQUEST_BYTES ((size_t)256 * 1024) /* of texts in one settle, so that it arrives within its deadline */
#define GATHER_MS 20                       /* how long outcomes wait for others */
#define RETRY_MS 1000                      /* the row was locked, or the server refused */
#define LOCKED "55P03"
#define LOCKED_SHARE 5 /* of the time goes to rows that stay locked: a fifth */
#define BRIEF_SHARE 20 /* of lock_timeout: 50 ms */

static bool
is_offered(const struct jr_held *held)
{
	enum jr_held_phase phase = jr_held_phase(held);

	return (phase == JR_HELD_ENDED || phase == JR_HELD_OFFERED) && held->settle.retry_at_ms <= jr_clock_now_ms();
}

static bool
is_offered_together(const struct jr_held *held)
{
	return is_offered(held) && !held->settle.alone;
}

static bool
is_offered_alone(const struct jr_held *held)
{
	return is_offered(held) && held->settle.alone &&
	       (!held->settle.locked || held->runner->settle.locked_until_ms <= jr_clock_now_ms());
}

static bool
is_sent(const struct jr_held *held)
{
	return jr_held_phase(held) == JR_HELD_SENT;
}

static bool
is_in_doubt(const struct jr_held *held)
{
	return jr_held_phase(held) == JR_HELD_IN_DOUBT;
}

/* --- the answer --- */

static void
retry_later(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;
	int64_t half = runner->opts->lease.heartbeat_ms / 2;

	held->settle.retry_at_ms = jr_clock_now_ms() + (half < RETRY_MS ? half : RETRY_MS);
	jr_runner_wake_at(runner, held->settle.retry_at_ms);
}

/*
 * Can the texts of an outcome be why the server refused it? They can be invalid in the database, against a CHECK, too
 * large or nested too deep; nothing else in it can. A missing right, for one, says nothing about them.
 */
static bool
may_be_texts(const struct jr_err *err)
{
	static const char *const classes[] = {
	    "22", "23", "54", "0A000"}; /* 0A000: SQL_ASCII converts no \u20ac of JSON */

	for (size_t i = 0; i < JR_COUNT(classes); i++) {
		if (strncmp(err->sqlstate, classes[i], strlen(classes[i])) == 0)
			return true;
	}
	return false;
}

static void
strip(struct jr_held *held)
{
	struct jr_outcome *o = jr_start_outcome(held);

	held->settle.stripped = true;
	free(o->output);
	free(o->result);
	free(o->progress);
	free(o->checkpoint);
	free(o->error);
	o->output = NULL;
	o->result = NULL;
	o->progress = NULL;
	o->checkpoint = NULL;
	o->error = o->kind == JR_OUT_SUCCEEDED ? NULL : jr_xstrdup("the text was refused by the server");
}

/* The server refused the outcome of a run by itself. */
static void
note_refused_alone(struct jr_held *held, const struct jr_err *err)
{
	struct jr_held_settle *settle = &held->settle;

	if (strcmp(err->sqlstate, LOCKED) == 0 && !settle->told_locked) {
		jr_log(JR_INFO, JR_EVENT_LOCKED, JR_I("run", held->run->id));
		settle->told_locked = true;
	}
	if (err->code != JR_E_TEMP && !settle->told) {
		jr_log(JR_WARN, JR_EVENT_OUTCOME_REFUSED, JR_I("run", held->run->id), JR_S("error", err->msg));
		settle->told = true;
	}
	if (may_be_texts(err) && !settle->stripped)
		strip(held);
	else
		retry_later(held);
}

static int64_t
brief_ms(struct jr_runner *runner)
{
	int64_t lock_ms = jr_times_usual(runner)->lock_ms;

	return lock_ms < BRIEF_SHARE ? 1 : lock_ms / BRIEF_SHARE;
}

/* May the run be dead with this, so that the settle enqueues its alarm? */
static bool
may_be_dead(struct jr_held *held)
{
	enum jr_outcome_kind kind = jr_start_outcome(held)->kind;

	return kind != JR_OUT_SUCCEEDED && kind != JR_OUT_UNSTARTED &&
	       (kind == JR_OUT_DEAD || held->run->attempts >= held->run->max_attempts);
}

/*
 * While somebody keeps a row locked, no settle waits long for locks. But an alarm is not enqueued again if it had to
 * wait too long for its queue, so a run that may be dead has the usual time once.
 */
static struct jr_lease
settle_times(struct jr_runner *runner, const struct jr_held_list *list)
{
	struct jr_lease times = *jr_times_usual(runner);
	const struct jr_held *held = jr_held_first(runner);

	while (held != NULL && !held->settle.locked)
		held = jr_held_next(held);
	for (size_t i = 0; held != NULL && i < list->count; i++) {
		if (list->held[i]->settle.retry_at_ms == 0 && may_be_dead(list->held[i]))
			held = NULL;
	}
	if (held != NULL)
		times.lock_ms = brief_ms(runner);
	return times;
}

static void
note_refused(struct jr_runner *runner, const struct jr_held_list *sent, const struct jr_err *err)
{
	bool locked = strcmp(err->sqlstate, LOCKED) == 0;

	for (size_t i = 0; i < sent->count; i++) {
		if (sent->count == 1)
			note_refused_alone(sent->held[i], err);
		sent->held[i]->settle.alone = true;
		sent->held[i]->settle.locked = locked;
	}
	if (locked && sent->count == 1)
		runner->settle.locked_until_ms =
		    jr_clock_after(jr_clock_now_ms(), (LOCKED_SHARE - 1) * brief_ms(runner));
	if (err->code != JR_E_TEMP && err->code != JR_E_DATA)
		jr_runner_fail(runner, err);
}

/*
 * A run that was never started has nothing to lose: it leaves no attempt by which one could see that it was accepted.
 */
static void
note_fenced(struct jr_held *held)
{
	if (jr_start_outcome(held)->kind == JR_OUT_UNSTARTED)
		jr_start_finish(held, JR_HELD_GONE);
	else
		jr_start_lose(held, "its result came too late and was not accepted");
}

static void
take_settled(struct jr_runner *runner, const PGresult *result)
{
	for (size_t i = 0; i < jr_queue_count_settled(result); i++) {
		struct jr_settled_row row = jr_queue_read_settled(result, i);
		struct jr_held *held = jr_held_find(runner, row.id, row.claim_seq);

		if (held == NULL || !is_sent(held))
			continue;
		jr_report_settled(runner, &row, jr_start_outcome(held), held->run->job_type);
		jr_start_finish(held, JR_HELD_ACCEPTED);
	}
}

/* Those that are still `sent` when the accepted ones are gone were not accepted. */
static void
take_missing(struct jr_runner *runner)
{
	struct jr_held_list missing = jr_held_select(runner, is_sent);

	for (size_t i = 0; i < missing.count; i++) {
		if (jr_held_was_doubted(missing.held[i]))
			(void)!jr_held_move(missing.held[i], JR_HELD_IN_DOUBT);
		else
			note_fenced(missing.held[i]);
	}
	jr_held_list_release(&missing);
}

static void
take_failure(struct jr_runner *runner, const struct jr_reply *reply)
{
	struct jr_held_list sent = jr_held_select(runner, is_sent);
	bool unknown = reply->end == JR_PG_UNKNOWN;
	bool by_claim = reply->end == JR_PG_FAILED && reply->failed_at >= 1 && reply->failed_at < reply->result_count;

	for (size_t i = 0; i < sent.count; i++) {
		(void)!jr_held_move(sent.held[i], unknown ? JR_HELD_IN_DOUBT : JR_HELD_OFFERED);
		if (unknown && sent.count > 1) /* it may have been too much for one request */
			sent.held[i]->settle.alone = true;
	}
	if (by_claim) {
		runner->settle.apart = true;
		runner->settle.sent_alone = jr_claim_count_sent_alone(runner);
	} else if (reply->end == JR_PG_FAILED)
		note_refused(runner, &sent, &reply->err);
	jr_held_list_release(&sent);
}

static void
on_settled(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		take_settled(runner, reply->results[0]);
		take_missing(runner);
	} else
		take_failure(runner, reply);
	if (reply->result_count > 1)
		jr_claim_reply(runner, reply, 1);
	jr_runner_show_counts(runner);
}

/* --- sending --- */

/* Those that could not be marked as sent are not in it; NULL: none could. */
static struct jr_request *
make_request(struct jr_runner *runner, const struct jr_held_list *list)
{
	struct jr_lease times = settle_times(runner, list);
	struct jr_request *request = jr_request_new(JR_REQUEST_WHOLE, &times, on_settled, runner);
	struct jr_settlement *settlements = jr_xcalloc(list->count, sizeof(*settlements));
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (jr_held_move(list->held[i], JR_HELD_SENT))
			settlements[count++] = (struct jr_settlement){.id = list->runs[i]->id,
			    .claim_seq = list->runs[i]->claim_seq,
			    .runner_id = runner->facts.id,
			    .outcome = jr_start_outcome(list->held[i])};
	}
	if (count > 0)
		jr_queue_add_settle(request, settlements, count);
	free(settlements);
	if (count > 0)
		return request;
	jr_request_free(request);
	return NULL;
}

/* The list is that of the newest claims first. */
static void
put_oldest_first(struct jr_held_list *list)
{
	for (size_t i = 0; i < list->count / 2; i++) {
		size_t j = list->count - 1 - i;
		struct jr_held *held = list->held[i];
		struct jr_run *run = list->runs[i];

		list->held[i] = list->held[j];
		list->runs[i] = list->runs[j];
		list->held[j] = held;
		list->runs[j] = run;
	}
}

/* As many as fit, at least one; the others go with the next. Were there more? */
static bool
cut_to_size(struct jr_held_list *list)
{
	size_t bytes = 0, n = 0, count = list->count;

	for (; n < list->count; n++) {
		const struct jr_outcome *o = jr_start_outcome(list->held[n]);

		bytes += jr_text_size(o->output) + jr_text_size(o->error) + jr_text_size(o->result) +
			 jr_text_size(o->progress) + jr_text_size(o->checkpoint);
		if (n > 0 && bytes > REQUEST_BYTES)
			break;
	}
	list->count = n;
	return n < count;
}

/* The one that has waited longest, so that each has its turn. */
static void
cut_to_longest(struct jr_held_list *list)
{
	size_t first = 0;

	if (list->count == 0)
		return;
	for (size_t i = 1; i < list->count; i++) {
		if (list->held[i]->settle.retry_at_ms < list->held[first]->settle.retry_at_ms)
			first = i;
	}
	list->held[0] = list->held[first];
	list->runs[0] = list->runs[first];
	list->count = 1;
}

/* Those that wait for their time are looked at then. */
static void
wake_for_retries(struct jr_runner *runner)
{
	int64_t now_ms = jr_clock_now_ms();

	for (const struct jr_held *held = jr_held_first(runner); held != NULL; held = jr_held_next(held)) {
		if (held->settle.retry_at_ms > now_ms)
			jr_runner_wake_at(runner, held->settle.retry_at_ms);
		else if (held->settle.locked && runner->settle.locked_until_ms > now_ms)
			jr_runner_wake_at(runner, runner->settle.locked_until_ms);
	}
}

static bool
is_fused(const struct jr_runner *runner)
{
	if (jr_times_are_long(runner))
		return false; /* what takes long goes alone */
	return !runner->settle.apart || runner->settle.sent_alone < jr_claim_count_sent_alone(runner);
}

/*
 * A transaction costs more than a run that ends at once. So while more of these wait for a permit, their outcomes are
 * gathered, and a claim may go along. One that was sent before does not wait.
 */
static bool
is_gathering(struct jr_runner *runner)
{
	int64_t *until_ms = &runner->settle.gather_until_ms;
	size_t waiting = jr_ahead_count(runner);
	bool claims = jr_ahead_is_short(runner);

	if (waiting == 0 || claims || jr_runner_is_draining(runner) || jr_held_count_in(runner, JR_HELD_OFFERED) > 0)
		*until_ms = 0;
	else if (*until_ms == 0)
		*until_ms = jr_clock_after(jr_clock_now_ms(), GATHER_MS);
	if (jr_clock_now_ms() >= *until_ms) {
		*until_ms = 0;
		return false;
	}
	jr_runner_wake_at(runner, *until_ms);
	return true;
}

static bool
has_something(const struct jr_runner *runner)
{
	return jr_held_count_in(runner, JR_HELD_ENDED) + jr_held_count_in(runner, JR_HELD_OFFERED) > 0;
}

bool
jr_settle_try(struct jr_runner *runner)
{
	struct jr_held_list list;
	struct jr_request *request = NULL;
	bool alone, more;

	if (!has_something(runner) || is_gathering(runner))
		return false;
	list = jr_held_select(runner, is_offered_together);
	alone = list.count == 0;
	if (alone) {
		jr_held_list_release(&list);
		list = jr_held_select(runner, is_offered_alone);
		cut_to_longest(&list);
		wake_for_retries(runner);
	}
	put_oldest_first(&list);
	more = cut_to_size(&list);
	if (list.count > 0)
		request = make_request(runner, &list);
	jr_held_list_release(&list);
	if (request == NULL)
		return false;
	if (!alone && !more && is_fused(runner))
		(void)jr_claim_add(runner, request);
	jr_pg_submit(runner->pg, request);
	return true;
}

/* --- doubt --- */

static void
take_answer(struct jr_runner *runner, const struct jr_answer_row *row)
{
	struct jr_held *held = jr_held_find(runner, row->id, row->claim_seq);

	if (held == NULL || !is_in_doubt(held))
		return;
	if (row->answer == JR_ANSWER_ACCEPTED) {
		jr_report_accepted(runner, held->run, jr_start_outcome(held), row);
		jr_start_finish(held, JR_HELD_ACCEPTED);
	} else if (jr_start_is_lost(held))
		jr_start_end_lost(held);
	else if (row->answer == JR_ANSWER_FENCED)
		note_fenced(held);
	else
		(void)!jr_held_move(held, JR_HELD_OFFERED); /* it was not applied */
}

static void
resolve_later(struct jr_runner *runner)
{
	runner->settle.resolve_at_ms = jr_clock_now_ms() + runner->opts->lease.heartbeat_ms / 2;
	jr_runner_wake_at(runner, runner->settle.resolve_at_ms);
}

static void
on_resolved(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE) {
		if (jr_runner_repeats(runner, &runner->settle.resolve_repeat, "resolve", reply->results[0]))
			resolve_later(runner);
		for (size_t i = 0; i < jr_queue_count_answers(reply->results[0]); i++) {
			struct jr_answer_row row = jr_queue_read_answer(reply->results[0], i);

			take_answer(runner, &row);
		}
	} else if (reply->end == JR_PG_FAILED)
		resolve_later(runner);
}

bool
jr_settle_try_resolve(struct jr_runner *runner)
{
	struct jr_held_list list;
	struct jr_request *request;
	bool sends;

	if (jr_held_count_in(runner, JR_HELD_IN_DOUBT) == 0)
		return false;
	list = jr_held_select(runner, is_in_doubt);
	sends = list.count > 0 && jr_clock_now_ms() >= runner->settle.resolve_at_ms;
	if (sends) {
		request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_resolved, runner);
		jr_queue_add_resolve(request, runner->facts.id, list.runs, list.count);
		jr_pg_submit(runner->pg, request);
	} else if (list.count > 0)
		jr_runner_wake_at(runner, runner->settle.resolve_at_ms);
	jr_held_list_release(&list);
	return sends;
}

void
jr_settle_forget_repeats(struct jr_runner *runner)
{
	runner->settle.resolve_repeat = (struct jr_repeat){0};
}
