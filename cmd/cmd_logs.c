/*
 * logs: print the output of an attempt. The database keeps its head and tail; of a running attempt, as much as the
 * runner has reported.
 *
 * --follow reads once a second, prints what is new, goes on with the next attempts, and ends when the run is over. If a
 * newer run has superseded it, it goes on with that one. jr_logs_follow_new finds what was added to the last text. The
 * runner is told that somebody follows (logs_pace.h), and sends output each second as long as that is so.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "commands.h"
#include "logs_follow.h"
#include "logs_pace.h"
#include "pager.h"
#include "print.h"
#include "sql_text.h"

#define POLL_MS 1000
#define OUTAGE_MS 20000 /* how long --follow tries again when the database cannot be reached */

struct logs_opts {
	int64_t attempt;
	bool follow;
};

static const struct logs_opts logs_defaults = {.attempt = 0};

/* clang-format off */
static const struct jr_option logs_options[] = {
	{ .name = "attempt", .arg = "N", .help = "attempt number N, the newest with that number (the last attempt)",
	    .type = JR_OPT_INT, .offset = offsetof(struct logs_opts, attempt), .min = 1, .max = INT64_MAX },
	{ .name = "follow", .letter = 'f', .help = "go on printing new output until the run is over", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct logs_opts, follow) },
	JR_OPTIONS_END,
};
/* clang-format on */

static bool
fail_no_run(int64_t id, struct jr_err *err)
{
	return jr_fail(err, JR_E_NEWS, "there is no run %" PRId64 "; 'jobrun list' shows the newest", id);
}

/* ------------------------------------------------------------------------------------ one attempt, as it is now */

enum column {
	C_STATUS,
	C_ATTEMPTS,
	C_ATTEMPT,
	C_OUTPUT,
	C_DROPPED,
	C_DOC
};

static void
print_logs(const PGresult *result, int64_t id)
{
	const char *output = jr_pg_text(result, 0, C_OUTPUT);
	int64_t dropped = jr_pg_int(result, 0, C_DROPPED, 0);
	bool running = strcmp(PQgetvalue(result, 0, C_STATUS), "running") == 0;

	if (output != NULL)
		jr_print_output(stdout, output);
	fflush(stdout);
	if (dropped > 0)
		fprintf(stderr, "jobrun: %" PRId64 " byte%s in the middle %s not kept\n", dropped,
		    jr_text_plural(dropped), dropped == 1 ? "was" : "were");
	if (!jr_print_is_terminal(stderr))
		return;
	if (running)
		fprintf(stderr, "run %" PRId64 " is running; 'jobrun logs -f %" PRId64 "' shows what comes\n", id, id);
	else if (output == NULL)
		fprintf(stderr, "run %" PRId64 " has no output\n", id);
}

/* A plain success leaves no row of its attempt, so there is nothing to show. A number too high is an error. */
static bool
check_attempt(const PGresult *result, int64_t id, int64_t attempt, struct jr_err *err)
{
	if (PQntuples(result) == 0)
		return fail_no_run(id, err);
	if (attempt > jr_pg_int(result, 0, C_ATTEMPTS, 0) && jr_pg_text(result, 0, C_ATTEMPT) == NULL)
		return jr_fail(err, JR_E_NEWS,
		    "run %" PRId64 " has no attempt %" PRId64 "; 'jobrun show %" PRId64 "' lists them", id, attempt,
		    id);
	return true;
}

static bool
logs(const struct jr_app *app, int64_t id, int64_t attempt, struct jr_err *err)
{
	char id_text[24], attempt_text[24];
	const char *values[] = {jr_print_int(id_text, id), attempt == 0 ? NULL : jr_print_int(attempt_text, attempt)};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;
	bool ok;

	if (db != NULL)
		result = jr_db_query(db, jr_sql_logs, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	ok = result != NULL && check_attempt(result, id, attempt, err);
	if (ok)
		jr_pager_open(!app->no_pager);
	if (ok && app->json)
		jr_print_document(PQgetvalue(result, 0, C_DOC));
	else if (ok)
		print_logs(result, id);
	PQclear(result);
	return ok;
}

/* ---------------------------------------------------------------------------------------------- one after another */

/* clang-format off */
enum follow_column { F_STATUS, F_LAST_CLAIM, F_MAX_ATTEMPTS, F_DUE_IN, F_ERROR, F_PROGRESS, F_CLAIM, F_ATTEMPT,
	F_OUTPUT, F_DROPPED, F_NEWER };
/* clang-format on */

/* State of --follow. */
struct follower {
	const struct jr_app *app;
	struct jr_db *db;
	int64_t id;
	int64_t claim;   /* the claim whose attempt is shown; -1: not known yet */
	bool showing;    /* an attempt has been shown */
	char *output;    /* the output of `claim` that was read last */
	int64_t dropped; /* bytes dropped from the middle of it */
	char *progress;  /* the progress that was printed last, or NULL */
	bool mid_line;
	bool said_waiting;
	struct jr_logs_pace pace;
};

static void
remember(char **place, const char *text)
{
	char *copy = jr_xstrdup_or_null(text);

	free(*place);
	*place = copy;
}

static void
print_part(struct follower *f, const char *text)
{
	if (*text == '\0')
		return;
	f->mid_line = text[strlen(text) - 1] != '\n';
	if (jr_print_is_terminal(stdout)) {
		char *visible = jr_text_visible(text, true);

		fputs(visible, stdout);
		free(visible);
	} else
		fputs(text, stdout);
	fflush(stdout);
}

/* Before another line is printed on the terminal, end the current one. In a file the output stays byte for byte. */
static void
end_line(struct follower *f)
{
	if (f->mid_line && jr_print_is_terminal(stdout)) {
		fputc('\n', stdout);
		fflush(stdout);
	}
	f->mid_line = false;
}

static void
show_attempt(struct follower *f, const PGresult *result, int row)
{
	int64_t claim = jr_pg_int(result, row, F_CLAIM, 0);
	int64_t dropped = jr_pg_int(result, row, F_DROPPED, 0);
	const char *output = jr_pg_text(result, row, F_OUTPUT), *part;
	bool gap;

	if (claim != f->claim) {
		end_line(f);
		if (f->showing)
			fprintf(stderr, "-- attempt %s of %s\n", PQgetvalue(result, row, F_ATTEMPT),
			    PQgetvalue(result, row, F_MAX_ATTEMPTS));
		remember(&f->output, "");
		f->dropped = 0;
		jr_logs_pace_again(&f->pace);
	}
	f->claim = claim;
	f->showing = true;
	if (output == NULL)
		return;
	part = jr_logs_follow_new(f->output, output, dropped - f->dropped, &gap);
	if (gap) {
		end_line(f);
		fputs("-- more was printed than was kept; from the beginning:\n", stderr);
	}
	print_part(f, part);
	remember(&f->output, output);
	f->dropped = dropped;
}

static void
show_progress(struct follower *f, const PGresult *result)
{
	const char *progress = jr_pg_text(result, 0, F_PROGRESS);

	if (!jr_print_is_terminal(stderr) || progress == NULL ||
	    (f->progress != NULL && strcmp(f->progress, progress) == 0))
		return;
	end_line(f);
	jr_print_line(stderr, "-- progress: ", progress);
	remember(&f->progress, progress);
}

static void
show_waiting(struct follower *f, const PGresult *result)
{
	bool waits = jr_pg_text(result, 0, F_DUE_IN) != NULL;
	char *age;

	if (waits && !f->said_waiting && jr_print_is_terminal(stderr)) {
		age = jr_format_age(-jr_pg_int(result, 0, F_DUE_IN, 0));
		end_line(f);
		fprintf(stderr, "-- run %" PRId64 " waits, due %s\n", f->id, age);
		free(age);
	}
	f->said_waiting = waits;
}

static void
say_pace(void *ctx)
{
	end_line(ctx);
}

/* After what was known of a running attempt has been shown. */
static void
mark(struct follower *f, const PGresult *result)
{
	if (strcmp(PQgetvalue(result, 0, F_STATUS), "running") == 0)
		jr_logs_pace_mark(&f->pace, f->db, f->id, say_pace, f);
}

/* Is the run over? Then the same result has the end of its output. */
static bool
is_final(const PGresult *result)
{
	static const char *const finals[] = {"succeeded", "dead", "cancelled"};

	for (size_t i = 0; i < JR_COUNT(finals); i++) {
		if (strcmp(PQgetvalue(result, 0, F_STATUS), finals[i]) == 0)
			return true;
	}
	return false;
}

/* The archive is asked only for a run that is not among the others: it takes longer to plan than to read both. */
static PGresult *
ask(struct follower *f, struct jr_err *err)
{
	char id[24], claim[24];
	const char *values[] = {jr_print_int(id, f->id), f->claim < 0 ? NULL : jr_print_int(claim, f->claim)};
	PGresult *result;

	if (f->db == NULL)
		f->db = jr_cmd_connect(f->app, err);
	if (f->db == NULL)
		return NULL;
	result = jr_db_query(f->db, jr_sql_logs_follow, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
	if (result == NULL || PQntuples(result) > 0)
		return result;
	PQclear(result);
	return jr_db_query(f->db, jr_sql_logs_follow_archived, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, err);
}

/* Try again for up to OUTAGE_MS when the database cannot be reached. *err is not touched on success. */
static PGresult *
ask_patiently(struct follower *f, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), OUTAGE_MS);
	struct jr_err last;
	PGresult *result = ask(f, &last);

	while (result == NULL) {
		jr_db_close(f->db);
		f->db = NULL;
		if (last.code != JR_E_TEMP || jr_clock_now_ms() >= until) {
			*err = last;
			return NULL;
		}
		poll(NULL, 0, POLL_MS);
		result = ask(f, &last);
	}
	return result;
}

/* 0 if the run has succeeded; else 1 and a message. */
static int
tell_end(struct follower *f, const PGresult *result, struct jr_err *err)
{
	const char *status = PQgetvalue(result, 0, F_STATUS);
	const char *error = jr_pg_text(result, 0, F_ERROR);

	end_line(f);
	if (strcmp(status, "succeeded") == 0)
		return 0;
	jr_fail(err, JR_E_NEWS, "run %" PRId64 " is %s%s%s", f->id, status, error == NULL ? "" : ": ",
	    error == NULL ? "" : error);
	return JR_E_NEWS;
}

/* A newer run has superseded it: show that one from now on. */
static void
go_on_with(struct follower *f, int64_t newer)
{
	end_line(f);
	fprintf(stderr, "-- run %" PRId64 " was superseded by run %" PRId64 "\n", f->id, newer);
	f->id = newer;
	f->claim = -1;
	f->showing = f->said_waiting = false;
	jr_logs_pace_again(&f->pace);
	remember(&f->output, "");
	remember(&f->progress, NULL);
	f->dropped = 0;
}

/* Show one result. true while there is more to come. */
static bool
show_answer(struct follower *f, const PGresult *result, int *status, struct jr_err *err)
{
	if (PQntuples(result) == 0) {
		fail_no_run(f->id, err);
		*status = JR_E_NEWS;
		return false;
	}
	if (f->claim < 0 && jr_pg_text(result, 0, F_CLAIM) == NULL)
		f->claim = jr_pg_int(result, 0, F_LAST_CLAIM, 0);
	for (int row = 0; row < PQntuples(result); row++) {
		if (jr_pg_text(result, row, F_CLAIM) != NULL)
			show_attempt(f, result, row);
	}
	show_progress(f, result);
	show_waiting(f, result);
	mark(f, result);
	if (jr_pg_text(result, 0, F_NEWER) != NULL)
		go_on_with(f, jr_pg_int(result, 0, F_NEWER, 0));
	else if (is_final(result)) {
		*status = tell_end(f, result, err);
		return false;
	}
	return !ferror(stdout);
}

/* Wait until the next poll. false at once when stdout has no reader any more. */
static bool
wait_a_moment(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = 0};

	return poll(&out, 1, POLL_MS) <= 0;
}

static int
follow(const struct jr_app *app, int64_t id, struct jr_err *err)
{
	struct follower f = {.app = app, .db = jr_cmd_connect(app, err), .id = id, .claim = -1};
	int status = 0;
	bool more = true;

	if (f.db == NULL)
		return (int)err->code;
	f.output = jr_xstrdup("");
	while (more) {
		PGresult *result = ask_patiently(&f, err);

		if (result == NULL) {
			status = (int)err->code;
			break;
		}
		more = show_answer(&f, result, &status, err) && wait_a_moment();
		PQclear(result);
	}
	jr_db_close(f.db);
	free(f.output);
	free(f.progress);
	jr_logs_pace_release(&f.pace);
	return status;
}

static bool
check_options(const struct jr_app *app, const struct logs_opts *opts, struct jr_err *err)
{
	if (opts->follow && opts->attempt != 0)
		return jr_fail(err, JR_E_USAGE, "--follow goes from attempt to attempt, and --attempt names one");
	if (opts->follow && app->json)
		return jr_fail(err, JR_E_USAGE, "--json and --follow exclude each other: a document needs an end");
	return true;
}

static int
logs_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct logs_opts *opts = values;
	int64_t id;

	(void)argc;
	if (!check_options(app, opts, err) || !jr_parse_int("ID", argv[0], 1, INT64_MAX, &id, err))
		return (int)err->code;
	if (opts->follow)
		return follow(app, id, err);
	return logs(app, id, opts->attempt, err) ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_logs = {
    .name = "logs",
    .group = JR_GROUP_EVERYDAY,
    .summary = "print what a run printed",
    .usage = "[OPTION...] ID",
    .details = "For a running run: what it had printed at its last heartbeat. Several attempts may have the same\n"
	       "number: \"later\", an interruption and 'jobrun retry' use a number again.\n"
	       "While --follow looks, the runner sends output each second, from its next heartbeat on.\n"
	       "With --follow the exit status is 0 if the run has succeeded, else 1. If a newer run of its unique key\n"
	       "has superseded the run, --follow goes on with the newer one.\n",
    .options = logs_options,
    .defaults = &logs_defaults,
    .size = sizeof(logs_defaults),
    .min_args = 1,
    .max_args = 1,
    .kind = "run",
    .run = logs_run,
};
