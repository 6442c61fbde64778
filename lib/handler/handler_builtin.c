/*
 * handler_builtin: the built-in jobrun.noop, which has no file.
 *
 * It does nothing and succeeds. It is for trying out a queue, and shows what a run costs without a process. It needs no
 * permit. It ends from the loop like any other handler, because callers do not expect `ended` inside start.
 */
#include "handler/handler.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

struct builtin_work {
	struct jr_work work; /* first */
	struct jr_timer timer;
	jr_work_fn *ended;
	void *ctx;
};

static void
end_noop(void *ctx)
{
	struct builtin_work *builtin = ctx;
	struct jr_work_end end = {.verdict = JR_DONE};

	builtin->ended(builtin->ctx, &end);
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	struct builtin_work *builtin = jr_xcalloc(1, sizeof(*builtin));

	(void)handler;
	(void)run;
	(void)deadline_ms;
	(void)run_deadline_ms;
	(void)err;
	builtin->work.kind = &jr_handler_builtin;
	builtin->ended = owner->ended;
	builtin->ctx = owner->ctx;
	jr_timer_init(&builtin->timer, end_noop, builtin);
	jr_timer_set(host->loop, &builtin->timer, jr_clock_now_ms());
	return &builtin->work;
}

/* It ends in the next turn anyway. */
static void
stop(struct jr_work *work, bool kill)
{
	(void)work;
	(void)kill;
}

static void
move(struct jr_work *work, int64_t deadline_ms)
{
	(void)work;
	(void)deadline_ms;
}

static void
free_work(struct jr_work *work)
{
	struct builtin_work *builtin = (struct builtin_work *)work;

	jr_timer_cancel(&builtin->timer);
	free(builtin);
}

const struct jr_handler_kind jr_handler_builtin = {
    .name = "built-in",
    .pool = JR_POOL_NONE,
    .built_in = "jobrun.noop",
    .success_rule = "it is built in and does nothing",
    .start = start,
    .stop = stop,
    .move = move,
    .free = free_work,
};
