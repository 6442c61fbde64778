/*
 * orphans: see orphans.h.
 *
 * The kernel names the child that has ended first in the order of its list, and again as long as it is not reaped. So
 * one of our own ends the look: its owner reaps it soon, and the next look goes on. The init of a namespace is none of
 * our own: it ends after all others of its namespace, and who waits for it takes its absence for its end (isolate.h).
 */
#include "process/orphans.h"

#include "base/clock.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 1000
#define LOOK_MAX 10000 /* in one look, so that it ends */

static bool
gets_orphans(void)
{
	int reaps = 0;

	return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaps) == 0 && reaps != 0);
}

static bool
is_own(const struct jr_orphans *orphans, pid_t pid)
{
	const struct jr_own *own = orphans->first;

	while (own != NULL && own->pid != pid)
		own = own->next;
	return own != NULL;
}

static void
on_timer(void *ctx)
{
	struct jr_orphans *orphans = ctx;

	for (int i = 0; i < LOOK_MAX; i++) {
		siginfo_t info = {.si_pid = 0};

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
		    is_own(orphans, info.si_pid))
			break;
		(void)waitpid(info.si_pid, NULL, WNOHANG);
	}
	jr_timer_set(orphans->loop, &orphans->timer, jr_clock_after(jr_clock_now_ms(), LOOK_MS));
}

void
jr_orphans_keep(struct jr_orphans *orphans, struct jr_own *own, pid_t pid)
{
	*own = (struct jr_own){.pid = pid, .next = orphans->first, .prev = &orphans->first};
	if (own->next != NULL)
		own->next->prev = &own->next;
	orphans->first = own;
}

void
jr_orphans_leave(struct jr_own *own)
{
	if (own->prev == NULL)
		return;
	*own->prev = own->next;
	if (own->next != NULL)
		own->next->prev = own->prev;
	own->prev = NULL;
}

void
jr_orphans_begin(struct jr_orphans *orphans, struct jr_loop *loop)
{
	if (orphans->loop != NULL || !gets_orphans())
		return;
	orphans->loop = loop;
	jr_timer_init(&orphans->timer, on_timer, orphans);
	jr_timer_set(loop, &orphans->timer, jr_clock_after(jr_clock_now_ms(), LOOK_MS));
}

void
jr_orphans_end(struct jr_orphans *orphans)
{
	if (orphans->loop != NULL)
		jr_timer_cancel(&orphans->timer);
	orphans->loop = NULL;
}
