/*
 * runner_held: the list of the claims that this runner holds, and when their leases are to be renewed. See
 * runner_parts.h.
 *
 * A dropped claim whose outcome was not accepted may still have status running in the database. Such claims are
 * remembered, so that no adoption takes them for new ones, and no goodbye gives back one that was started.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

void
jr_held_open(struct jr_runner *runner)
{
	runner->held.beat_at_ms = JR_NEVER;
}

size_t
jr_held_count(const struct jr_runner *runner)
{
	return runner->held.count;
}

struct jr_held *
jr_held_first(const struct jr_runner *runner)
{
	return runner->held.first;
}

struct jr_held *
jr_held_next(const struct jr_held *held)
{
	return held->entry.next;
}

static size_t
bucket(int64_t id)
{
	return (size_t)((uint64_t)id % JR_HELD_BUCKETS);
}

static void
link_held(struct jr_held *held)
{
	struct jr_held_set *set = &held->runner->held;
	struct jr_held_entry *entry = &held->entry;
	struct jr_held **head = &set->by_id[bucket(held->run->id)];

	entry->next = set->first;
	entry->prev = &set->first;
	if (entry->next != NULL)
		entry->next->entry.prev = &entry->next;
	set->first = held;
	entry->alike = *head;
	entry->alike_prev = head;
	if (entry->alike != NULL)
		entry->alike->entry.alike_prev = &entry->alike;
	*head = held;
	set->count++;
	jr_held_count_one(held, true);
}

static void
unlink_held(struct jr_held *held)
{
	struct jr_held_entry *entry = &held->entry;

	*entry->prev = entry->next;
	if (entry->next != NULL)
		entry->next->entry.prev = entry->prev;
	*entry->alike_prev = entry->alike;
	if (entry->alike != NULL)
		entry->alike->entry.alike_prev = entry->alike_prev;
	held->runner->held.count--;
	jr_held_count_one(held, false);
}

struct jr_held *
jr_held_add(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit)
{
	struct jr_held *held = jr_xcalloc(1, sizeof(*held));

	held->runner = runner;
	held->run = run;
	run->claimed_ms = begun_ms;
	held->entry.permit = permit;
	held->entry.fence_at_ms = jr_lease_fence_at(&runner->opts->lease, begun_ms);
	link_held(held);
	jr_held_beat_by(runner, begun_ms + runner->opts->lease.heartbeat_ms);
	return held;
}

static void
remember(const struct jr_held *held)
{
	struct jr_held_set *set = &held->runner->held;

	if (jr_held_phase(held) == JR_HELD_ACCEPTED)
		return;
	if (jr_held_was_begun(held))
		jr_claim_list_add(&set->begun, held->run->id, held->run->claim_seq);
	else if (jr_held_was_sent(held))
		jr_claim_list_add(&set->offered, held->run->id, held->run->claim_seq);
}

void
jr_held_put_permit(struct jr_held *held, struct jr_permit *permit)
{
	held->entry.permit = permit;
}

void
jr_held_leave_permit(struct jr_held *held)
{
	if (held->entry.permit != NULL)
		jr_permit_leave(held->runner, held->entry.permit);
	held->entry.permit = NULL;
}

void
jr_held_remove(struct jr_held *held)
{
	struct jr_runner *runner = held->runner;

	unlink_held(held);
	remember(held);
	if (runner->held.count == 0)
		runner->held.beat_at_ms = JR_NEVER;
	jr_held_leave_permit(held);
	jr_progress_release(&held->progress.said);
	jr_run_free(held->run);
	free(held);
}

void
jr_held_close(struct jr_runner *runner)
{
	jr_claim_list_release(&runner->held.begun);
	jr_claim_list_release(&runner->held.offered);
}

struct jr_held *
jr_held_find(const struct jr_runner *runner, int64_t id, int64_t claim_seq)
{
	struct jr_held *held = runner->held.by_id[bucket(id)];

	for (; held != NULL; held = held->entry.alike) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a false alarm: a run is unlinked before it is freed */
		if (held->run->id == id && held->run->claim_seq == claim_seq)
			return held;
	}
	return NULL;
}

struct jr_held *
jr_held_find_other(const struct jr_held *held, enum jr_held_phase phase)
{
	struct jr_held *other = held->runner->held.by_id[bucket(held->run->id)];

	for (; other != NULL; other = other->entry.alike) {
		if (other != held && other->run->id == held->run->id && jr_held_phase(other) == phase)
			return other;
	}
	return NULL;
}

const struct jr_permit *
jr_held_permit(const struct jr_held *held)
{
	return held->entry.permit;
}

int64_t
jr_held_fence_at(const struct jr_held *held)
{
	return held->entry.fence_at_ms;
}

void
jr_held_renew(struct jr_held *held, int64_t sent_ms)
{
	held->entry.fence_at_ms = jr_lease_fence_at(&held->runner->opts->lease, sent_ms);
}

int64_t
jr_held_beat_at(const struct jr_runner *runner)
{
	return runner->held.beat_at_ms;
}

void
jr_held_beat_by(struct jr_runner *runner, int64_t at_ms)
{
	struct jr_held_set *set = &runner->held;

	if (set->count == 0)
		return;
	if (at_ms < set->beat_at_ms)
		set->beat_at_ms = at_ms;
	jr_runner_wake_at(runner, set->beat_at_ms);
}

void
jr_held_forget_beat(struct jr_runner *runner)
{
	runner->held.beat_at_ms = JR_NEVER;
}

void
jr_held_name_all(const struct jr_runner *runner, struct jr_claim_list *list)
{
	for (const struct jr_held *held = runner->held.first; held != NULL; held = held->entry.next)
		jr_claim_list_add(list, held->run->id, held->run->claim_seq);
}

static void
name_again(const struct jr_claim_list *from, struct jr_claim_list *list)
{
	for (size_t i = 0; i < from->count; i++)
		jr_claim_list_add(list, from->items[i].id, from->items[i].claim_seq);
}

void
jr_held_name_known(const struct jr_runner *runner, struct jr_claim_list *list)
{
	jr_held_name_all(runner, list);
	name_again(&runner->held.begun, list);
	name_again(&runner->held.offered, list);
}

const struct jr_claim_list *
jr_held_begun(const struct jr_runner *runner)
{
	return &runner->held.begun;
}

struct jr_held_list
jr_held_select(const struct jr_runner *runner, bool (*want)(const struct jr_held *held))
{
	struct jr_held_list list = {.held = jr_xcalloc(runner->held.count + 1, sizeof(struct jr_held *)),
	    .runs = jr_xcalloc(runner->held.count + 1, sizeof(struct jr_run *))};

	for (struct jr_held *held = runner->held.first; held != NULL; held = held->entry.next) {
		if (!want(held))
			continue;
		list.held[list.count] = held;
		list.runs[list.count++] = held->run;
	}
	return list;
}

void
jr_held_list_release(struct jr_held_list *list)
{
	free(list->held);
	free(list->runs);
}
