/*
 * runner_held_parts: of what the files of the runner share, the part that is about held runs, from their claim to the
 * end of their handlers. runner_parts.h includes it and explains it; nobody else includes it.
 */
#ifndef JR_RUNNER_HELD_PARTS_H
#define JR_RUNNER_HELD_PARTS_H

#include "runner/attempt.h"
#include "runner/queue.h"

struct jr_runner;
struct jr_held;
struct jr_permit;

/* --- runner_phase.c --- */

enum jr_held_phase {
	JR_HELD_CLAIMED,  /* its handler has not been started */
	JR_HELD_AHEAD,    /* it was claimed ahead, and waits for a permit */
	JR_HELD_RUNNING,  /* its handler runs */
	JR_HELD_ENDED,    /* the outcome is known, and was never sent */
	JR_HELD_OFFERED,  /* it was sent, is known not to have been accepted, and is to be sent again */
	JR_HELD_SENT,     /* the settle that has it is on the wire */
	JR_HELD_IN_DOUBT, /* nobody knows whether it was accepted: it is read before anything else is sent */
	JR_HELD_ACCEPTED, /* the database has it */
	JR_HELD_GONE,     /* this runner writes nothing for it any more */
	JR_HELD_PHASES
};

struct jr_phase_part {
	size_t counts[JR_HELD_PHASES]; /* of the held runs */
};

/* Its part of struct jr_held. */
struct jr_held_life {
	enum jr_held_phase phase;
	bool begun;   /* the handler was started */
	bool sent;    /* an outcome was sent */
	bool doubted; /* it was in doubt once: zero rows do not say yet that the claim is lost */
};

/*
 * The only function that changes the phase. An impossible change is a bug of the runner. It is logged with both names,
 * the run becomes GONE, its handler is stopped, and it is left to its lease; the other runs are finished as usual, but
 * the runner claims no more and ends with 70. false then.
 */
bool jr_held_move(struct jr_held *held, enum jr_held_phase to) JR_MUST;
enum jr_held_phase jr_held_phase(const struct jr_held *held);
size_t jr_held_count_in(const struct jr_runner *runner, enum jr_held_phase phase);
void jr_held_count_one(const struct jr_held *held, bool more); /* it is in the list of the held runs, or is no more */
bool jr_held_was_begun(const struct jr_held *held);
bool jr_held_was_sent(const struct jr_held *held);
bool jr_held_was_doubted(const struct jr_held *held);

/* --- runner_held.c --- */

#define JR_HELD_BUCKETS 4096

struct jr_held_set {
	struct jr_held *first;
	struct jr_held *by_id[JR_HELD_BUCKETS];
	size_t count;
	struct jr_claim_list begun;   /* dropped after the handler had started, and not accepted */
	struct jr_claim_list offered; /* dropped after an outcome was sent, never started, and not accepted */
	int64_t beat_at_ms;           /* the next heartbeat; here, since the list knows when leases begin and end */
};

/* Its part of struct jr_held. */
struct jr_held_entry {
	struct jr_held *next, **prev;
	struct jr_held *alike, **alike_prev; /* those whose run has the same hash */
	struct jr_permit *permit;            /* NULL: none */
	int64_t fence_at_ms;                 /* when its handler must stop unless a heartbeat is answered */
};

void jr_held_open(struct jr_runner *runner);
void jr_held_close(struct jr_runner *runner);
/* Takes run and permit (NULL: it cannot be started). The lease began then. */
struct jr_held *jr_held_add(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit);
void jr_held_remove(struct jr_held *held); /* frees it */
size_t jr_held_count(const struct jr_runner *runner);
struct jr_held *jr_held_first(const struct jr_runner *runner);
struct jr_held *jr_held_next(const struct jr_held *held);
struct jr_held *jr_held_find(const struct jr_runner *runner, int64_t id, int64_t claim_seq);
/* Another claim of the same run in this phase. */
struct jr_held *jr_held_find_other(const struct jr_held *held, enum jr_held_phase phase);
const struct jr_permit *jr_held_permit(const struct jr_held *held);
void jr_held_put_permit(struct jr_held *held, struct jr_permit *permit); /* of one that has none */
void jr_held_leave_permit(struct jr_held *held);
int64_t jr_held_fence_at(const struct jr_held *held);
void jr_held_renew(struct jr_held *held, int64_t sent_ms); /* a heartbeat sent then was answered */

int64_t jr_held_beat_at(const struct jr_runner *runner);
void jr_held_beat_by(struct jr_runner *runner, int64_t at_ms); /* renew the leases by then */
void jr_held_forget_beat(struct jr_runner *runner);            /* until jr_held_beat_by sets another */

/*
 * Add to *list: the claims that are held; those and the dropped ones, none of which must be adopted. Of the dropped
 * ones jr_held_begun gives those that were started: the goodbye must not give them back.
 */
void jr_held_name_all(const struct jr_runner *runner, struct jr_claim_list *list);
void jr_held_name_known(const struct jr_runner *runner, struct jr_claim_list *list);
const struct jr_claim_list *jr_held_begun(const struct jr_runner *runner);

/* Those of the held that `want` wants, as parallel arrays. */
struct jr_held_list {
	struct jr_held **held;
	struct jr_run **runs;
	size_t count;
};
struct jr_held_list jr_held_select(const struct jr_runner *runner, bool (*want)(const struct jr_held *held));
void jr_held_list_release(struct jr_held_list *list);

/* --- runner_ahead.c --- */

struct jr_ahead {
	struct jr_ahead_times *times; /* of each handler */
	struct jr_held *first, *last; /* those that wait, in the order of the claims */
	size_t count;                 /* of them */
	size_t fitting;               /* how many will start in time, as computed for the last claim */
	size_t run_bytes;             /* of a payload, as the last claim showed */
	int64_t trip_ms;              /* from sending the last claim to its answer */
	bool ended;                   /* what comes next was not claimed: it can only be claimed with a permit */
};

/* Its part of struct jr_held. */
struct jr_held_ahead {
	struct jr_held *next, *prev;
	bool waits;
};

void jr_ahead_open(struct jr_runner *runner);
void jr_ahead_close(struct jr_runner *runner);
/* Pure: has a job type shown that it is quick, and how many such runs will start in time? */
bool jr_ahead_is_quick(int64_t ended, int64_t total_ms);
size_t jr_ahead_fitting(size_t permits, int64_t ended, int64_t total_ms);
void jr_ahead_note_end(const struct jr_held *held, int64_t took_ms); /* its handler has ended */
/* How many to claim ahead, `most` at most, and of which job types, as an array literal; the caller frees it. */
size_t jr_ahead_choose(struct jr_runner *runner, size_t most, char **types);
/* The answer to a claim for programs, of at most so many runs, and how long it took. */
void jr_ahead_note_claim(struct jr_runner *runner, const PGresult *result, size_t most, int64_t took_ms);
bool jr_ahead_is_short(const struct jr_runner *runner); /* it is time for the next claim for programs */

size_t jr_ahead_count(const struct jr_runner *runner);
void jr_ahead_put(struct jr_held *held);
void jr_ahead_remove(struct jr_held *held); /* harmless if it does not wait */
struct jr_held *jr_ahead_first(const struct jr_runner *runner);
bool jr_ahead_is_late(const struct jr_held *held); /* it has waited too long */
/* One that has waited too long; its job type is called quick no more. NULL: there is none. */
struct jr_held *jr_ahead_find_late(struct jr_runner *runner);

/* --- runner_start.c --- */

struct jr_start {
	struct jr_host host;
	struct jr_watchdog *watchdog;
	int64_t alive_ms; /* when it was seen to live last */
	int64_t ended;    /* handlers that have ended, and runs that ended without having been started */
	int64_t counted;  /* claimed runs that --max-runs counts: not housekeeping, nor those that were given back */
	struct jr_held *ready, **ready_end; /* of batches, in the order of the claims: jr_start_ready starts them */
};

/* Its part of struct jr_held. */
struct jr_held_start {
	struct jr_attempt *attempt;               /* RUNNING */
	int64_t begun_ms;                         /* RUNNING: when its handler was started */
	struct jr_held *ready_next, **ready_prev; /* CLAIMED, of a batch; ready_prev NULL: it is not in the list */
	struct jr_outcome outcome;                /* from ENDED on */
	struct jr_timer offer;                    /* from ENDED on: how long the outcome is offered */
	bool lost;            /* RUNNING, IN_DOUBT: the lease is lost, and nothing is written any more */
	const char *why_lost; /* to be reported when the handler has ended; NULL: it was */
};

void jr_start_open(struct jr_runner *runner, void (*nonsense)(void *runner, const struct jr_err *err),
    void (*warned)(void *runner, const char *text));
void jr_start_close(struct jr_runner *runner);                      /* drops what is still held: kills */
void jr_start_finish(struct jr_held *held, enum jr_held_phase end); /* ACCEPTED or GONE; frees it */
void jr_start_sweep(struct jr_runner *runner); /* what an impossible change has left behind is stopped and dropped */
/* Takes a claimed run, as jr_held_add, and starts its handler or ends it. */
void jr_start_take(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit);
/* The same for a run of a batch, but jr_start_ready starts it: on_idle calls that last. */
void jr_start_take_batched(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit);
void jr_start_ready(struct jr_runner *runner);
void jr_start_take_ahead(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms); /* it waits for a permit */
void jr_start_ahead(struct jr_runner *runner);     /* those that wait, as far as there are permits */
void jr_start_end_ahead(struct jr_runner *runner); /* those that have waited too long; all when draining */
void jr_start_stop_all(struct jr_runner *runner, bool kill);
void jr_start_cancel(struct jr_held *held);                 /* a cancel was asked for */
void jr_start_renew(struct jr_held *held, int64_t sent_ms); /* a heartbeat sent then was answered */
void jr_start_progress(struct jr_held *held, struct jr_handler_progress *report);
void jr_start_lose(struct jr_held *held, const char *why); /* the lease is lost */
void jr_start_end_lost(struct jr_held *held);              /* a lost one whose handler is gone; frees it */
bool jr_start_is_lost(const struct jr_held *held);
bool jr_start_settles_itself(const struct jr_held *held); /* its handler runs, and ends the run by itself */
struct jr_outcome *jr_start_outcome(struct jr_held *held);
int64_t jr_start_count_ended(const struct jr_runner *runner);
int64_t jr_start_left(const struct jr_runner *runner); /* of --max-runs; INT64_MAX: no limit */
bool jr_start_stays(const struct jr_runner *runner);   /* it stays, and may still start something */

#endif
