/*
 * runner_ping: the "ping" of NAME.json: a dead man's switch for a job type; and the start of a tick, or of a command of
 * exec, whose end the caller tells. See runner_parts.h and ping.h.
 *
 * A ping goes out when the end of a run is committed: it has succeeded, or it is dead. A run that is tried again says
 * nothing yet. Of each job type at most one ping is sent in EVERY_MS, since these services count requests; what is told
 * then is the last end. Starts are told only with "ping_start", at most one in EVERY_MS, and what waits to be told
 * goes before. Nothing waits for the ping of a start.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

#define EVERY_MS 10000

/* Of each handler, in the order of the handlers. */
struct jr_ping_type {
	int64_t next_at_ms, next_start_ms; /* no ping before */
	bool waits, ok;                    /* a ping, and what it says */
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

static void
send_ping(struct jr_runner *runner, const char *url, enum jr_ping_kind kind)
{
	if (runner->ping.pings == NULL)
		runner->ping.pings = jr_pings_new(runner->loop);
	jr_pings_send(runner->ping.pings, url, kind);
}

static void
send_end(struct jr_runner *runner, size_t i, int64_t now_ms)
{
	struct jr_ping_type *type = &runner->ping.types[i];

	type->waits = false;
	type->next_at_ms = jr_clock_after(now_ms, EVERY_MS);
	send_ping(runner, runner->opts->handlers->items[i].settings.ping, type->ok ? JR_PING_OK : JR_PING_FAIL);
}

/* Send what waits, if it is time, or if this is the end. */
static void
send_waiting(struct jr_runner *runner, bool is_end)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	int64_t now_ms = jr_clock_now_ms(), next_ms = JR_NEVER;

	for (size_t i = 0; i < handlers->count; i++) {
		const struct jr_ping_type *type = &runner->ping.types[i];

		if (!type->waits)
			continue;
		if (!is_end && type->next_at_ms > now_ms) {
			next_ms = type->next_at_ms < next_ms ? type->next_at_ms : next_ms;
			continue;
		}
		send_end(runner, i, now_ms);
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
	runner->ping.types[handler - handlers->items].waits = true;
	runner->ping.types[handler - handlers->items].ok = ok;
	send_waiting(runner, false);
}

void
jr_ping_tick_starts(struct jr_runner *runner)
{
	if (runner->opts->ping_start != NULL && runner->opts->exec == NULL)
		send_ping(runner, runner->opts->ping_start, JR_PING_START);
}

void
jr_ping_run_starts(struct jr_runner *runner, const char *job_type)
{
	const struct jr_handlers *handlers = runner->opts->handlers;
	const struct jr_handler *handler = jr_handlers_find(handlers, job_type);
	int64_t now_ms = jr_clock_now_ms();
	struct jr_ping_type *type;

	if (runner->opts->exec != NULL && runner->opts->ping_start != NULL)
		send_ping(runner, runner->opts->ping_start, JR_PING_START);
	if (runner->opts->exec != NULL || handler == NULL || !handler->settings.ping_start)
		return;
	type = &runner->ping.types[handler - handlers->items];
	if (type->next_start_ms > now_ms)
		return;
	if (type->waits)
		send_end(runner, (size_t)(handler - handlers->items), now_ms);
	type->next_start_ms = jr_clock_after(now_ms, EVERY_MS);
	send_ping(runner, handler->settings.ping, JR_PING_START);
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
