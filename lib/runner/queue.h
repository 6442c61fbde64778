/*
 * queue: the runner's statements: one function for each file of lib/sql that a runner sends. It binds and decodes; it
 * has no policy and knows no handler.
 *
 * jr_queue_add_X adds the statement X.sql to a request; jr_queue_read_X reads its result. Every write carries the
 * fence: id, claim_seq and runner_id of a run that is held (locked_until is not null). A run that a fenced write does
 * not return is not this runner's any more. Each result has been checked against its form (pg_form.h) before it is
 * read.
 */
#ifndef JR_QUEUE_H
#define JR_QUEUE_H

#include "base/run.h"
#include "pg/pg.h"
#include "pg/pg_form.h"

/* Claims by name. Zeroed: none. */
struct jr_claim {
	int64_t id, claim_seq;
};
struct jr_claim_list {
	struct jr_claim *items;
	size_t count, space;
};
void jr_claim_list_add(struct jr_claim_list *list, int64_t id, int64_t claim_seq);
void jr_claim_list_release(struct jr_claim_list *list);

/* This runner, as the database knows it. Strings are borrowed. */
struct jr_runner_facts {
	int64_t id;       /* 53 random bits: a repeated first statement is harmless, and JSON keeps the number exact */
	const char *host; /* for people, never identity */
	const char *version;
	const char *job_types; /* text[] literal: those that this host has handlers for and that --type wants */
	const char *queues;    /* text[] literal, NULL: all */
	const char *refused;   /* text[] literal of "FILE: why", NULL: none */
	int64_t pid;
	int64_t permits;
	int64_t heartbeat_ms;
	int64_t linger_ms; /* how long it stays, from when this is sent; 0: until nothing is due */
};

/*
 * A statement with its parameters and the form of its answer: a jr_queue_bind_X fills it for X.sql. jr_queue_add_X adds
 * the same to a request; this is for a conversation of pg/db.h. Strings are borrowed. It points into itself, so it is
 * never copied.
 */
struct jr_bound {
	const char *sql;
	size_t count;
	const char *values[13];
	char numbers[7][24]; /* of the values, as text */
	size_t number_count;
	const struct jr_form *form;
	size_t least, most; /* rows */
};

/* need.sql: fails with SQLSTATE JR078, 3F000 or 42883 when the schema does not fit this program. */
void jr_queue_add_need(struct jr_request *request);

/*
 * runner_start.sql, with `most` candidates. counts: JSON text; if there is nothing to do the runner has ended with
 * these. NULL: it says goodbye itself. needed: need.sql was asked; else the statement writes nothing unless the schema
 * is exactly the one that this program makes. Read: false when another runner has the id, or, unless needed, for
 * another schema. The rows are read by jr_queue_read_candidates, too. Strings are borrowed.
 */
struct jr_started {
	const char *install_id, *database; /* both together differ between databases */
	int64_t idle_session_ms;           /* the server ends a session that is idle for so long; 0: never */
	bool expired;                      /* the lease of a run has ended */
	bool slot_due;                     /* of a schedule */
	bool looks;                        /* it is time to look for runs that no host has a handler for */
	bool over;                         /* there is nothing to do, and the runner's row says that it has ended */
	const char *copied;                /* the warning that the database is a copy; NULL: it is none, or `over` */
};
void jr_queue_bind_runner_start(
    struct jr_bound *bound, const struct jr_runner_facts *facts, int64_t most, const char *counts, bool needed);
void jr_queue_add_runner_start(
    struct jr_request *request, const struct jr_runner_facts *facts, int64_t most, const char *counts, bool needed);
bool jr_queue_read_runner_start(const PGresult *result, struct jr_started *started) JR_MUST;

/* unhandled.sql: rows of a message to people; see `unhandled` in struct jr_runner_opts. */
struct jr_unhandled_row {
	const char *job_type, *words, *others; /* borrowed; job_type and others may be NULL */
};
void jr_queue_add_unhandled(struct jr_request *request);
size_t jr_queue_count_unhandled(const PGresult *result);
struct jr_unhandled_row jr_queue_read_unhandled(const PGresult *result, size_t index);

/*
 * runner_seen.sql (read: is the row of the runner there, and not ended?), runner_finish.sql; counts: JSON text;
 * claim_number: of the last claim.
 */
void jr_queue_add_runner_seen(struct jr_request *request, int64_t runner_id);
bool jr_queue_read_runner_seen(const PGresult *result);
void jr_queue_add_runner_finish(
    struct jr_request *request, int64_t runner_id, const char *counts, int64_t claim_number);

/*
 * For a runner that stays: backend.sql (read: the process id of the session that answers), listen.sql, successor.sql
 * (read: will another runner do its work for least_ms, so that it may end?), linger_end.sql.
 */
void jr_queue_add_backend(struct jr_request *request);
int64_t jr_queue_read_backend(const PGresult *result);
void jr_queue_add_listen(struct jr_request *request);
void jr_queue_add_successor(struct jr_request *request, int64_t runner_id, int64_t least_ms);
bool jr_queue_read_successor(const PGresult *result);
void jr_queue_add_linger_end(struct jr_request *request, int64_t runner_id);

/* expired.sql: has any lease expired, apart from those of `held`? */
void jr_queue_add_expired(struct jr_request *request, const struct jr_claim_list *held);
bool jr_queue_read_expired(const PGresult *result);

/* fire_due.sql: ms until the next slot of any schedule; 0: one is due. */
void jr_queue_add_fire_due(struct jr_request *request);
int64_t jr_queue_read_fire_due(const PGresult *result);

/* fire.sql: what became of each slot. Strings are borrowed from the result. */
struct jr_fired_row {
	const char *definition, *slot, *outcome;
	const char *reason; /* NULL: none */
	int64_t run_id;     /* 0: none */
	int64_t slots;
};
void jr_queue_add_fire(struct jr_request *request);
size_t jr_queue_count_fired(const PGresult *result);
struct jr_fired_row jr_queue_read_fired(const PGresult *result, size_t index);

/* Enough for most databases. The rows that are cut have a worse priority than all rows that are given. */
#define JR_CANDIDATES_MAX 64

/*
 * candidates.sql: the combinations of job type, queue and priority that have a due run, as three parallel array
 * literals for claim. Owns its strings; count 0: nothing is due.
 */
struct jr_candidate {
	char *job_type, *queue;
	int64_t priority;
};
struct jr_candidates {
	size_t count;
	int64_t best; /* of the priorities */
	struct jr_candidate *items;
	char *types, *queues, *priorities;
};
void jr_queue_add_candidates(struct jr_request *request, const struct jr_runner_facts *facts, int64_t most);
size_t jr_queue_count_candidates(const PGresult *result);
int64_t jr_queue_read_look_ms(const PGresult *result); /* how long the server looked; of candidates.sql alone */
/* Those whose job type is wanted (want NULL: all); replaces what *candidates held. */
void jr_queue_read_candidates(
    const PGresult *result, struct jr_candidates *candidates, bool (*want)(void *ctx, const char *job_type), void *ctx);
void jr_candidates_copy(struct jr_candidates *candidates, const struct jr_candidate *one); /* only this one */
/* Moves the candidates whose queue is wanted. */
void jr_candidates_move(
    struct jr_candidates *from, struct jr_candidates *to, bool (*want)(void *ctx, const char *queue), void *ctx);
void jr_candidates_release(struct jr_candidates *candidates);

/* Where the next claim goes on: behind the last run that was claimed, or looked at. Zeroed: from the head. */
struct jr_cursor {
	bool set;
	bool in_vain; /* nothing was claimed since the head: all runs before it were locked or held back */
	int64_t priority, id;
	char run_at[64]; /* as PostgreSQL printed it */
};

/*
 * Each claim of a runner has a number, higher than those before it. claim.sql: up to n due runs of the candidates
 * behind the cursor, and if there are n, up to `ahead` that come next, of those that may be claimed before they can
 * start; in order. claim_job.sql: this one run, due or not.
 */
struct jr_claim_size {
	size_t n, ahead;
	const char *ahead_types; /* text[] literal; NULL: none */
};
void jr_queue_bind_claim(struct jr_bound *bound, const struct jr_runner_facts *facts,
    const struct jr_candidates *candidates, const struct jr_cursor *cursor, const struct jr_claim_size *size,
    int64_t lease_ms, int64_t number);
void jr_queue_add_claim(struct jr_request *request, const struct jr_runner_facts *facts,
    const struct jr_candidates *candidates, const struct jr_cursor *cursor, const struct jr_claim_size *size,
    int64_t lease_ms, int64_t number);
void jr_queue_bind_claim_job(
    struct jr_bound *bound, const struct jr_runner_facts *facts, int64_t id, int64_t lease_ms, int64_t number);
void jr_queue_add_claim_job(
    struct jr_request *request, const struct jr_runner_facts *facts, int64_t id, int64_t lease_ms, int64_t number);

/*
 * exec_claim.sql: makes a run of the definition and claims it. timeout_ms: -1 the definition's, 0 none. argv: an
 * array literal, for people.
 */
void jr_queue_add_exec_claim(struct jr_request *request, const struct jr_runner_facts *facts, const char *definition,
    int64_t lease_ms, int64_t timeout_ms, const char *argv, int64_t number);

/* preview.sql: what the runner holds, and if they are wanted the definitions that are due; only to be printed. */
void jr_queue_bind_preview(struct jr_bound *bound, int64_t runner_id, size_t most, bool definitions);

/*
 * claims_void.sql: from now on the claims of this runner up to this number, which were not answered, take nothing.
 * Read: false while one of them is still running in the server.
 */
void jr_queue_add_claims_void(struct jr_request *request, int64_t runner_id, int64_t number);
bool jr_queue_read_claims_void(const PGresult *result);

/*
 * adopt.sql: up to `most` of the runs held under this runner_id that `known` does not name. Its rows are those of the
 * claims with one more column.
 */
extern const struct jr_form jr_form_adopt;
void jr_queue_add_adopt(struct jr_request *request, int64_t runner_id, const struct jr_claim_list *known, size_t most);

/*
 * give_back.sql: ends each run under this runner_id that `begun` does not name, with this outcome. Read: for each,
 * whether it was written.
 */
struct jr_given_row {
	int64_t id, claim_seq;
	bool settled; /* false: somebody else has locked its row */
};
void jr_queue_add_give_back(
    struct jr_request *request, int64_t runner_id, const struct jr_claim_list *begun, const struct jr_outcome *outcome);
size_t jr_queue_count_given(const PGresult *result);
struct jr_given_row jr_queue_read_given(const PGresult *result, size_t index);

/*
 * Rows of claim, claim_job, exec_claim and adopt. *cursor (may be NULL) is moved behind the last row. Left out: the
 * names of queues, borrowed. Does the claim go on: did it end before it had looked at all that is due, and where?
 */
size_t jr_queue_count_runs(const PGresult *result);
size_t jr_queue_count_left_out(const PGresult *result);
const char *jr_queue_read_left_out(const PGresult *result, size_t index);
bool jr_queue_goes_on(const PGresult *result);
void jr_queue_read_goes_on(const PGresult *result, struct jr_cursor *cursor);
/* Why claim_job or exec_claim claimed nothing; false: they do not say. Strings are borrowed. */
struct jr_not_claimed {
	const char *queue, *definition; /* without a reason: another transaction has locked the one that is not NULL */
	const char *reason;             /* why the run is not to be started; NULL: something was locked */
	/* exec_claim gives both reason and definition if everything or this host is paused. */
};
bool jr_queue_read_not_claimed(const PGresult *result, struct jr_not_claimed *said);
size_t jr_queue_count_bytes(const PGresult *result);                    /* of the payloads */
int64_t jr_queue_read_lease_left(const PGresult *result, size_t index); /* adopt's only; ms */
struct jr_run *jr_queue_read_run(const PGresult *result, size_t index, struct jr_cursor *cursor) JR_MUST;

/* heartbeat.sql: one answer for each run named. */
enum jr_beat {
	JR_BEAT_RENEWED,
	JR_BEAT_BUSY,
	JR_BEAT_GONE
};
struct jr_beat_row {
	int64_t id, claim_seq;
	enum jr_beat beat;
	bool cancel;
	bool followed; /* somebody looks at its output */
};
void jr_queue_add_heartbeat(
    struct jr_request *request, int64_t runner_id, struct jr_run *const *held, size_t count, int64_t lease_ms);
size_t jr_queue_count_beats(const PGresult *result);
struct jr_beat_row jr_queue_read_beat(const PGresult *result, size_t index);

/* progress.sql: what running handlers report. Read: the rows that were written. */
struct jr_progress {
	int64_t id, claim_seq;
	char *progress, *checkpoint; /* lines; NULL: nothing new */
	char *output;                /* so far; NULL: nothing new */
	int64_t output_dropped;
};
void jr_progress_release(struct jr_progress *progress);
struct jr_written_row {
	int64_t id, claim_seq;
	bool followed;
};
void jr_queue_add_progress(
    struct jr_request *request, int64_t runner_id, const struct jr_progress *items, size_t count);
size_t jr_queue_count_written(const PGresult *result);
struct jr_written_row jr_queue_read_written(const PGresult *result, size_t index);

/*
 * reclaim.sql: expired running rows with an id above after_id that `held` does not name, locked until the transaction
 * ends. For an opening request.
 */
struct jr_expired_row {
	int64_t id, claim_seq, runner_id, attempts, max_attempts, backoff_base_ms, backoff_cap_ms;
	char host[256];
	char job_type[JR_NAME_MAX + 1];
};
void jr_queue_add_reclaim(
    struct jr_request *request, const struct jr_claim_list *held, int64_t after_id, int64_t limit);
size_t jr_queue_count_reclaimed(const PGresult *result);
struct jr_expired_row jr_queue_read_reclaimed(const PGresult *result, size_t index);

/* settle.sql: outcomes of all kinds, also those that reclaim decided. Read: the runs whose outcome was accepted. */
struct jr_settlement {
	int64_t id, claim_seq, runner_id; /* of the claim that ends */
	const struct jr_outcome *outcome;
};
struct jr_settled_row {
	int64_t id, claim_seq, attempts, max_attempts;
	int64_t run_in_ms; /* -1: final */
	char status[16];
};
void jr_queue_add_settle(struct jr_request *request, const struct jr_settlement *settlements, size_t count);
size_t jr_queue_count_settled(const PGresult *result);
struct jr_settled_row jr_queue_read_settled(const PGresult *result, size_t index);

/* resolve.sql: what became of claims whose settle was not answered. */
enum jr_answer {
	JR_ANSWER_RUNNING,
	JR_ANSWER_ACCEPTED,
	JR_ANSWER_FENCED
};
struct jr_answer_row {
	int64_t id, claim_seq;
	enum jr_answer answer;
	char status[16];  /* of the run, as long as it has not been claimed again; else "" */
	char outcome[16]; /* the one that was accepted */
};
void jr_queue_add_resolve(struct jr_request *request, int64_t runner_id, struct jr_run *const *held, size_t count);
size_t jr_queue_count_answers(const PGresult *result);
struct jr_answer_row jr_queue_read_answer(const PGresult *result, size_t index);

#endif
