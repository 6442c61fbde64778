/*
 * run_report: what `jobrun run` prints, and how often: cron mails every line.
 *
 * "As rarely as an unreachable database" means: at once, after 10 minutes, after an hour, then every six hours
 * (jr_state_away).
 */
#ifndef JR_RUN_REPORT_H
#define JR_RUN_REPORT_H

#include "base/err.h"
#include "commands.h"
#include "handler/handlers.h"
#include "runner/runner.h"

#define JR_RUN_REPORT_MOST 10 /* dead runs, and warnings, that are printed */

/* What has been printed so far. */
struct jr_run_report {
	const char *state_directory, *conninfo;
	const char *key; /* of the line of a crontab: jr_run_report_refused() */
	const struct jr_app *app;
	int64_t job; /* of --job; 0: none */
	int64_t dead_count;
	uint64_t warned[JR_RUN_REPORT_MOST]; /* hashes of the warnings */
	int64_t warned_count;
	int64_t heartbeat_ms;
	int64_t grace_ms;
	bool tells;    /* every signal that asks the runner to end is answered, not only Ctrl-C on a terminal */
	bool terminal; /* a status line is shown */
	bool shown;
	bool waiting; /* the status line says "waiting for work" */
	int64_t shown_ms;
};

/*
 * Callbacks of struct jr_runner_opts. The first ten dead runs are printed with what to type next, then their number. So
 * are the warnings that their alarms could not be enqueued, each once.
 */
void jr_run_report_dead(void *ctx, const struct jr_setback *dead);
void jr_run_report_again(void *ctx, const struct jr_setback *again); /* for --job: that run waits again */
void jr_run_report_warned(void *ctx, const char *text);
/*
 * What does not stop a runner that stays is a warning, too; a 77 or 78 as rarely as jr_run_report_refused(). At the end
 * that of it which was printed is left out of err.
 */
void jr_run_report_troubled(void *ctx, const struct jr_err *err);
void jr_run_report_healed(void *ctx, const struct jr_err *was, const char *words);
void jr_run_report_leave_out(struct jr_run_report *report, struct jr_err *err);
void jr_run_report_idle_session(void *ctx, int64_t ms); /* as rarely as an unreachable database */
void jr_run_report_progress(void *ctx, const struct jr_counts *counts);

/* There is no connection. Only people at a terminal are told. */
void jr_run_report_waits(void *ctx, const char *why, int64_t left_ms);

/* The first Ctrl-C, or with -v any such signal: how many handlers go on, for how long, and what ends them at once. */
void jr_run_report_stopping(void *ctx, int signo, int64_t running);

/* At the end: a summary on a terminal, or a JSON document on stdout. */
void jr_run_report_summary(struct jr_run_report *report, const struct jr_counts *c, int64_t ms);
void jr_run_report_json(const struct jr_counts *c, int64_t ms, int status);

/* Files in the handlers directory that were refused: as rarely as an unreachable database. */
void jr_run_report_problems(const struct jr_handlers *handlers, const char *state_directory);

/* A callback: a handler that could be used at the start is refused now. */
void jr_run_report_refused_handler(void *ctx, const char *problem);

/*
 * The database is a copy (`text` of NULL: it is not): as rarely as an unreachable database. `command` is the NAME of
 * `exec`, NULL for `run`. jr_run_report_copied is the same for `run` as a callback of struct jr_runner_opts.
 */
void jr_run_report_copy(const char *state_directory, const char *conninfo, const char *command, const char *text);
void jr_run_report_copied(void *ctx, const char *text);

/* A callback: a line for each job type whose runs no host has a handler for. */
void jr_run_report_unhandled(void *ctx, const char *job_type, const char *words, const char *others);

/*
 * Empties err->msg if the same failure to reach the database was printed lately, and prints once that the database is
 * back. Other errors are always printed. `command` is the NAME of `exec`, which has a memory of its own; NULL for
 * `run`.
 */
void jr_run_report_soften(const char *state_directory, const char *conninfo, const char *command, int status,
    bool answered, struct jr_err *err);

/*
 * The same for a refusal, exit status 77 or 78: it stays until somebody acts, so it is printed as rarely, and each
 * other one at once. Prints once that `what` works again: "run", or the NAME of `exec`. `key` tells one line of a
 * crontab from another. On a terminal everything is printed, and nothing is remembered.
 */
void jr_run_report_refused(
    const char *state_directory, const char *key, const char *what, int status, struct jr_err *err);

#endif
