/*
 * runner_fire: schedules. See runner_parts.h.
 *
 * jobrun.fire() does all of the work in one transaction; this file decides when to call it. Each look for work also
 * reads how long it is to the next slot (fire_due.sql), and fire is sent then, at once if a slot is due. The first
 * request only tells whether one is due, since a look follows within a second where more is to be known. Where there
 * are no looks, because every permit is taken, fire is sent every LOOK_MS, since a schedule may belong to any host.
 * When so much is due that it takes many calls, runs are claimed and settled between them.
 *
 * What must hold: whether or not it fails, the runner goes on to claim. A slot that could not be fired stays due, and
 * calling fire again is harmless: a slot that was fired is not due any more.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/pg_form.h"
#include "runner/runner_parts.h"

#include <string.h>

#define LOOK_MS 20000 /* while the next slot is not known */
#define BUSY_MS 1000  /* after a due definition was passed over because it was locked */
#define NAMED_MOST 10
#define ERRORS_MAX 3 /* in a row, before it waits for LOOK_MS */

void
jr_fire_open(struct jr_runner *runner)
{
	runner->fire.at_ms = JR_NEVER;
}

int64_t
jr_fire_count_looks(const struct jr_runner *runner)
{
	return runner->fire.looks;
}

static bool
has_failed(const struct jr_runner *runner)
{
	return runner->fire.errors >= ERRORS_MAX;
}

static void
fire_in(struct jr_runner *runner, int64_t ms)
{
	runner->fire.at_ms = jr_clock_after(jr_clock_now_ms(), ms < LOOK_MS ? ms : LOOK_MS);
}

void
jr_fire_take_look(struct jr_runner *runner, int64_t due_ms, bool claim_first)
{
	bool waits = has_failed(runner) && jr_clock_now_ms() < runner->fire.at_ms;

	runner->fire.last = runner->fire.last || claim_first;
	if (!jr_runner_is_single(runner) && !waits)
		fire_in(runner, due_ms);
}

static bool
is_error(const struct jr_fired_row *row)
{
	return strcmp(row->outcome, "error") == 0;
}

/* A slot that could not be fired and stays due: each call finds it again. */
static bool
is_unfired(const struct jr_fired_row *row)
{
	return is_error(row) && row->slots == 0;
}

/* A hash of all of these; 0: there are none. */
static uint64_t
hash_unfired(const PGresult *result)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < jr_queue_count_fired(result); i++) {
		struct jr_fired_row row = jr_queue_read_fired(result, i);

		if (is_unfired(&row))
			hash = jr_form_mix(jr_form_mix(hash, row.definition), row.slot);
	}
	return hash;
}

static void
log_row(const struct jr_fired_row *row, bool warn)
{
	const struct jr_field fields[] = {JR_S("definition", row->definition), JR_S("slot", row->slot),
	    JR_S("outcome", row->outcome), JR_S("reason", row->reason), JR_I("slots", row->slots),
	    row->run_id > 0 ? JR_I("run", row->run_id) : JR_S("run", NULL)};

	jr_log_fields(warn ? JR_WARN : JR_INFO, JR_EVENT_FIRED, fields, JR_COUNT(fields));
}

/*
 * A run that could not be enqueued needs people, and this runner tells them. Of the slots that stay due it names ten
 * and counts the others, unless they are those of the answer before.
 */
static void
report(struct jr_runner *runner, const PGresult *result)
{
	uint64_t unfired = hash_unfired(result);
	bool known = unfired == runner->fire.unfired;
	int64_t stay = 0;

	for (size_t i = 0; i < jr_queue_count_fired(result); i++) {
		struct jr_fired_row row = jr_queue_read_fired(result, i);
		bool stays = is_unfired(&row);

		stay += stays;
		log_row(&row, stays ? !known && stay <= NAMED_MOST : is_error(&row));
	}
	if (!known && stay > NAMED_MOST)
		jr_log(JR_WARN, JR_EVENT_FIRED, JR_S("outcome", "error"), JR_I("count", stay - NAMED_MOST),
		    JR_S("reason", "jobrun status names these definitions"));
	runner->fire.unfired = unfired;
}

/* After several fire calls in a row there is one look; claims in between use the old candidates. */
static void
look_for_fired(struct jr_runner *runner)
{
	runner->fire.looks += runner->fire.made;
	runner->fire.made = false;
}

static void
take_fired(struct jr_runner *runner, const struct jr_reply *reply)
{
	int64_t runs = 0, slots = 0, due_ms = jr_queue_read_fire_due(reply->results[1]);

	for (size_t i = 0; i < jr_queue_count_fired(reply->results[0]); i++) {
		struct jr_fired_row row = jr_queue_read_fired(reply->results[0], i);

		runs += row.run_id > 0;
		slots += row.slots;
	}
	report(runner, reply->results[0]);
	runner->counts.fired += runs;
	runner->fire.errors = 0;
	jr_runner_heal(runner, JR_TROUBLE_FIRE, "schedules are fired again");
	runner->fire.made = runner->fire.made || runs > 0;
	if (due_ms > 0 || slots == 0)
		look_for_fired(runner);
	(void)jr_runner_repeats(
	    runner, &runner->fire.repeat, "fire", due_ms == 0 && slots > 0 ? reply->results[0] : NULL);
	if (due_ms > 0)
		fire_in(runner, due_ms);
	else
		fire_in(runner, slots > 0 ? 0 : BUSY_MS); /* more than one call does */
}

/* It is tried again, at once while that may help. */
static void
note_trouble(struct jr_runner *runner, const struct jr_err *err)
{
	struct jr_err reason = *err;

	jr_log(JR_INFO, JR_EVENT_FIRE_FAILED, JR_S("error", err->msg));
	look_for_fired(runner);
	if (err->code != JR_E_TEMP)
		runner->fire.errors = ERRORS_MAX;
	else if (!has_failed(runner))
		runner->fire.errors++;
	fire_in(runner, has_failed(runner) ? LOOK_MS : 0);
	if (!has_failed(runner))
		return;
	jr_fail_in(&reason, "schedules were not fired");
	jr_runner_warn(runner, JR_TROUBLE_FIRE, &reason);
}

static void
on_fired(void *ctx, const struct jr_reply *reply)
{
	struct jr_runner *runner = ctx;

	if (reply->end == JR_PG_DONE)
		take_fired(runner, reply);
	else
		note_trouble(runner, &reply->err);
}

bool
jr_fire_try(struct jr_runner *runner)
{
	struct jr_request *request;

	if (jr_runner_is_draining(runner) || jr_runner_is_single(runner))
		return false;
	if (jr_clock_now_ms() < runner->fire.at_ms) {
		jr_runner_wake_at(runner, runner->fire.at_ms);
		return false;
	}
	request = jr_request_new(JR_REQUEST_WHOLE, jr_times_usual(runner), on_fired, runner);
	jr_queue_add_fire(request);
	jr_queue_add_fire_due(request);
	jr_pg_submit(runner->pg, request);
	runner->fire.last = true;
	return true;
}

bool
jr_fire_try_first(struct jr_runner *runner)
{
	bool waits = runner->fire.last;

	runner->fire.last = false;
	return !waits && jr_fire_try(runner);
}
