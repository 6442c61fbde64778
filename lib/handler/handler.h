/*
 * handler: what this host can do, and the one interface behind which each kind of handler lives.
 *
 * A kind is one file handler_KIND.c that exports a struct jr_handler_kind, and one word in JR_HANDLER_KINDS below.
 * A handler knows neither queue nor runner: it gets a run, works on it, and reports through `ended` how it went.
 */
#ifndef JR_HANDLER_H
#define JR_HANDLER_H

#include "base/run.h"
#include "handler/settings.h"
#include "process/child.h"
#include "process/watchdog.h"

#define JR_PRUNE_TYPE "jobrun.prune"
#define JR_PRUNE_QUEUE "jobrun" /* of the types jobrun.* alone */

struct jr_handler_kind;
struct jr_http;
struct jr_lease;
struct jr_outs;
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
	char *sql;  /* kind sql: the statement */
	bool as_is; /* kind exec: a command of our caller's, in its place (child.h): path and settings.argv */
};

#define JR_GRACE_MS 10000 /* between TERM and KILL at timeout, cancel and shutdown, unless the settings say otherwise */

/*
 * What the handlers of one runner share. The owner sets the first part and keeps it alive. The second part belongs to
 * the kinds: they make it on first use and free it in `close`.
 */
struct jr_host {
	struct jr_loop *loop;
	struct jr_watchdog *watchdog;
	const char *conninfo;         /* for sql handlers; NULL: libpq's defaults */
	const struct jr_lease *lease; /* what runs are held by; NULL: there is none (jobrun try) */
	void (*nonsense)(void *ctx, const struct jr_err *err); /* an answer made no sense; may be NULL */
	void *ctx;
	bool echo;      /* what handlers print also goes to descriptor 2 */
	bool raw;       /* as it is, even to a terminal */
	bool rehearsal; /* a sql handler's transaction is rolled back, and the run needs no row (jobrun try) */

	struct jr_outs *outs;
	bool environ_logged; /* the log has said which variables handlers do not inherit */
	struct jr_http *http;
	struct jr_handler_sql *sql;
};

/* How a piece of work ended, by the kind's own table. Owned by the work, valid during the call of `ended`. */
struct jr_work_end {
	enum jr_verdict verdict;
	bool has_exit;
	bool settled;  /* the end of the run was committed with the effect: the runner does not settle it again */
	bool in_doubt; /* not JR_DONE: a commit of effect and end was not answered, or refused by the fence */
	bool unsent;   /* it waited for others of its batch and never began: a timeout does not count as its failure */
	int exit_status;
	int64_t pid, cpu_ms, output_dropped;
	int64_t max_rss_kb;                         /* 0: not known */
	int64_t retry_in_ms;                        /* asked for by the handler; 0: nothing asked */
	const char *error_code;                     /* NULL with JR_DONE */
	const char *error;                          /* NULL with JR_DONE; clean */
	const char *output;                         /* clean; NULL: none */
	const char *progress, *checkpoint, *result; /* lines as in struct jr_outcome, or NULL */
	struct jr_outcome *written; /* settled, in_doubt: what `judge` had said of that commit; NULL: succeeded */
};

typedef void jr_work_fn(void *ctx, const struct jr_work_end *end);

/*
 * What a piece of work comes to if it ends like `end`, which is `settled`: the handler is about to write this with the
 * effect. *outcome is filled for the caller to release. false: nothing may be written.
 */
typedef bool jr_judge_fn(void *ctx, const struct jr_work_end *end, struct jr_outcome *outcome);

/* Who started a piece of work. `judge` may be asked several times, the last time before `ended`. */
struct jr_owner {
	jr_work_fn *ended;
	jr_judge_fn *judge;
	void *ctx;
};

/* What a piece of work reports while it runs. Lines are borrowed until the next call; NULL: nothing new. */
struct jr_handler_progress {
	const char *progress, *checkpoint; /* lines */
	char *output;                      /* all of it so far, clean, when it has grown; the caller frees it */
	int64_t output_dropped;
};

struct jr_handler_kind {
	const char *name;
	enum jr_pool pool;
	const char *built_in;     /* the job type that every host has of this kind, without a file; NULL: none */
	const char *member;       /* the member that makes a NAME.json alone a handler of this kind; NULL: none does */
	const char *success_rule; /* when a run of this kind is done, for `jobrun try` */
	bool settles_itself;      /* the handler commits the end of the run together with its effect */

	/*
	 * Can this handler be used on this host, by what its settings name? Asked once, when the directory is read.
	 * NULL: always.
	 */
	bool (*check)(const struct jr_handler *handler, struct jr_err *err);

	/*
	 * Start to work on `run` (borrowed until `ended`, like the handler). deadline_ms is the lease's: when
	 * everything must be gone; run_deadline_ms is the run's timeout (ms on CLOCK_BOOTTIME, JR_NEVER: none), for
	 * JOBRUN_DEADLINE and statement_timeout; stop is called when it passes; owner is copied. NULL: it cannot be
	 * started, *err says why (JR_E_TEMP: not just now), `ended` is not called.
	 */
	struct jr_work *(*start)(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run,
	    int64_t deadline_ms, int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err);

	void (*stop)(struct jr_work *work, bool kill);           /* ask it to end (TERM), or make it (KILL) */
	void (*move)(struct jr_work *work, int64_t deadline_ms); /* the lease was renewed */
	void (*progress)(struct jr_work *work,
	    struct jr_handler_progress *report); /* what is new since the last call; NULL: never any */
	void (*free)(struct jr_work *work);      /* after `ended`; before it: ends the work at once */
	void (*close)(struct jr_host *host); /* free what the kind keeps in host, after the last work; NULL: nothing */
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
