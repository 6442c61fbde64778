/*
 * sweep: see sweep.h.
 */
#include "process/sweep.h"

#include "base/clock.h"
#include "base/mem.h"
#include "process/group.h"

#include <stdlib.h>

#define SWEEP_MS 20 /* between two looks: they take no more than a part of the runner's time */

/* The sessions for which a look is wanted. Caller frees. */
static struct jr_session *
gather(const struct jr_sweep *sweep, size_t *count)
{
	struct jr_session *sessions;
	size_t n = 0;

	for (const struct jr_swept *swept = sweep->first; swept != NULL; swept = swept->next)
		n += swept->state == JR_SWEPT_WANTED ? 1 : 0;
	sessions = jr_xcalloc(n + 1, sizeof(*sessions));
	*count = 0;
	for (const struct jr_swept *swept = sweep->first; swept != NULL; swept = swept->next) {
		if (swept->state == JR_SWEPT_WANTED)
			sessions[(*count)++] = (struct jr_session){.number = swept->session, .signo = swept->signo};
	}
	return sessions;
}

static void
on_timer(void *ctx)
{
	struct jr_sweep *sweep = ctx;
	size_t count, at = 0;
	struct jr_session *sessions = gather(sweep, &count);

	jr_sessions_signal_others(sessions, count);
	for (struct jr_swept *swept = sweep->first; swept != NULL; swept = swept->next) {
		if (swept->state == JR_SWEPT_WANTED)
			swept->state = sessions[at++].others ? JR_SWEPT_FOUND : JR_SWEPT_CLEAR;
	}
	free(sessions);
	sweep->last_ms = jr_clock_now_ms();
}

void
jr_sweep_ask(struct jr_sweep *sweep, struct jr_loop *loop, struct jr_swept *swept, int64_t session, int signo)
{
	if (sweep->first == NULL)
		jr_timer_init(&sweep->timer, on_timer, sweep);
	if (swept->sweep == NULL) {
		swept->sweep = sweep;
		swept->next = sweep->first;
		swept->prev = &sweep->first;
		if (sweep->first != NULL)
			sweep->first->prev = &swept->next;
		sweep->first = swept;
	}
	swept->session = session;
	swept->signo = signo;
	swept->state = JR_SWEPT_WANTED;
	jr_timer_set(loop, &sweep->timer, jr_clock_after(sweep->last_ms, SWEEP_MS));
}

void
jr_sweep_leave(struct jr_swept *swept)
{
	if (swept->sweep == NULL)
		return;
	*swept->prev = swept->next;
	if (swept->next != NULL)
		swept->next->prev = swept->prev;
	if (swept->sweep->first == NULL)
		jr_timer_cancel(&swept->sweep->timer);
	swept->sweep = NULL;
}
