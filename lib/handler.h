/*
 * handler: what this host can do, and the one interface behind which each kind of handler lives.
 *
 * A kind (exec; later sql, http) is one file lib/handler_KIND.c that exports a struct jr_handler_kind, and one word in
 * the list of handlers.c. A handler knows neither queue nor runner: it is given a run, works, and says through `ended`
 * how it went.
 */
#ifndef JR_HANDLER_H
#define JR_HANDLER_H

#include "child.h"
#include "keeper.h"
#include "run.h"

struct jr_handler_kind;
struct jr_work; /* one run being worked on; each kind has its own struct that begins with this */

/* A handler of this host, found at start. Owns its strings. */
struct jr_handler {
	char *job_type;
	char *path;
	char *directory;
	const struct jr_handler_kind *kind;
	int64_t timeout_ms; /* of its settings, -1: none */
	int64_t grace_ms;   /* between TERM and KILL at timeout, cancel and shutdown; -1: 10 s */
};

#define JR_GRACE_MS 10000

/* What handlers of this runner share. Borrowed by them. */
struct jr_host {
	struct jr_loop *loop;
	struct jr_keeper *keeper;
	const char *install_note; /* unused by exec; NULL */
	bool echo;
};

/* How a piece of work ended, by the kind's own table. Owned by the work, valid during the call of `ended`. */
struct jr_work_end {
	enum jr_verdict verdict;
	bool has_exit;
	int exit_status;
	int64_t pid, cpu_ms, max_rss_kb, output_dropped;
	int64_t retry_in_ms;    /* asked for by the handler; 0: nothing asked */
	const char *error_code; /* NULL with JR_DONE */
	const char *error;      /* NULL with JR_DONE; clean */
	const char *output;     /* clean; NULL: none */
	const char *result;     /* JSON text or NULL */
};

typedef void jr_work_fn(void *ctx, const struct jr_work_end *end);

struct jr_handler_kind {
	const char *name;

	/*
	 * Start to work on `run` (borrowed until `ended`). deadline_ms is the lease's: when everything must be gone;
	 * run_deadline_ms is for JOBRUN_DEADLINE (ms on CLOCK_BOOTTIME, JR_NEVER: none). NULL: it cannot be started,
	 * *err says why, `ended` is not called.
	 */
	struct jr_work *(*start)(const struct jr_host *host, const struct jr_handler *handler,
	    const struct jr_run *run, int64_t deadline_ms, int64_t run_deadline_ms,
	    jr_work_fn *ended, void *ctx, struct jr_err *err);

	void (*stop)(struct jr_work *work, bool kill); /* ask it to end (TERM), or make it (KILL) */
	void (*move)(struct jr_work *work, int64_t deadline_ms); /* the lease was renewed */
	void (*free)(struct jr_work *work); /* after `ended`; before it: ends the work at once */
};

struct jr_work {
	const struct jr_handler_kind *kind;
};

extern const struct jr_handler_kind jr_handler_exec;
extern const struct jr_handler_kind jr_handler_builtin; /* jobrun.noop */

#endif
