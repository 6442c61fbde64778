/*
 * runner_ping: the "ping" of NAME.json: a dead man's switch for a job type. See runner_parts.h and ping.h.
 *
 * A ping goes out when the end of a run is committed: it has succeeded, or it is dead. A run that is tried again says
 * nothing yet. Of each job type at most one ping is sent in EVERY_MS, since these services count requests; what is told
 * then is the last end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define EVERY_MS 10000

/* Of each handler, in the order of the handlers. */
struct jr_ping_type {
	int64_t next_at_ms; /* no ping before */
	bool waits, ok;     /* a ping, and what it says */
};

static void on_time(void *ctx);

void
jr_ping_open(struct jr_runner *runner)
{
	runner->ping.types = jr_xcalloc(runner->opts->handlers->count + 1, sizeof(*runner->ping.types));
	jr_timer_init(&runner->ping.timer, on_time, runner);
}

void
jr_ping_close(struct jr_runner *runner)
{
	jr_timer_cancel(&runner->ping.timer);
	jr_pings_free(runner->ping.pings);
	free(runner->ping.types);
}

/* Send what waits, if it is time, or if this is the end. */
static void
send_waiting(struct jr_runner *runner, bool is_end)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	int64_t now_ms = jr_clock_now_ms(), next_ms = JR_NEVER;

	for (size_t i = 0; i < handlers->count; i++) {
		struct jr_ping_type *type = &runner->ping.types[i];

		if (!type->waits)
			continue;
		if (!is_end && type->next_at_ms > now_ms) {
			next_ms = type->next_at_ms < next_ms ? type->next_at_ms : next_ms;
			continue;
		}
		type->waits = false;
		type->next_at_ms = jr_clock_after(now_ms, EVERY_MS);
		jr_pings_send(runner->ping.pings, handlers->items[i].settings.ping, type->ok);
	}
	if (next_ms != JR_NEVER)
		jr_timer_set(runner->loop, &runner->ping.timer, next_ms);
}

static void
on_time(void *ctx)
{
	send_waiting(ctx, false);
}

void
jr_ping_note(struct jr_runner *runner, const char *job_type, const char *status)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const struct jr_handler *handler = jr_handlers_find(handlers, job_type);
	bool ok = strcmp(status, "succeeded") == 0;

	if (handler == NULL || handler->settings.ping == NULL || (!ok && strcmp(status, "dead") != 0))
		return;
	if (runner->ping.pings == NULL)
		runner->ping.pings = jr_pings_new(runner->loop);
	runner->ping.types[handler - handlers->items].waits = true;
	runner->ping.types[handler - handlers->items].ok = ok;
	send_waiting(runner, false);
}

void
jr_ping_finish(struct jr_runner *runner)
{
	int64_t until_ms = jr_clock_after(jr_clock_now_ms(), JR_PING_MOST_MS);
	struct jr_err err;
	bool ok = true;

	if (runner->ping.pings == NULL)
		return;
	send_waiting(runner, true);
	while (ok && !jr_pings_are_over(runner->ping.pings) && jr_clock_now_ms() < until_ms &&
	       !jr_runner_is_signalled(runner))
		ok = jr_loop_turn(runner->loop, &err);
}
