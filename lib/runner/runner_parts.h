/*
 * runner_parts: what the files of the runner share. Nobody else includes it.
 *
 *	runner.c            life cycle, signals, and what is sent next
 *	runner_link.c       the connection: opening, losing, opening again
 *	runner_linger.c     staying (--for): listening, and handing over
 *	runner_settle.c     outcomes: settle, and the doubt about it
 *	runner_adopt.c      the doubt about a claim
 *	runner_claim.c      what to claim, and what it brought
 *	runner_look.c       when to look for work, and how long what was found is good for
 *	runner_busy.c       queues whose row another transaction has locked
 *	runner_reclaim.c    expired leases
 *	runner_fire.c       schedules
 *	runner_progress.c   what running handlers report
 *	runner_heartbeat.c  heartbeats
 *	runner_start.c      a held run from its claim to the end of its handler
 *	runner_ahead.c      runs that are claimed before there is a permit for them
 *	runner_times.c      how long statements may take
 *	runner_held.c       the list of held runs
 *	runner_phase.c      the phases of a held run
 *	runner_scopes.c     claim scopes, and permits
 *	runner_refused.c    handlers that may not be started any more
 *	runner_unhandled.c  runs that no host has a handler for
 *	runner_unanswered.c requests for work that failed, in a row
 *	runner_report.c     what became of a run: log, counts
 *	runner_ping.c       dead man's switches of job types
 *	runner_exec.c       the one command of jobrun exec
 *	runner_core.c       phase, exit status, wake-ups
 *	runner_unstarted.c  why a run is not started, in words
 *	runner_facts.c      who it is, and what it claims
 *
 * A file calls only files below it in this list. If it depends on what a file below it has done, it compares the count
 * of that file with the one it saw last: runner_look.c asks jr_start_count_ended() and looks for work if it has grown.
 *
 * State: struct jr_runner has some facts, which are set at the start, and one member for each file that has state. Only
 * that file names its member; others call its functions. The same holds for the members of struct jr_held, but for what
 * runner_held.c releases with a held run. `scripts/checks owners` looks at every expression that names such a member.
 *
 * Sending: at most one request is on the wire. When its reply has been taken the connection is idle, and runner.c asks
 * each part in turn, the most urgent first, whether it has something to send: the `try` functions, true when they have
 * submitted a request.
 */
#ifndef JR_RUNNER_PARTS_H
#define JR_RUNNER_PARTS_H

#include "handler/ping.h"
#include "process/state.h"
#include "runner/attempt.h"
#include "runner/queue.h"
#include "runner/runner.h"
#include "runner/runner_facts.h"
#include "runner/runner_held_parts.h"
#include "runner/runner_look.h"
#include "runner/runner_unstarted.h"

struct jr_runner;
struct jr_held;
struct jr_scope;

/* --- runner_core.c --- */

enum jr_phase {
	JR_PHASE_START,  /* the first request has not been answered */
	JR_PHASE_WORK,   /* claiming and running */
	JR_PHASE_FINISH, /* the last request is on its way */
	JR_PHASE_DONE
};

/* What may go wrong while the runner goes on. */
enum jr_trouble {
	JR_TROUBLE_FIRE,
	JR_TROUBLE_RECLAIM,
	JR_TROUBLE_UNKNOWN, /* what became of lost runs: that does not heal */
	JR_TROUBLE_COUNT
};

struct jr_core {
	enum jr_phase phase;
	int status; /* exit status so far */
	struct jr_err *err;
	struct jr_err troubles[JR_TROUBLE_COUNT]; /* as they were last; msg empty: there is none */
	bool draining;                            /* nothing more is claimed */
	bool signalled;                           /* and what is claimed and not started is given back */
	bool hurried;                             /* second INT: handlers are killed */
	bool stays;                               /* "nothing is due" is not the end */
	struct jr_timer wake;
	int64_t end_until_ms; /* the goodbye is not repeated after this; 0: it was not repeated yet */
};

/* How often an answer came with the same rows, one after the other. */
struct jr_repeat {
	uint64_t hash;
	int count;
};

/* wake: called from the loop at each time that was asked for. */
void jr_core_open(struct jr_runner *runner, struct jr_err *err, void (*wake)(void *runner));
void jr_core_close(struct jr_runner *runner);
enum jr_phase jr_runner_phase(const struct jr_runner *runner);
void jr_runner_enter(struct jr_runner *runner, enum jr_phase phase);
int jr_runner_status(const struct jr_runner *runner);

/* Keep the worst, and claim no more. */
void jr_runner_fail(struct jr_runner *runner, const struct jr_err *err);
/* Claiming goes on. A runner that stays tells people now. */
void jr_runner_warn(struct jr_runner *runner, enum jr_trouble trouble, const struct jr_err *err);
/* That works again, and is no failure any more; words: of people who were told. */
void jr_runner_heal(struct jr_runner *runner, enum jr_trouble trouble, const char *words);
void jr_runner_fail_troubled(struct jr_runner *runner); /* it has ended: what has not healed is a failure */
/* Its row is gone, or somebody has ended it: its claims take nothing, as if nothing were due. */
void jr_runner_fail_gone(struct jr_runner *runner);
/* What a sign of life has found: is the row here? If not, one that would still claim has failed. */
void jr_runner_note_seen(struct jr_runner *runner, bool here);
/* The one run of --job was not started: whoever asked for it is told why. */
void jr_runner_fail_job(struct jr_runner *runner, const char *why);
/*
 * Call this with each answer after which the same statement is sent again at once (NULL: it is not). Rows that were
 * dealt with must not come back. true: the same rows came 100 times in a row, so the runner has failed.
 */
bool jr_runner_repeats(
    struct jr_runner *runner, struct jr_repeat *repeat, const char *statement, const PGresult *result);

void jr_runner_drain(struct jr_runner *runner); /* claim no more */
void jr_runner_signal(struct jr_runner *runner);
void jr_runner_hurry(struct jr_runner *runner);
bool jr_runner_is_draining(const struct jr_runner *runner);
bool jr_runner_is_signalled(const struct jr_runner *runner);
bool jr_runner_is_hurried(const struct jr_runner *runner);
void jr_runner_stay(struct jr_runner *runner, bool stays);
bool jr_runner_stays(const struct jr_runner *runner);

void jr_runner_wake_at(struct jr_runner *runner, int64_t at_ms); /* look then what there is to send */
/* May the goodbye be repeated then? Only for 5 s after the first call. */
bool jr_runner_may_end_later(struct jr_runner *runner, int64_t at_ms);
bool jr_runner_is_single(const struct jr_runner *runner); /* one run is wanted, whatever else is due: --job, exec */
void jr_runner_show_counts(struct jr_runner *runner);

/* --- runner_exec.c: with options that have no `exec` each does what is right without it --- */

void jr_exec_take_nothing(struct jr_runner *runner, const PGresult *result); /* the claim was empty */
const struct jr_handler *jr_exec_handler(const struct jr_runner *runner, const char *job_type);
int64_t jr_exec_fence(const struct jr_runner *runner, int64_t fence_at_ms); /* of the handler */
bool jr_exec_goes_on(const struct jr_runner *runner);                       /* although its lease is lost */
bool jr_exec_is_decided(const struct jr_runner *runner);                    /* what its caller waits for is known */
bool jr_exec_is_deaf(const struct jr_runner *runner, int signo);            /* to this signal */
void jr_exec_note_start(struct jr_runner *runner, const struct jr_run *run);
void jr_exec_note_end(struct jr_runner *runner, const struct jr_outcome *outcome, /* NULL: lost */
    const char *output);
struct jr_outcome jr_exec_unstarted(const struct jr_runner *runner);      /* of a run that it does not know */
void jr_exec_judge(struct jr_runner *runner, struct jr_outcome *outcome); /* make it final */

/* --- runner_report.c --- */

/* The database has accepted this outcome, and the row says what it made of it. */
void jr_report_settled(
    struct jr_runner *runner, const struct jr_settled_row *row, const struct jr_outcome *outcome, const char *job_type);
/* The handler has committed it together with its effect. */
void jr_report_committed(struct jr_runner *runner, const struct jr_run *run, const struct jr_outcome *outcome);
/* It was accepted, but the answer that said what came of it was lost. */
void jr_report_accepted(struct jr_runner *runner, const struct jr_run *run, const struct jr_outcome *outcome,
    const struct jr_answer_row *answer);
/* A claim that was sent then has been answered or given up. 0: none was sent. */
void jr_report_claim(struct jr_runner *runner, int64_t sent_ms);

/* --- runner_ping.c --- */

struct jr_ping_type;
struct jr_ping_part {
	struct jr_pings *pings; /* NULL: none was sent */
	struct jr_ping_type *types;
	struct jr_timer timer;
};

void jr_ping_open(struct jr_runner *runner);
void jr_ping_close(struct jr_runner *runner);
void jr_ping_tick_starts(struct jr_runner *runner);
void jr_ping_run_starts(struct jr_runner *runner, const char *job_type); /* after its handler has been started */
/* The run has ended so (the word of table job_runs), and that is committed. */
void jr_ping_note(struct jr_runner *runner, const char *job_type, const char *status);
void jr_ping_finish(
    struct jr_runner *runner); /* at the end: wait until the pings have arrived, or their time is over */

/* --- runner_unhandled.c --- */

struct jr_unhandled {
	bool wanted;
};

void jr_unhandled_want(struct jr_runner *runner); /* it is time to look */
bool jr_unhandled_try(struct jr_runner *runner);

/* --- runner_unanswered.c --- */

struct jr_unanswered {
	int64_t count;     /* requests for work (claims, looks for candidates) in a row */
	struct jr_err why; /* of the last of them */
};

/* The reply to one. alone: nothing else was in the request that may be the reason of a refusal. */
void jr_unanswered_note(struct jr_runner *runner, const struct jr_reply *reply, bool alone);
/* Nothing is due, or it is known what the last claim took. A look that finds candidates says nothing about claims. */
void jr_unanswered_end(struct jr_runner *runner);
void jr_unanswered_fail(struct jr_runner *runner); /* it has ended: told to while they failed, it has failed, too */

/* --- runner_times.c --- */

struct jr_times {
	struct jr_lease patient; /* while nothing is held */
	struct jr_lease walk;    /* what jr_times_walk() gave last */
	int64_t slow;            /* steps: up when a statement was cancelled, down after a calm time */
	int64_t slow_at_ms;      /* when it was last changed, or an answer last took longer than usual */
};

void jr_times_open(struct jr_runner *runner);
const struct jr_lease *jr_times_usual(const struct jr_runner *runner);
/* For what may walk over the index entries of many runs that have ended. Good until the next call. */
const struct jr_lease *jr_times_walk(struct jr_runner *runner);
/* The reply to a request with such a statement: if it took too long, the next ones get more time. */
void jr_times_note(struct jr_runner *runner, const struct jr_reply *reply);
bool jr_times_are_long(const struct jr_runner *runner);
size_t jr_times_fewer(size_t most); /* runs to ask for after an answer that did not come in time */

/* --- runner_scopes.c --- */

/* A permit, taken by one run or by the runs of a batch that one handler works on. */
struct jr_permit {
	enum jr_pool pool; /* JR_POOL_NONE: none is needed */
	size_t runs;
};

struct jr_scopes {
	struct jr_permits permits[JR_POOL_COUNT];
	size_t reserved[JR_POOL_COUNT]; /* permits taken for the claim that awaits its answer */
	struct jr_scope *items;
	size_t count;
	size_t next;             /* where to begin when the next one is chosen */
	size_t candidates_count; /* of all scopes, when they were looked up */
};

/* What to claim next. */
struct jr_choice {
	struct jr_scope *scope; /* NULL: --job, exec */
	size_t wanted;          /* runs with permits */
};

void jr_scopes_make(struct jr_runner *runner);
bool jr_scopes_open(struct jr_runner *runner, const char *permit_name, struct jr_err *err) JR_MUST;
void jr_scopes_close(struct jr_runner *runner);

/* Rows of candidates.sql. false: there was none for one of the scopes. */
bool jr_scopes_take_candidates(struct jr_runner *runner, const PGresult *result);
/* This one instead, whoever has named it. false: this runner does not claim such runs, or there is no room. */
bool jr_scopes_take_named(struct jr_runner *runner, const struct jr_candidate *named);
size_t jr_scopes_count_held(const struct jr_runner *runner, enum jr_pool pool); /* the reserved ones, too */
size_t jr_scopes_count_candidates(const struct jr_runner *runner);
void jr_scopes_forget_cursors(struct jr_runner *runner);
bool jr_scopes_are_drained(const struct jr_runner *runner);
bool jr_scopes_have_room(const struct jr_runner *runner); /* could anything be started at all? */
/*
 * Choose the scope to claim from, and take permits for at most so many runs. busy: for the candidates that were left
 * out. programs: also the scope of programs. false: there is no work, or no permit for it.
 */
bool jr_scopes_choose(struct jr_runner *runner, bool busy, bool programs, size_t most, struct jr_choice *choice);
/* The scope of programs, with no permit. false: there is no work for it. */
bool jr_scopes_choose_ahead(const struct jr_runner *runner, struct jr_choice *choice);
int64_t jr_scopes_gathering_ms(const struct jr_runner *runner); /* when to choose again; JR_NEVER: nothing waits */
/*
 * --job: the job type is known only when the run has been claimed. So one permit of each pool is taken. Gives the job
 * types with a permit, as an array literal; the caller frees it. *crowded: there were none for some.
 */
char *jr_scopes_reserve_each(struct jr_runner *runner, bool *crowded) JR_MUST;
void jr_scopes_give_back(struct jr_runner *runner); /* the reserved permits that no run took */

struct jr_scope *jr_scopes_at(const struct jr_runner *runner, size_t index); /* NULL: there are no more */
bool jr_scope_is_of_programs(const struct jr_scope *scope);
const struct jr_candidates *jr_scope_candidates(const struct jr_scope *scope);
struct jr_candidates *jr_scope_busy(struct jr_scope *scope); /* left out; they belong to runner_busy.c */
struct jr_cursor *jr_scope_cursor(struct jr_scope *scope);   /* the claim moves it */
void jr_scope_note_drained(struct jr_scope *scope);          /* a look from the head found nothing to claim */
void jr_scope_leave_out(struct jr_scope *scope, bool (*want)(void *ctx, const char *queue), void *ctx);
/* How large the batches of this scope may be, after one that was claimed. */
void jr_scope_note_batch(struct jr_scope *scope, size_t wanted, const PGresult *result);

/*
 * A permit for a run: a reserved one, else another. NULL: there is none. Runs of a batch share the permit of the first;
 * *shared is that permit, of handler *batched, for one answer.
 */
struct jr_permit *jr_permit_find(
    struct jr_runner *runner, const struct jr_run *run, const struct jr_handler **batched, struct jr_permit **shared);
struct jr_permit *jr_permit_take_spare(struct jr_runner *runner, enum jr_pool pool); /* none of the reserved ones */
struct jr_permit *jr_permit_of_none(void);                                           /* for what takes no permit */
void jr_permit_leave(struct jr_runner *runner, struct jr_permit *permit);

/* --- runner_refused.c --- */

struct jr_refused {
	int64_t *again_ms; /* for each handler: when it is looked at again; 0: it is not refused. NULL: none ever was */
	int64_t count;     /* how often one was refused */
};

/* Asked before each start. The first refusal is told to people; then nothing of its type is claimed any more. */
bool jr_refused_may_start(struct jr_runner *runner, const struct jr_handler *handler, struct jr_err *err) JR_MUST;
/* Was it refused, and is it still? */
bool jr_refused_has(const struct jr_runner *runner, const struct jr_handler *handler);
int64_t jr_refused_count(const struct jr_runner *runner);
void jr_refused_close(struct jr_runner *runner);

/* --- runner_heartbeat.c --- */

struct jr_heartbeat {
	bool wanted; /* somebody has asked for a cancel since the last one */
	int64_t sent_ms;
	int64_t answered; /* how many were */
};

/* Its part of struct jr_held. */
struct jr_held_beat {
	bool missed;   /* a heartbeat did not find it */
	bool followed; /* as the last one said */
};

bool jr_heartbeat_try(struct jr_runner *runner);
bool jr_heartbeat_soon(struct jr_runner *runner);           /* a cancel was asked for. false: that was known */
int64_t jr_heartbeat_count(const struct jr_runner *runner); /* of the answered ones */
bool jr_heartbeat_is_followed(const struct jr_held *held);  /* does somebody look at its output? */

/* --- runner_progress.c --- */

struct jr_progress_part {
	bool wanted;
	size_t sent;   /* reports in the request on the wire */
	int64_t beats; /* heartbeats when the handlers were asked last */
	int64_t at_ms; /* when to ask the followed ones again; JR_NEVER: after the next heartbeat */
};

/* Its part of struct jr_held. */
struct jr_held_progress {
	struct jr_progress said; /* and not written yet; owned */
	enum {
		JR_PROGRESS_NEW,    /* may be offered, if there is any */
		JR_PROGRESS_SENT,   /* in the request on the wire */
		JR_PROGRESS_OFFERED /* it was sent: not again before its handler is asked again */
	} state;
	bool followed;   /* as the last answer about it said: its handler is asked each second */
	bool unanswered; /* it was sent once and not answered */
	bool alone;      /* it was refused with others: it goes by itself */
};

void jr_progress_open(struct jr_runner *runner);
bool jr_progress_try(struct jr_runner *runner);

/* --- runner_fire.c --- */

struct jr_fire {
	int64_t at_ms;    /* schedules are not fired before; JR_NEVER: nothing is known yet */
	int64_t errors;   /* in a row */
	uint64_t unfired; /* of the last answer, see hash_unfired */
	bool made;        /* it made runs that nobody has looked for yet */
	bool last;        /* what else there is goes before the next call */
	int64_t looks;    /* how often it has made runs that a look will find */
	struct jr_repeat repeat;
};

void jr_fire_open(struct jr_runner *runner);
/*
 * What comes with each look for work: how long it is to the next slot; INT64_MAX: not known. claim_first: what the look
 * has found is claimed before it is too old.
 */
void jr_fire_take_look(struct jr_runner *runner, int64_t due_ms, bool claim_first);
bool jr_fire_try(struct jr_runner *runner);
bool jr_fire_try_first(struct jr_runner *runner); /* not twice in a row */
int64_t jr_fire_count_looks(const struct jr_runner *runner);

/* --- runner_reclaim.c --- */

struct jr_reclaim {
	bool wanted;
	bool open; /* its transaction stands: the next request closes it */
	int64_t after_id, limit, errors;
	struct jr_expired_row *rows; /* locked by the open transaction */
	struct jr_outcome *outcomes; /* one for each */
	size_t count;
	int64_t taken; /* how often it has taken back runs */
	struct jr_repeat repeat;
};

void jr_reclaim_begin(struct jr_runner *runner);     /* from the first expired row on */
void jr_reclaim_note_well(struct jr_runner *runner); /* it works, or there is no such row */
bool jr_reclaim_try(struct jr_runner *runner);
bool jr_reclaim_try_close(struct jr_runner *runner); /* only what is open */
void jr_reclaim_forget(struct jr_runner *runner);
bool jr_reclaim_is_open(const struct jr_runner *runner);
bool jr_reclaim_is_wanted(const struct jr_runner *runner);
int64_t jr_reclaim_count_taken(const struct jr_runner *runner);

/* --- runner_busy.c --- */

struct jr_busy {
	int64_t at_ms;    /* they are not asked for before */
	int64_t until_ms; /* when the runner stops waiting for them; 0: it does not wait */
};

bool jr_busy_is_pending(const struct jr_runner *runner);
int64_t jr_busy_at(const struct jr_runner *runner);
void jr_busy_forget(struct jr_runner *runner);
void jr_busy_rest(struct jr_runner *runner); /* there was something else to do */
/* Choose among the queues that were left out. false: it is not time, or there is no permit. */
bool jr_busy_choose(struct jr_runner *runner, bool programs, size_t most, struct jr_choice *choice);
/* The answer to a claim, by itself of queues that were left out before, or of all others. */
void jr_busy_take_claim(
    struct jr_runner *runner, const struct jr_choice *choice, bool by_itself, const PGresult *result);
bool jr_busy_is_waited_for(struct jr_runner *runner); /* nothing else can be claimed: is it worth while to ask again? */
/*
 * The answer to a claim of one run alone (--job, exec). true: something was locked, so ask again, not before
 * jr_busy_at(). After too many such answers the runner has failed.
 */
bool jr_busy_take_single(struct jr_runner *runner, const PGresult *result);

/* --- runner_claim.c --- */

struct jr_claim_part {
	bool crowded;     /* no permit is free and nothing is held, or none was free for --job: others go on */
	bool job_crowded; /* --job: some pool had no permit for the claim that awaits its answer */
	bool in_doubt;    /* a claim was not answered */
	bool busy;        /* the last claim was for queues that were left out */
	bool job_tried;
	struct jr_choice choice; /* of the claim that awaits its answer */
	size_t ahead;            /* runs that it may bring beyond that; if neither is wanted, it was no claim */
	int64_t number;          /* of the last claim that was sent */
	int64_t sent_ms;         /* of the last claim that was not answered */
	int64_t sent_alone;      /* how often something was sent without a settle */
	int64_t empty;           /* how many claims brought nothing */
	size_t most; /* runs of one answer: fewer after one that did not come in time (payloads may be large) */
	struct jr_repeat repeat;
};

void jr_claim_open(struct jr_runner *runner);
bool jr_claim_try(struct jr_runner *runner);
/* Add a claim, or the look for work, to a request of settle. How many statements; 0: none. */
size_t jr_claim_add(struct jr_runner *runner, struct jr_request *request);
void jr_claim_reply(struct jr_runner *runner, const struct jr_reply *reply, size_t first);
bool jr_claim_is_over(struct jr_runner *runner);
bool jr_claim_is_crowded(const struct jr_runner *runner);
bool jr_claim_is_tried(const struct jr_runner *runner);  /* the one run of --job, exec */
int64_t jr_claim_number(const struct jr_runner *runner); /* of the last claim; 0: there was none */
int64_t jr_claim_count_sent_alone(const struct jr_runner *runner);
int64_t jr_claim_count_empty(const struct jr_runner *runner); /* those that brought nothing */

/* The doubt about a claim whose answer was lost. */
bool jr_claim_is_in_doubt(const struct jr_runner *runner);
int64_t jr_claim_sent_ms(const struct jr_runner *runner);
void jr_claim_resolve(struct jr_runner *runner);
/* The runs that the claim in doubt has taken, or some of them. */
void jr_claim_take_adopted(struct jr_runner *runner, const PGresult *result, int64_t sent_ms);

/* --- runner_adopt.c --- */

struct jr_adopt {
	int64_t number; /* of the claim that `most` is for */
	size_t most;    /* runs of one answer */
	int64_t at_ms;  /* not asked before */
	struct jr_repeat repeat;
};

bool jr_adopt_try(struct jr_runner *runner);

/* --- runner_settle.c --- */

struct jr_settle {
	bool apart;              /* a fused settle and claim failed: not together... */
	int64_t sent_alone;      /* ...until a claim has gone by itself, which this counts */
	int64_t resolve_at_ms;   /* doubt is not read before */
	int64_t gather_until_ms; /* outcomes are gathered until then; 0: they are not */
	int64_t locked_until_ms; /* runs whose row somebody has locked are not sent before */
	struct jr_repeat resolve_repeat;
};

/* Its part of struct jr_held. */
struct jr_held_settle {
	int64_t retry_at_ms; /* not sent again before */
	bool alone;          /* the request with it failed: it goes by itself */
	bool locked;         /* that was since somebody had locked a row in it, perhaps this one */
	bool told;           /* the server has refused it, and that was logged */
	bool told_locked;    /* the row of its run is locked, and that was logged */
	bool stripped;       /* its texts were dropped because the server refused them */
};

bool jr_settle_try(struct jr_runner *runner);
bool jr_settle_try_resolve(struct jr_runner *runner);
void jr_settle_forget_repeats(struct jr_runner *runner); /* the connection was lost: it asks again because of that */

/* --- runner_linger.c --- */

/* What is known of the connection: only one of one's own can be listened on. */
enum jr_session {
	JR_SESSION_UNKNOWN,
	JR_SESSION_OWN, /* and is not listened on yet */
	JR_SESSION_LISTENING,
	JR_SESSION_POLLED
};

struct jr_linger {
	enum jr_session session;
	int64_t until_ms;     /* the time that people gave; a successor is awaited behind it */
	int64_t ask_at_ms;    /* a successor is not asked for before */
	int64_t listen_at_ms; /* the session is not asked for, nor listened on, before: that was refused */
	int64_t seen_at_ms;   /* when to write next that it is still here, and to look for lost runs */
	int64_t empty;        /* claims that had brought nothing when it last did so */
	bool seen_early;      /* it has done so before the time, because of such a claim */
};

int64_t jr_linger_left_ms(const struct jr_runner *runner); /* hand-over included; 0: it does not stay */
void jr_linger_open(struct jr_runner *runner);             /* its time begins */
void jr_linger_begin(struct jr_runner *runner);            /* the first answer has come */
void jr_linger_connected(struct jr_runner *runner);
void jr_linger_notified(void *ctx, const char *payload);
bool jr_linger_try(struct jr_runner *runner);
void jr_linger_show(struct jr_runner *runner);

/* --- runner_link.c --- */

struct jr_link {
	struct jr_timer reconnect, tell;
	char *why; /* it was lost, or could not be made; NULL: not yet */
	int64_t tries;
	int64_t patience_until_ms;
	bool begun;    /* the first try to connect */
	bool nonsense; /* an answer made no sense */
	bool learns;   /* the addresses of all hosts, since it has connected */
};

bool jr_link_open(struct jr_runner *runner, void (*idle)(void *runner), void (*warned)(void *runner, const char *text),
    struct jr_err *err) JR_MUST;
void jr_link_close(struct jr_runner *runner);
void jr_link_connect(struct jr_runner *runner);
void jr_link_give_up(struct jr_runner *runner); /* a signal has come before there was a connection */
/* While runs are held no name is looked up. So all hosts' addresses are learned then, once for each connection. */
void jr_link_learn_addresses(struct jr_runner *runner);
bool jr_link_was_nonsense(const struct jr_runner *runner);

/* --- runner.c --- */

struct jr_tick {
	struct jr_timer splay, grace, runtime;
	bool start_sent; /* a first request that is repeated does not end the runner */
	bool asks_need;  /* the schema is not exactly the one that this program makes: need.sql comes first */
	int64_t start_errors;
	int64_t send_at_ms; /* the first or the last request is not repeated before */
	int interrupts;
};

struct jr_held {
	struct jr_runner *runner;
	struct jr_run *run;
	struct jr_held_life life;
	struct jr_held_entry entry;
	struct jr_held_ahead ahead;
	struct jr_held_start start;
	struct jr_held_beat heartbeat;
	struct jr_held_progress progress;
	struct jr_held_settle settle;
};

struct jr_runner {
	/* Facts */
	const struct jr_runner_opts *opts;
	struct jr_loop *loop;
	struct jr_pg *pg;
	struct jr_runner_facts facts;
	struct jr_facts_texts texts; /* of the facts */
	struct jr_random random;
	struct jr_counts counts; /* each of its counts is raised by one file */

	struct jr_core core;
	struct jr_times times;
	struct jr_scopes scopes;
	struct jr_phase_part phase;
	struct jr_held_set held;
	struct jr_ahead ahead;
	struct jr_start start;
	struct jr_heartbeat heartbeat;
	struct jr_progress_part progress;
	struct jr_fire fire;
	struct jr_reclaim reclaim;
	struct jr_busy busy;
	struct jr_look look;
	struct jr_claim_part claim;
	struct jr_adopt adopt;
	struct jr_settle settle;
	struct jr_linger linger;
	struct jr_refused refused;
	struct jr_unhandled unhandled;
	struct jr_unanswered unanswered;
	struct jr_link link;
	struct jr_tick tick;
	struct jr_ping_part ping;
};

#endif
