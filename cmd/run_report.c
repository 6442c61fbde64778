/*
 * run_report: see run_report.h. Files in the state directory remember what was printed (state.h).
 */
#include "run_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "known.h"
#include "print.h"
#include "process/state.h"
#include "waits.h"

#define LAST_LINES_MAX 400

static void
clear_line(struct jr_run_report *report)
{
	if (report->shown)
		jr_print_now("\r\033[K");
	report->shown = false;
}

static void
print_visible(const char *text)
{
	char *visible = jr_text_visible(text, false);

	jr_print_now("jobrun: %s\n", visible);
	free(visible);
}

/* One that has expired was claimed only to end it: nothing was tried. Caller frees. */
static char *
attempts_words(const struct jr_setback *dead)
{
	if (dead->error_code != NULL && strcmp(dead->error_code, "expired") == 0)
		return jr_xstrdup("");
	return jr_xasprintf(" after %" PRId64 " of %" PRId64 " attempt%s", dead->attempts, dead->max_attempts,
	    jr_text_plural(dead->max_attempts));
}

void
jr_run_report_dead(void *ctx, const struct jr_setback *dead)
{
	struct jr_run_report *report = ctx;
	char *why, *last, *attempts;

	clear_line(report);
	if (report->dead_count++ >= JR_RUN_REPORT_MOST)
		return;
	why = jr_text_visible(dead->error == NULL ? "no reason given" : dead->error, false);
	attempts = attempts_words(dead);
	jr_print_now("jobrun: run %" PRId64 " %s is dead%s: %s\n", dead->id, dead->job_type, attempts, why);
	free(attempts);
	free(why);
	last = jr_text_last_line(dead->output == NULL ? "" : dead->output, LAST_LINES_MAX);
	if (*last != '\0') {
		char *visible = jr_text_visible(last, false);

		jr_print_now("  last output: %s\n", visible);
		free(visible);
	}
	free(last);
	jr_print_now("  look: jobrun show %" PRId64 "   again: jobrun retry %" PRId64 "\n", dead->id, dead->id);
}

/* Who has asked for this one run hears how it went. Runs of others, which this runner has taken back, are not meant. */
void
jr_run_report_again(void *ctx, const struct jr_setback *again)
{
	const struct jr_run_report *report = ctx;
	char *why, *wait;

	if (again->id != report->job)
		return;
	why = jr_text_visible(again->error == NULL ? "no reason given" : again->error, false);
	wait = jr_format_duration((again->run_in_ms + 999) / 1000 * 1000);
	jr_print_now("jobrun: run %" PRId64 " %s is due again %s%s, after %" PRId64 " of %" PRId64 " attempt%s: %s\n",
	    again->id, again->job_type, again->run_in_ms > 0 ? "in " : "at once", again->run_in_ms > 0 ? wait : "",
	    again->attempts, again->max_attempts, jr_text_plural(again->max_attempts), why);
	free(wait);
	free(why);
}

static uint64_t
hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (const char *p = text; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	return hash;
}

/* The place of this warning among those that were printed; NULL: it was not. */
static uint64_t *
find_warned(struct jr_run_report *report, const char *text)
{
	uint64_t hash = hash_of(text);

	for (int64_t i = 0; i < report->warned_count && i < JR_RUN_REPORT_MOST; i++) {
		if (report->warned[i] == hash)
			return &report->warned[i];
	}
	return NULL;
}

static char *
refused_name(const char *key)
{
	return jr_xasprintf("refused %s", key);
}

/* Such a refusal is over. true: an earlier runner, or this one, had printed it where nobody watches. */
static bool
forget_refused(const char *state_directory, const char *key, int status)
{
	char *name = refused_name(key);
	int64_t since_ms;
	bool told = (status == JR_E_PERM || status == JR_E_CONFIG) && !isatty(STDERR_FILENO) &&
		    jr_state_back(state_directory, name, &since_ms);

	free(name);
	return told;
}

/* A result that is sent again, since its COMMIT was not answered, brings the same warning again. */
void
jr_run_report_warned(void *ctx, const char *text)
{
	struct jr_run_report *report = ctx;

	if (find_warned(report, text) != NULL)
		return;
	clear_line(report);
	if (report->warned_count < JR_RUN_REPORT_MOST) {
		report->warned[report->warned_count] = hash_of(text);
		print_visible(text);
	}
	report->warned_count++;
}

/* Runners that follow each other each minute say a 77 or 78 as rarely as ticks do. */
void
jr_run_report_troubled(void *ctx, const struct jr_err *err)
{
	struct jr_run_report *report = ctx;
	struct jr_err told = *err;

	jr_run_report_refused(report->state_directory, report->key, "run", (int)told.code, &told);
	if (told.msg[0] != '\0')
		jr_run_report_warned(report, told.msg);
}

/* What nobody was told of, neither now nor by an earlier runner, needs no end. If it comes again, it is told again. */
void
jr_run_report_healed(void *ctx, const struct jr_err *was, const char *words)
{
	struct jr_run_report *report = ctx;
	uint64_t *warned = find_warned(report, was->msg);
	bool told = warned != NULL;

	if (warned != NULL)
		*warned = 0;
	if (forget_refused(report->state_directory, report->key, (int)was->code) || told) {
		clear_line(report);
		print_visible(words);
	}
}

void
jr_run_report_leave_out(struct jr_run_report *report, struct jr_err *err)
{
	if (find_warned(report, err->msg) != NULL)
		err->msg[0] = '\0';
}

/* At most ten times a second. A change of "waiting for work" is always shown, since the next change may take long. */
void
jr_run_report_progress(void *ctx, const struct jr_counts *c)
{
	struct jr_run_report *report = ctx;
	int64_t now = jr_clock_now_ms();

	if (!report->terminal || (now - report->shown_ms < 100 && report->waiting == c->waiting))
		return;
	report->waiting = c->waiting;
	report->shown_ms = now;
	report->shown = true;
	jr_print_now("\r\033[K%" PRId64 " running, %" PRId64 " succeeded, %" PRId64 " retrying, %" PRId64 " dead%s",
	    c->running, c->succeeded, c->failed, c->dead, c->waiting ? "; waiting for work" : "");
}

void
jr_run_report_waits(void *ctx, const char *why, int64_t left_ms)
{
	struct jr_run_report *report = ctx;

	clear_line(report);
	jr_waits_tell(report->app, why, left_ms);
}

void
jr_run_report_stopping(void *ctx, int signo, int64_t running)
{
	struct jr_run_report *report = ctx;
	const char *last = report->grace_ms > 0 ? "stops" : "kills";
	char *grace, *rest;

	if (running == 0 || (!report->tells && (signo != SIGINT || !isatty(STDERR_FILENO))))
		return;
	clear_line(report);
	grace = jr_format_duration(report->grace_ms);
	rest = jr_xasprintf("; Ctrl-C again %s %s", last, running == 1 ? "it" : "them");
	jr_print_now("jobrun: %s %" PRId64 " run%s%s%s%s\n", report->grace_ms > 0 ? "finishing" : "stopping", running,
	    jr_text_plural(running), report->grace_ms > 0 ? ", up to " : "", report->grace_ms > 0 ? grace : "",
	    signo == SIGINT ? rest : "");
	free(rest);
	free(grace);
}

void
jr_run_report_refused_handler(void *ctx, const char *problem)
{
	char *visible = jr_text_visible(problem, false);

	clear_line(ctx);
	jr_print_now("jobrun: not used any more: %s\n", visible);
	free(visible);
}

/* All problems as one text. Caller frees. */
static char *
all_problems(const struct jr_handlers *handlers)
{
	char *all = jr_xstrdup("");

	for (size_t i = 0; i < handlers->problem_count; i++) {
		char *more = jr_xasprintf("%s%s\n", all, handlers->problems[i]);

		free(all);
		all = more;
	}
	return all;
}

/* When the set of refused files changes, all are printed again. */
void
jr_run_report_problems(const struct jr_handlers *handlers, const char *state_directory)
{
	char *name = jr_xasprintf("handlers %s", handlers->directory);
	char *what = all_problems(handlers);
	int64_t since_ms;
	bool tell = handlers->problem_count > 0 &&
		    (jr_state_away(state_directory, name, what, &since_ms) || isatty(STDERR_FILENO));

	for (size_t i = 0; i < handlers->problem_count; i++) {
		if (tell)
			jr_print_line(stderr, "jobrun: not used: ", handlers->problems[i]);
		else
			jr_log(JR_INFO, JR_EVENT_HANDLER_REFUSED, JR_S("reason", handlers->problems[i]));
	}
	if (handlers->problem_count == 0)
		(void)jr_state_back(state_directory, name, &since_ms);
	free(what);
	free(name);
}

/* jobrun cannot set this parameter itself: it exists per session only, and the session may belong to a pooler. */
void
jr_run_report_idle_session(void *ctx, int64_t ms)
{
	static const char name[] = "idle_session_timeout";
	const struct jr_run_report *report = ctx;
	int64_t since_ms;

	if (ms == 0 || ms > report->heartbeat_ms)
		(void)jr_state_back(report->state_directory, name, &since_ms);
	else if (jr_state_away(report->state_directory, name, name, &since_ms) || isatty(STDERR_FILENO))
		jr_print_now(
		    "jobrun: idle_session_timeout is %" PRId64
		    " ms: while handlers run, the server cuts jobrun's connection each time it is idle for so long, and jobrun connects again; type in its role: ALTER ROLE CURRENT_USER SET idle_session_timeout = 0\n",
		    ms);
}

void
jr_run_report_copy(const char *state_directory, const char *conninfo, const char *command, const char *text)
{
	char *name = jr_xasprintf("%s copy %s", conninfo == NULL ? "" : conninfo, command == NULL ? "" : command);
	int64_t since_ms;
	bool tell = false;

	if (text != NULL)
		tell = state_directory == NULL || jr_state_away(state_directory, name, text, &since_ms) ||
		       isatty(STDERR_FILENO);
	else if (state_directory != NULL)
		(void)jr_state_back(state_directory, name, &since_ms);
	if (tell)
		print_visible(text);
	free(name);
}

void
jr_run_report_copied(void *ctx, const char *text)
{
	struct jr_run_report *report = ctx;

	clear_line(report);
	jr_run_report_copy(report->state_directory, report->conninfo, NULL, text);
}

void
jr_run_report_unhandled(void *ctx, const char *job_type, const char *words, const char *others)
{
	struct jr_run_report *report = ctx;
	char *line = jr_known_words(words, job_type, others);

	clear_line(report);
	print_visible(line);
	free(line);
}

void
jr_run_report_json(const struct jr_counts *c, int64_t ms, int status)
{
	json_t *doc = json_pack("{si sI sI sI sI sI sI sI sI sI sI sI sI sI}", "exit_status", status, "took_ms", ms,
	    "claimed", c->claimed, "succeeded", c->succeeded, "retrying", c->failed, "dead", c->dead, "later", c->later,
	    "released", c->released, "unstarted", c->unstarted, "cancelled", c->cancelled, "reclaimed", c->reclaimed,
	    "fenced", c->fenced, "given_up", c->given_up, "fired", c->fired);

	jr_print_value(doc);
	json_decref(doc);
}

/* The outcomes that are rare, only if there are any. */
static void
tell_rest(const struct jr_counts *c)
{
	const struct {
		int64_t count;
		const char *mark, *words;
	} rest[] = {
	    {c->later, ",", "put off"},
	    {c->cancelled, ",", "cancelled"},
	    {c->released, ",", "stopped and given back"},
	    {c->fenced, ",", "with a lost lease"},
	    {c->unstarted, ";", "given back unstarted"},
	};

	for (size_t i = 0; i < JR_COUNT(rest); i++) {
		if (rest[i].count > 0)
			fprintf(stderr, "%s %" PRId64 " %s", rest[i].mark, rest[i].count, rest[i].words);
	}
	fputc('\n', stderr);
}

void
jr_run_report_summary(struct jr_run_report *report, const struct jr_counts *c, int64_t ms)
{
	char *took = jr_format_duration(ms);

	clear_line(report);
	if (report->dead_count > JR_RUN_REPORT_MOST)
		fprintf(stderr, "jobrun: and %" PRId64 " more runs are dead: jobrun list --status dead\n",
		    report->dead_count - JR_RUN_REPORT_MOST);
	if (report->warned_count > JR_RUN_REPORT_MOST)
		fprintf(stderr, "jobrun: and %" PRId64 " more warnings: the server's log has the reasons\n",
		    report->warned_count - JR_RUN_REPORT_MOST);
	if (report->terminal) {
		fprintf(stderr,
		    "%" PRId64 " run%s in %s: %" PRId64 " succeeded, %" PRId64 " retrying, %" PRId64 " dead",
		    c->claimed, jr_text_plural(c->claimed), took, c->succeeded, c->failed, c->dead);
		tell_rest(c);
	}
	free(took);
}

void
jr_run_report_refused(const char *state_directory, const char *key, const char *what, int status, struct jr_err *err)
{
	char *name = refused_name(key);
	char *complaint = jr_xasprintf("%d %s", status, err->msg);
	int64_t since_ms = 0;

	if (isatty(STDERR_FILENO)) {
		; /* cron's memory is for cron */
	} else if (status == JR_E_PERM || status == JR_E_CONFIG) {
		if (!jr_state_away(state_directory, name, complaint, &since_ms))
			err->msg[0] = '\0';
	} else if (status <= JR_E_NEWS && jr_state_back(state_directory, name, &since_ms)) {
		char *words = jr_format_duration(since_ms);

		fprintf(stderr, "jobrun: %s works again after %s\n", what, words);
		free(words);
	}
	free(complaint);
	free(name);
}

/*
 * Each command of `exec` has a memory of its own: that `run` could not reach the database at midnight must not hide
 * that a command was not started at two.
 */
void
jr_run_report_soften(const char *state_directory, const char *conninfo, const char *command, int status, bool answered,
    struct jr_err *err)
{
	char *name = jr_xasprintf("%s%s%s", conninfo == NULL ? "" : conninfo, command == NULL ? "" : " exec ",
	    command == NULL ? "" : command);
	int64_t since_ms = 0;

	if (!answered && status == JR_E_TEMP) {
		if (!jr_state_away(state_directory, name, "", &since_ms) && !isatty(STDERR_FILENO))
			err->msg[0] = '\0';
	} else if (answered && jr_state_back(state_directory, name, &since_ms)) {
		char *words = jr_format_duration(since_ms);

		if (command == NULL)
			fprintf(stderr, "jobrun: the database is back after %s\n", words);
		else
			fprintf(stderr, "jobrun: the database is back; %s had no record for %s\n", command, words);
		free(words);
	}
	free(name);
}
