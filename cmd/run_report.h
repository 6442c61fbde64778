/*
 * run_report: what `jobrun run` says, and how often: cron mails each word.
 */
#ifndef JR_RUN_REPORT_H
#define JR_RUN_REPORT_H

#include "base/err.h"
#include "handler/handlers.h"
#include "runner/runner.h"

/* What has been said so far. */
struct jr_run_report {
	const char *state_directory, *conninfo;
	int64_t dead_count;
	int64_t heartbeat_ms;
	bool terminal; /* a status line is shown */
	bool shown;
	bool waiting; /* as it is shown */
	int64_t shown_ms;
};

/* For struct jr_runner_opts. A dead run is said once with what to type next; after ten of them only their number. */
void jr_run_report_dead(void *ctx, const struct jr_dead *dead);
void jr_run_report_idle_session(void *ctx, int64_t ms); /* once, then as rarely as a database that is away */
void jr_run_report_progress(void *ctx, const struct jr_counts *counts);

/* The end: words on a terminal; a JSON document on stdout. */
void jr_run_report_summary(struct jr_run_report *report, const struct jr_counts *c, int64_t ms);
void jr_run_report_json(const struct jr_counts *c, int64_t ms, int status);

/* Files that are no handlers though they look like it: at once, then as rarely as a database that is away. */
void jr_run_report_problems(const struct jr_handlers *handlers, const char *state_directory);

/*
 * The database is a copy (NULL: it is none): at once, then as rarely as one that is away. command: of `exec`, NULL: of
 * `run`, for which jr_run_report_copied is the same for struct jr_runner_opts.
 */
void jr_run_report_copy(const char *state_directory, const char *conninfo, const char *command, const char *text);
void jr_run_report_copied(void *ctx, const char *text);

/*
 * Empties err->msg if "database away" was said lately; says once that it is back. What else is wrong is always said.
 * command: of `exec`, whose memory is its own; NULL: of `run`.
 */
void jr_run_report_soften(const char *state_directory, const char *conninfo, const char *command, int status,
    bool answered, struct jr_err *err);

#endif
