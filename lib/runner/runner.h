/*
 * runner: one tick. It reclaims lost runs, fires schedules, claims due runs for which this host has handlers, runs them
 * under leases, settles them, and ends when nothing is due and nothing is held; with linger_ms, when that time is over
 * and another runner goes on.
 *
 * What must hold:
 * - A claim takes no more than can be started at once; a permit is held before its run is claimed, if
 *   its handler needs one.
 * - Every write names (id, claim_seq, runner_id). Zero rows back: fenced out, and nothing is reported as success.
 * - A settle is sent only after the handler and its group are gone; until then, and until it is accepted, the run is
 *   heartbeaten. A finished result is offered until accepted or fenced out, at most one further lease long.
 * - Each handler has a deadline of its own on CLOCK_BOOTTIME: start of the last answered claim or heartbeat + lease -
 *   margin. When it passes without a renewal the handler is stopped and nothing is written.
 * - At most one request is on the wire, so a lost connection leaves one known transaction in doubt; doubt is resolved
 *   by reading (resolve.sql for outcomes, adopt.sql for claims) before anything is repeated.
 *
 * Attempts are charged by the claim.
 */
#ifndef JR_RUNNER_H
#define JR_RUNNER_H

#include "base/lease.h"
#include "handler/handlers.h"
#include "process/state.h"

/* How an attempt that did not succeed was settled, for the message to people. Texts are borrowed during the call. */
struct jr_setback {
	int64_t id, attempts, max_attempts;
	int64_t run_in_ms; /* until it may run again; -1: never */
	const char *job_type, *error_code, *error, *output;
};

struct jr_counts {
	/*
	 * Claims, the time from sending each until it was answered or given up, and how many left out what somebody
	 * else had locked.
	 */
	int64_t claims, claim_ms, claims_locked;
	int64_t claimed, succeeded, failed, dead, later, released, cancelled;
	int64_t unstarted; /* claimed, and given back as if they had not been; not among `claimed` */
	int64_t reclaimed; /* expired leases that it took back */
	int64_t fired;     /* slots of schedules that became runs */
	int64_t fenced;    /* the lease was lost, or the result was not accepted */
	int64_t given_up;  /* results that could not be written in time */
	int64_t running;   /* now */
	bool answered;     /* the database did, once at least */
	bool crowded;      /* there was no free permit on this host */
	bool tried;        /* --job: its claim was answered */
	bool waiting;      /* now: nothing is due, and the runner stays */
};

/* How much longer than linger_ms a runner stays when no other one takes over. */
#define JR_HANDOVER_MS 5000

/* What became of the command of jobrun exec. */
enum jr_exec_state {
	JR_EXEC_NONE,         /* its run was not claimed: the runner's status says why */
	JR_EXEC_SKIPPED,      /* not started because of a pause, the overlap rule or a limit; it is recorded; `why` */
	JR_EXEC_UNSTARTED,    /* claimed, and not started; `why` */
	JR_EXEC_RUNNING,      /* the runner itself has failed */
	JR_EXEC_CANNOT_START, /* `why` */
	JR_EXEC_ENDED,
	JR_EXEC_TIMED_OUT,
	JR_EXEC_LOST /* stopped, since the lease was lost */
};

/*
 * jobrun exec: one command as a run of this definition, made by its claim. Such a run is never tried again: an outcome
 * that would release it or put it off makes it dead. It needs no permit.
 */
struct jr_exec {
	const struct jr_handler *handler; /* of jr_handlers_of_command */
	const char *definition;
	const char *argv;   /* its words as an array literal, for people */
	int64_t timeout_ms; /* -1: the definition's; 0: none */
	bool goes_on;       /* it is not stopped when the lease is lost, and goes on without a record */

	enum jr_exec_state state;
	int64_t run_id;  /* 0: none */
	int exit_status; /* ENDED, TIMED_OUT */
	int signal;      /* the first signal that asked jobrun to end, or 0 */
	bool stopped;    /* because of its timeout or a cancel: it may have said nothing itself */
	bool held_back;  /* SKIPPED because everything or this host is paused */
	char *why;       /* the caller frees */
	char *output;    /* head and tail of what it printed, clean; NULL: nothing. The caller frees */
};

struct jr_runner_opts {
	const char *conninfo;
	const struct jr_state *state; /* NULL: for exec, which needs no permit */
	const char *version;
	const struct jr_handlers *handlers;
	const char *const *types; /* --type: only these; count 0: all that the host has */
	size_t type_count;
	const char *const *queues; /* --queue; count 0: all */
	size_t queue_count;
	struct jr_lease lease;
	int64_t permits[JR_POOL_COUNT]; /* -j, --http-jobs, --sql-jobs */
	int64_t job_id;                 /* --job: only this run, due or not; 0: none */
	struct jr_exec *exec;           /* only this command, and no handlers; NULL: none */
	int64_t max_runs;               /* stop claiming after so many; 0: no limit */
	int64_t max_runtime_ms;         /* stop claiming after; 0: no limit */
	int64_t linger_ms;      /* start new runs at once for so long after the splay; 0: end when nothing is due */
	int64_t grace_ms;       /* at TERM: how long handlers may go on before they are asked to stop */
	int64_t splay_ms;       /* wait a part of this, fixed for each host, before connecting */
	const char *ping_start; /* URL/start hears of the start of the tick, or of exec's command; NULL: nobody does */
	int64_t patience_ms;    /* how long to try to connect while nothing is held */
	bool echo;              /* handlers' output also to descriptor 2 */
	bool raw;               /* as it is, even to a terminal */

	/*
	 * Borrowed calls; each may be NULL. idle_session: idle_session_timeout, with which the server cuts the
	 * connection while handlers run; 0: there is none.
	 */
	void (*idle_session)(void *ctx, int64_t ms);
	void (*dead)(void *ctx, const struct jr_setback *dead);
	void (*again)(void *ctx, const struct jr_setback *again); /* it failed, was put off or released, and waits */
	/* The database has a warning: the alarm of a dead run could not be enqueued. Seldom the same one twice. */
	void (*warned)(void *ctx, const char *text);
	/*
	 * Something does not work, and the runner, which stays, goes on. At the end this is in *err, unless it has
	 * healed: then people who were told of it hear these words.
	 */
	void (*troubled)(void *ctx, const struct jr_err *err);
	void (*healed)(void *ctx, const struct jr_err *was, const char *words);
	/* A handler may not be started any more, for this reason: it is gone, or others can write to it. */
	void (*refused)(void *ctx, const char *problem);
	void (*progress)(void *ctx, const struct jr_counts *counts);
	/* There has been no connection for JR_PG_TELL_MS. left_ms: how long it will be tried; 0: while leases last. */
	void (*waits)(void *ctx, const char *why, int64_t left_ms);
	void (*stopping)(void *ctx, int signo, int64_t running); /* the first signal; so many handlers run */
	void (*copied)(void *ctx, const char *text); /* the warning that the database is a copy; NULL: it is none */
	/*
	 * Runs wait for a handler that no host has: a call for each job type. Of all runners of the database, one is
	 * told, and of a type once a day. others: the types that have handlers, one a line; NULL: job_type, which may
	 * be NULL then, is not spelt wrong.
	 */
	void (*unhandled)(void *ctx, const char *job_type, const char *words, const char *others);
	void *ctx;
};

/*
 * Run to the end. The exit status: 0; 1 when a run went dead or, with job_id, could not be claimed; 75 when the
 * database stayed away (also when results could not be written), when something that has to be locked for one run alone
 * stayed locked, and with job_id when a limit keeps it; 78, 77, 70; 130 at a second INT. *err (its msg
 * empty at the start) is filled with what was not reported through `dead`; *counts always.
 */
int jr_runner_run(const struct jr_runner_opts *opts, struct jr_counts *counts, struct jr_err *err);

#endif
