/*
 * handler: the handlers of this host, and the interface that each kind of handler implements.
 *
 * A kind is a file handler_KIND.c that exports a struct jr_handler_kind, one word in JR_HANDLER_KINDS below, and a line
 * in lib/DEPS. A handler knows neither the queue nor the runner: it gets a run, works on it, and reports the end
 * through `ended`.
 */
#ifndef JR_HANDLER_H
#define JR_HANDLER_H

#include "base/run.h"
#include "handler/settings.h"
#include "process/child.h"
#include "process/watchdog.h"

#define JR_PRUNE_TYPE "jobrun.prune"
#define JR_PRUNE_QUEUE "jobrun" /* only for the types jobrun.* */

struct jr_handler_kind;
struct jr_http;
struct jr_isolation;
struct jr_lease;
struct jr_outs;
struct jr_trust;
struct jr_handler_sql;
struct jr_work; /* one run being worked on; each kind has its own struct that begins with this */

/* The permits that runs take on this host. Each pool has a size of its own (-j, --http-jobs, --sql-jobs). */
enum jr_pool {
	JR_POOL_NONE, /* such a run needs no permit */
	JR_POOL_EXEC,
	JR_POOL_HTTP,
	JR_POOL_SQL,
	JR_POOL_PRUNE, /* housekeeping: one run on a host at a time, whatever --type and --queue say */
	JR_POOL_COUNT
};

/* A handler of this host, found at start. Owns its strings. */
struct jr_handler {
	char *job_type;
	char *path;          /* NAME, NAME.sql or NAME.json; NULL: built-in */
	char *settings_path; /* NAME.json; NULL: there is none */
	char *directory;
	const struct jr_handler_kind *kind;
	struct jr_settings settings;
	char *sql;                      /* kind sql: the statement */
	struct jr_isolation *isolation; /* kind exec with "isolate" (isolate.h); NULL: none */
	struct jr_trust *trust;         /* kind exec: when its files were judged, and how they looked (trust.h) */
	bool as_is; /* kind exec: run path and settings.argv as our caller would run them (jobrun exec, child.h) */
	bool quiet; /* as_is: its output is only kept */
};

struct jr_pg;

#define JR_GRACE_MS 10000 /* between TERM and KILL at timeout, cancel and shutdown, unless the settings say otherwise */

/*
 * The state that the handlers of one runner share. The owner sets the first part and keeps it alive. The second part
 * belongs to the kinds: they create it on first use and free it in `close`.
 */
struct jr_host {
	struct jr_loop *loop;
	struct jr_watchdog *watchdog;
	const char *conninfo;         /* for the handlers' own connections; NULL: libpq's defaults */
	const struct jr_pg *beside;   /* the runner's connection: they go to its address; NULL: none (jobrun try) */
	const struct jr_lease *lease; /* the lease of the runs; NULL: there is none (jobrun try) */
	void (*nonsense)(
	    void *ctx, const struct jr_err *err);    /* the server sent a result of a wrong form; may be NULL */
	void (*warned)(void *ctx, const char *text); /* the server has a warning for people (pg.h); may be NULL */
	void *ctx;
	bool echo;      /* copy the output of handlers to descriptor 2 */
	bool raw;       /* copy it unchanged, even to a terminal */
	bool rehearsal; /* a sql handler's transaction is rolled back, and the run needs no row (jobrun try) */

	struct jr_outs *outs;
	char **inherited; /* the environment of programs, without what they do not inherit; NULL: no look yet */
	struct jr_http *http;
	struct jr_handler_sql *sql;
};

/* How a piece of work ended. Owned by the work, valid during the call of `ended`. */
struct jr_work_end {
	enum jr_verdict verdict;
	bool has_exit;
	bool settled;  /* the handler has committed the end of the run with the effect: the runner must not settle it */
	bool in_doubt; /* not JR_DONE: the commit of effect and end was not answered, or the fence refused it */
	bool by_itself; /* a program that had ended before it was told to stop */
	bool unsent;    /* it waited for a connection or its batch and never began: a timeout is not its failure */
	int exit_status;
	int64_t pid, cpu_ms, output_dropped;
	int64_t max_rss_kb;                         /* 0: not known */
	int64_t retry_in_ms;                        /* the delay that the handler asked for; 0: none */
	const char *error_code;                     /* NULL with JR_DONE */
	const char *error;                          /* NULL with JR_DONE; clean */
	const char *output;                         /* clean; NULL: none */
	const char *progress, *checkpoint, *result; /* lines as in struct jr_outcome, or NULL */
	struct jr_outcome *written; /* settled, in_doubt: the outcome from `judge` for that commit; NULL: succeeded */
};

typedef void jr_work_fn(void *ctx, const struct jr_work_end *end);

/*
 * Get the outcome of a run whose work ends like `end`. The handler writes it in the same transaction as the effect, so
 * end->settled is set. The caller releases *outcome. false: the handler must write nothing.
 */
typedef bool jr_judge_fn(void *ctx, const struct jr_work_end *end, struct jr_outcome *outcome);

/* Who started a piece of work. `judge` may be called several times, but not after `ended`. */
struct jr_owner {
	jr_work_fn *ended;
	jr_judge_fn *judge;
	void *ctx;
};

/* The report of a piece of work that still runs. Lines are borrowed until the next call; NULL: nothing new. */
struct jr_handler_progress {
	const char *progress, *checkpoint; /* lines */
	char *output;                      /* the whole output so far, clean, if it has grown; the caller frees it */
	int64_t output_dropped;
};

/*
 * A kind. start, stop, move and free are there in each; `ended` is called once, from the loop and never from inside one
 * of these, when everything that was started is gone. What may be missing says so.
 */
struct jr_handler_kind {
	const char *name;
	enum jr_pool pool;
	const char *built_in;     /* a job type that this kind handles on every host, without a file; NULL: none */
	const char *member;       /* a NAME.json with this member is a handler of this kind, alone; NULL: none is */
	const char *success_rule; /* what success means for this kind, for `jobrun try` */
	bool settles_itself;      /* the handler commits the end of the run together with its effect */

	/*
	 * Can this host run this handler with its settings? Called once, when the directory is read; may keep in the
	 * handler what its starts need. NULL: always.
	 */
	bool (*check)(struct jr_handler *handler, struct jr_err *err);

	/*
	 * Are its files still there, and may they still be used? A runner asks before each start; if not, it claims no
	 * more runs of the type. NULL: always.
	 */
	bool (*may_start)(const struct jr_handler *handler, struct jr_err *err);

	/*
	 * Start to work on `run`. `run` and `handler` are borrowed until `ended`; `owner` is copied. deadline_ms comes
	 * from the lease: everything of this work must be gone by then. run_deadline_ms is the end of the run's timeout
	 * (ms on CLOCK_BOOTTIME, JR_NEVER: none), for JOBRUN_DEADLINE and statement_timeout; the caller calls `stop`
	 * when it passes. NULL: the work cannot be started, *err says why (JR_E_TEMP: it may work later), and `ended`
	 * is not called.
	 */
	struct jr_work *(*start)(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run,
	    int64_t deadline_ms, int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err);

	void (*stop)(struct jr_work *work, bool kill);           /* request its end (TERM), or force it (KILL) */
	void (*move)(struct jr_work *work, int64_t deadline_ms); /* the lease was renewed */
	void (*progress)(struct jr_work *work,
	    struct jr_handler_progress *report); /* report the changes since the last call; NULL: never any */
	void (*free)(struct jr_work *work);      /* after `ended`; called before it, it ends the work at once */
	void (*close)(struct jr_host *host); /* after the last work: free the state in `host`; NULL: there is none */
};

struct jr_work {
	const struct jr_handler_kind *kind;
};

/* clang-format off */
#define JR_HANDLER_KINDS(X) \
	X(exec) \
	X(http) \
	X(sql) \
	X(builtin) \
	X(prune)
/* clang-format on */

#define JR_HANDLER_KIND_DECLARE(name) extern const struct jr_handler_kind jr_handler_##name;
JR_HANDLER_KINDS(JR_HANDLER_KIND_DECLARE)
#undef JR_HANDLER_KIND_DECLARE
#define JR_HANDLER_KIND_REFERENCE(name) &jr_handler_##name,

#endif
