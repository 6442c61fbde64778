/*
 * runner_parts: what the files of the runner share. Nobody else includes it.
 *
 *	runner.c         life cycle, signals, what is sent next
 *	runner_link.c    the connection: opening, losing, opening again
 *	runner_scopes.c   what is claimed together, and the permits for it
 *	runner_claim.c   combinations, cursor, claims, and what they brought; adoption
 *	runner_busy.c    queues whose row somebody else has locked
 *	runner_exec.c    one command of jobrun exec, instead of all claims
 *	runner_held.c    held runs: start, heartbeat, self-fence, end
 *	runner_progress.c    what running handlers have to tell
 *	runner_settle.c  outcomes: settle, doubt, reports
 *	runner_reclaim.c expired leases of others
 *	runner_fire.c    schedules
 *	runner_linger.c  staying: listening, and handing over
 *
 * Whenever something has happened, jr_runner_pump looks for the most urgent thing to send; it sends one request and
 * waits for its reply. The parts offer `try_X` functions: true when they submitted a request.
 */
#ifndef JR_RUNNER_PARTS_H
#define JR_RUNNER_PARTS_H

#include "process/state.h"
#include "runner/attempt.h"
#include "runner/queue.h"
#include "runner/runner.h"

struct jr_runner;

#define JR_LINK_PATIENT_MS 10000 /* one try to connect, while nothing is held */
#define JR_RECLAIM_MOST 200
#define JR_CLAIM_MOST 4096
#define JR_BATCH_FIRST 100                   /* runs of the first batch that is claimed */
#define JR_BATCH_BYTES ((size_t)8 * 1048576) /* of payloads in a batch, as far as the ones before it tell */
#define JR_HELD_BUCKETS 1024

enum jr_held_phase {
	JR_HELD_WAITING, /* claimed again while the old handler of the same run still lives: starts when that is gone */
	JR_HELD_RUNNING, /* its handler runs */
	JR_HELD_ENDED    /* the outcome is known and wants to be accepted */
};

/* A permit that was had, by one run or by the runs of a batch that are worked on together. */
struct jr_permit {
	enum jr_pool pool; /* JR_POOL_NONE: of none */
	size_t runs;
};

/*
 * Job types that are claimed together, since they take the same kind of permit: one scope for each pool, and one for
 * each handler that takes its runs in batches. A claim is for one scope, so that queues with limits are locked in one
 * statement.
 */
struct jr_scope {
	enum jr_pool pool;
	const struct jr_handler
	    *batched; /* up to settings.batch runs of this type in one permit; NULL: a permit for each run */
	struct jr_candidates candidates; /* of its types */
	struct jr_candidates busy;       /* of queues that were left out: asked for by themselves */
	struct jr_cursor cursor;
	size_t most;  /* runs of the next batch: more after small payloads, fewer after large ones */
	bool drained; /* a fresh look found nothing due */
};

/* A claim that this runner holds. */
struct jr_held {
	struct jr_held *next, **prev;
	struct jr_held *alike, **alike_prev; /* those whose run has the same hash */
	struct jr_runner *runner;
	struct jr_run *run;
	struct jr_attempt *attempt;
	struct jr_outcome outcome;
	enum jr_held_phase phase;
	struct jr_timer offer;       /* ENDED: how long the outcome is offered */
	int64_t fence_at_ms;         /* when its handler must stop unless a heartbeat is answered */
	int64_t retry_at_ms;         /* ENDED: not settled again before */
	struct jr_permit *permit;    /* its permit; NULL: none */
	bool begun;                  /* its handler was started */
	bool offered;                /* an outcome was sent */
	bool accepted;               /* and that is the end of the claim */
	struct jr_progress progress; /* RUNNING: what it has told and is not written yet; owned */
	bool missed;                 /* a heartbeat did not find it */
	bool telling;                /* it was offered since the last heartbeat */
	bool on_tell;                /* in the tell whose reply is awaited */
	bool untold;                 /* and that was not answered */
	bool tell_alone;             /* it was refused with others: it goes by itself */
	bool lost;                   /* fenced out: nothing is written any more */
	const char *why_lost;        /* which is to be told when its work has ended; NULL: it has been */
	bool on_wire;                /* ENDED: in the settle whose reply is awaited */
	bool in_doubt;               /* ENDED: what was sent was not answered: read, and nothing else before */
	bool unanswered;             /* ENDED: was in doubt once, so zero rows are read again */
	bool alone;                  /* ENDED: its request failed; it goes by itself */
	bool stripped;               /* ENDED: its texts were dropped because the server refused them */
};

/* What is known of the connection: only one of one's own can be listened on. */
enum jr_session {
	JR_SESSION_UNKNOWN,
	JR_SESSION_OWN, /* and is not listened on yet */
	JR_SESSION_LISTENING,
	JR_SESSION_POLLED
};

struct jr_linger {
	bool on; /* since the first answer; off when the end was told */
	enum jr_session session;
	int64_t until_ms;   /* the time that people gave; a successor is awaited behind it */
	int64_t ask_at_ms;  /* a successor is not asked for before */
	int64_t seen_at_ms; /* when to say next that it is still here, and to look for lost runs */
};

enum jr_phase {
	JR_PHASE_START,  /* the first request has not been answered */
	JR_PHASE_WORK,   /* claiming and running */
	JR_PHASE_FINISH, /* the last request is on its way */
	JR_PHASE_DONE
};

/* How often an answer came with the same rows, one after the other. */
struct jr_repeat {
	uint64_t hash;
	int count;
};

struct jr_runner {
	const struct jr_runner_opts *opts;
	struct jr_err *err;
	struct jr_counts counts;
	struct jr_loop *loop;
	struct jr_pg *pg;
	struct jr_watchdog *watchdog;
	struct jr_host host;
	struct jr_permits permits[JR_POOL_COUNT];
	struct jr_random random;
	struct jr_runner_facts facts;
	char *job_types, *queues; /* array literals behind facts */
	char hostname[256];
	struct jr_lease patient; /* how long statements may take while no lease depends on it */
	enum jr_phase phase;
	int status; /* exit status so far */
	int64_t start_errors;

	bool draining;  /* no more claims: a signal, a limit, a failure */
	bool signalled; /* what is claimed but not started is released */
	bool hurried;   /* second INT */
	int interrupts;
	struct jr_timer splay, grace, runtime, wake; /* wake: something wants to be sent at a later time */
	int64_t end_until_ms; /* the goodbye is not repeated any longer; 0: nothing to repeat yet */

	struct jr_linger linger;

	/* link */
	struct jr_timer reconnect;
	int64_t connect_tries;
	int64_t patience_until_ms;
	bool nonsense; /* an answer made no sense */

	/* held */
	struct jr_held *held;
	struct jr_held *held_by_id[JR_HELD_BUCKETS];
	size_t held_count;
	struct jr_claim_list begun;   /* started and dropped without an accepted outcome: never to be taken as new */
	struct jr_claim_list offered; /* the same, not started: an outcome was sent */
	int64_t beat_at_ms;           /* next heartbeat; JR_NEVER while nothing is held */
	int64_t beat_sent_ms;         /* the last one */
	int64_t resolve_at_ms;        /* doubt is not read before */

	/* claim */
	struct jr_scope *scopes;
	size_t scope_count;
	size_t scope_next;                   /* where to look for the next claim */
	struct jr_scope *claim_scope;        /* of the claim that awaits its answer; NULL: --job */
	size_t claim_permits[JR_POOL_COUNT]; /* had for it */
	size_t candidates_count;             /* of all scopes */
	int64_t candidates_at_ms;            /* when they were read; -1: not to be used */
	int64_t looked_ms;                   /* when they were last asked for */
	bool drained;                        /* nothing is due in any scope */
	bool stale;                          /* a handler has ended since the last look was sent */
	bool news;                           /* a notification has come since then */
	bool crowded;                        /* no free permit, and nothing held: others go on */
	int64_t claim_at_ms;                 /* not before: after a failure, or to look again while something runs */
	int64_t claim_errors;                /* in a row */
	bool claim_alone;                    /* a fused settle and claim failed: not together next time */
	bool claim_in_doubt;
	bool claim_busy;       /* it is for the busy part of its scope */
	bool candidates_whole; /* a claim found nothing although the combinations were cut: read all of them */
	int64_t claim_sent_ms;
	int64_t claim_number;  /* of the last claim that was sent */
	int64_t busy_at_ms;    /* that is not asked for before */
	int64_t busy_until_ms; /* nor waited for any longer, now that there is nothing else to do; 0: there was */
	int64_t adopt_at_ms;   /* doubt about a claim is not read before */
	size_t claim_most;   /* runs of one answer: fewer after one that did not come in time (payloads may be large) */
	size_t adopt_most;   /* the same, of what one claim in doubt has taken */
	size_t claim_wanted; /* runs asked for; 0: the statement was no claim */
	bool job_tried;
	int64_t counted; /* claimed runs that --max-runs counts: not housekeeping, nor what was not started */

	/* fire */
	int64_t fire_at_ms;  /* schedules are not fired before; JR_NEVER: nothing is known yet */
	int64_t fire_errors; /* in a row */
	bool fire_told;      /* of slots that cannot be fired */
	bool fire_news;      /* it made runs that are not looked for yet */
	bool fired_last;     /* what else there is goes before the next call */

	/* tell, and beat */
	bool progress_wanted;
	bool beat_wanted; /* somebody has asked for a cancel since the last heartbeat */

	/* reclaim */
	bool reclaim_wanted;
	bool reclaim_open; /* its transaction stands: the next request closes it */
	int64_t reclaim_after, reclaim_limit, reclaim_errors;
	struct jr_expired_row *reclaim_rows; /* locked by the open transaction */
	struct jr_outcome *reclaim_outcomes; /* one for each */
	size_t reclaim_count;

	/* What goes on as long as something comes back. */
	struct jr_repeat claim_repeat, adopt_repeat, fire_repeat, reclaim_repeat, resolve_repeat;
};

/* runner.c */
void jr_runner_pump(struct jr_runner *runner);
void jr_runner_fail(struct jr_runner *runner, const struct jr_err *err); /* keep the worst; stop claiming */
/*
 * An answer came after which the same is asked again at once (NULL: not at once). Each time the rows must be others,
 * since what came has been dealt with; true: they never are, which would go on for ever, and the runner has failed.
 */
bool jr_runner_repeats(
    struct jr_runner *runner, struct jr_repeat *repeat, const char *statement, const PGresult *result);
void jr_runner_wake_at(struct jr_runner *runner, int64_t at_ms); /* pump again then */
void jr_runner_show_counts(struct jr_runner *runner);
const struct jr_lease *jr_runner_times(const struct jr_runner *runner); /* of the next request */
/* Is there time left then to say goodbye? From the first question on it is short. */
bool jr_runner_may_end_later(struct jr_runner *runner, int64_t at_ms);

/* runner_link.c */
bool jr_link_open(struct jr_runner *runner, struct jr_err *err) JR_MUST;
void jr_link_close(struct jr_runner *runner);

/* runner_scopes.c */
/* What this runner claims, as array literals; queues NULL: all. Caller frees. */
char *jr_scopes_types(const struct jr_runner_opts *opts);
char *jr_scopes_queues(const struct jr_runner_opts *opts);
void jr_scopes_make(struct jr_runner *runner);
bool jr_scopes_open(struct jr_runner *runner, const char *permit_name, struct jr_err *err) JR_MUST;
void jr_scopes_close(struct jr_runner *runner);
struct jr_scope *jr_scopes_find(struct jr_runner *runner, const struct jr_handler *handler);
/* Has this runner used up the number of permits that its options give it? */
bool jr_scopes_is_full(const struct jr_runner *runner, const struct jr_scope *scope);
/*
 * Choose the scope to claim from, with permits for what is wanted: claim_scope and claim_wanted. false: there is none.
 * busy: of what was left out.
 */
bool jr_scopes_choose(struct jr_runner *runner, bool busy);
/* How large the batches of this scope may be, after one that was claimed. */
void jr_scopes_note_batch(const struct jr_runner *runner, struct jr_scope *scope, const PGresult *result);
/* A permit for a run, from those had for the claim, else another; NULL: there is none. */
struct jr_permit *jr_permit_take(struct jr_runner *runner, enum jr_pool pool);
struct jr_permit *jr_permit_of_none(void); /* one that takes no permit */
void jr_permit_leave(struct jr_runner *runner, struct jr_permit *permit);

/* runner_claim.c */
bool jr_claim_is_single(const struct jr_runner *runner);  /* one run is wanted, whatever else is due: --job, exec */
bool jr_claim_is_used_up(const struct jr_runner *runner); /* --max-runs */
/* Of those that it counts there is one more (1), or one less (-1). */
void jr_claim_count(struct jr_runner *runner, const struct jr_run *run, int64_t change);
/* The one run of --job was not started: who asked for it is told why. Of jobrun exec its caller says it. */
void jr_claim_fail_job(struct jr_runner *runner, const char *why);
/* There is news: look for work as soon as it is sensible, however often this is called. */
void jr_claim_look_soon(struct jr_runner *runner);
bool jr_claim_try(struct jr_runner *runner);
/* The claim (or the look for work) that is to go with a settle: how many statements. 0: none. */
size_t jr_claim_add(struct jr_runner *runner, struct jr_request *request);
void jr_claim_reply(struct jr_runner *runner, const struct jr_reply *reply, size_t first);
void jr_claim_take_candidates(struct jr_runner *runner, const PGresult *result);
void jr_claim_reset(struct jr_runner *runner); /* drop the cursor and the combinations */
bool jr_claim_is_over(const struct jr_runner *runner);
bool jr_claim_try_adopt(struct jr_runner *runner); /* after a claim whose answer was lost */

/* runner_busy.c */
bool jr_busy_is_pending(const struct jr_runner *runner);
void jr_busy_forget(struct jr_runner *runner);
void jr_busy_take_claim(struct jr_runner *runner, struct jr_scope *scope, const PGresult *result);
bool jr_busy_add_claim(
    struct jr_runner *runner, struct jr_request *request); /* false: it is not time, or there is no permit */
/* Nothing else can be claimed now: will it be worth while to ask again? It is woken then. */
bool jr_busy_is_waited_for(struct jr_runner *runner);

/*
 * After a claim of one run: was it left out since something was locked, so that it is to be asked for again? It is
 * woken then. After too many such answers the runner has failed.
 */
bool jr_busy_take_single(struct jr_runner *runner, const PGresult *result);

/* runner_exec.c: with options that have no `exec` each does what is right without it */
bool jr_exec_add_claim(struct jr_runner *runner, struct jr_request *request); /* false: there is none */
void jr_exec_take_nothing(struct jr_runner *runner, const PGresult *result);  /* the claim was empty */
const struct jr_handler *jr_exec_handler(const struct jr_runner *runner, const char *job_type);
int64_t jr_exec_fence(const struct jr_runner *runner, int64_t fence_at_ms); /* of the handler */
bool jr_exec_goes_on(const struct jr_runner *runner);
bool jr_exec_is_over(const struct jr_runner *runner);            /* nobody waits for more than our end */
bool jr_exec_is_deaf(const struct jr_runner *runner, int signo); /* to this signal */
void jr_exec_note_start(struct jr_held *held);
void jr_exec_note_end(struct jr_held *held, const struct jr_outcome *outcome); /* NULL: lost */
struct jr_outcome jr_exec_unstarted(const struct jr_runner *runner);           /* of a run that it does not know */
void jr_exec_judge(struct jr_held *held);                                      /* make its outcome final */

/* runner_held.c */
/* Takes the run, whose lease began then, and its permit (NULL: it cannot be started). */
void jr_held_take(struct jr_runner *runner, struct jr_run *run, int64_t begun_ms, struct jr_permit *permit);
void jr_held_start(struct jr_held *held); /* or end it, when it may not be started */
void jr_held_drop(struct jr_held *held);
bool jr_held_try_heartbeat(struct jr_runner *runner);
void jr_held_beat_soon(struct jr_runner *runner); /* a cancel was asked for */
void jr_held_stop_all(struct jr_runner *runner, bool kill);
void jr_held_lose(struct jr_held *held, const char *why);
void jr_held_end_lost(struct jr_held *held); /* one that is lost, and has no handler any more */
struct jr_held *jr_held_find(struct jr_runner *runner, int64_t id, int64_t claim_seq);
/* The claims that are held, added to *list. */
void jr_held_name_all(const struct jr_runner *runner, struct jr_claim_list *list);
/* And those that were started or sent an outcome for: what must not be adopted. */
void jr_held_name_known(const struct jr_runner *runner, struct jr_claim_list *list);

/* Those of the held that `want` wants (NULL: all), as parallel arrays. */
struct jr_held_list {
	struct jr_held **held;
	struct jr_run **runs;
	size_t count;
};
struct jr_held_list jr_held_select(struct jr_runner *runner, bool (*want)(const struct jr_held *held));
void jr_held_list_release(struct jr_held_list *list);

/* runner_settle.c */
bool jr_settle_try(struct jr_runner *runner);
bool jr_settle_try_resolve(struct jr_runner *runner);
void jr_settle_report(
    struct jr_runner *runner, const struct jr_settled_row *row, const struct jr_outcome *outcome, const char *job_type);
void jr_settle_report_settled(struct jr_held *held, const struct jr_outcome *outcome);

/* runner_progress.c */
void jr_progress_collect(struct jr_runner *runner); /* ask all handlers; a heartbeat was answered */
bool jr_progress_try(struct jr_runner *runner);
void jr_progress_forget(struct jr_held *held);

/* runner_reclaim.c */
bool jr_reclaim_try(struct jr_runner *runner);
void jr_reclaim_begin(struct jr_runner *runner); /* from the first expired row on */
void jr_reclaim_forget(struct jr_runner *runner);

/* runner_fire.c */
/* What goes with each look for work: how long it is to the next slot. */
void jr_fire_take_look(struct jr_runner *runner, const PGresult *result);
bool jr_fire_try(struct jr_runner *runner);

/* runner_linger.c */
bool jr_linger_is_on(const struct jr_runner *runner);      /* "nothing is due" is not the end */
int64_t jr_linger_left_ms(const struct jr_runner *runner); /* hand-over included; 0: it does not stay */
void jr_linger_begin(struct jr_runner *runner);
void jr_linger_connected(struct jr_runner *runner);
void jr_linger_notified(void *ctx, const char *payload);
bool jr_linger_try(struct jr_runner *runner);
void jr_linger_show(struct jr_runner *runner);

#endif
