/*
 * pause_wait: see pause_wait.h.
 *
 * A claim that was on its way when the pause was committed may still start runs, until its runner gives up on it. So
 * nothing runs only if two looks say so that lie further apart than a runner waits for an answer.
 */
#include "pause_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lease.h"
#include "base/mem.h"
#include "base/parse.h"
#include "print.h"
#include "sql_text.h"
#include "waits.h"

#define LOOK_MS 1000
#define TELL_MS 30000 /* how often what is left is told again */
#define INTERRUPTED 130

/* Columns of pause_running.sql. */
enum {
	R_ID,
	R_TYPE,
	R_HOST,
	R_STARTED,
	R_AGE,
	R_HELD,
	R_COUNT
};

struct waiting {
	const struct jr_app *app;
	struct jr_db *db;
	struct jr_pauses_values named;
	bool terminal;
	int64_t until_ms, timeout_ms;
	int64_t apart_ms; /* between the two looks */
	int64_t idle_ms;  /* since when nothing has run; -1: something runs */
	int64_t told_ms;
	PGresult *rows; /* of the last look, or NULL */
};

static void
on_interrupt(int signo)
{
	static const char words[] = "\njobrun: the wait has ended, the pause has not; 'jobrun resume' with the same "
				    "--all, --host, --type, --queue or --definition ends it\n";

	(void)signo;
	if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(INTERRUPTED);
	_exit(INTERRUPTED);
}

/* Not if our caller ignores it (nohup). */
static void
catch_interrupt(void)
{
	struct sigaction action;

	if (sigaction(SIGINT, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
		return;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_interrupt;
	(void)sigaction(SIGINT, &action, NULL);
}

static int64_t
rest_ms(const struct waiting *w)
{
	int64_t rest = w->until_ms - jr_clock_now_ms();

	return rest < 0 ? 0 : rest;
}

static PGresult *
ask_once(struct waiting *w, struct jr_err *err)
{
	const struct jr_db_waits waits = jr_waits_of(w->app);
	int64_t patience = rest_ms(w) < JR_CMD_PATIENCE_MS ? rest_ms(w) : JR_CMD_PATIENCE_MS;

	if (w->db == NULL || !jr_db_is_open(w->db)) {
		jr_db_close(w->db);
		w->db = jr_db_open(jr_db_conninfo(w->app->dbname, NULL), patience, &waits, err);
	}
	if (w->db == NULL)
		return NULL;
	jr_db_needs_grant(w->db, w->app->kind);
	return jr_db_query(w->db, jr_sql_pause_running, JR_PAUSES_VALUES, w->named.values, JR_CMD_TIMEOUT_MS, err);
}

/* While the database cannot be reached, try again until the time is over. */
static PGresult *
ask(struct waiting *w, struct jr_err *err)
{
	struct jr_err last;
	PGresult *rows = ask_once(w, &last);

	while (rows == NULL && last.code == JR_E_TEMP && rest_ms(w) > 0) {
		poll(NULL, 0, (int)(rest_ms(w) < LOOK_MS ? rest_ms(w) : LOOK_MS));
		rows = ask_once(w, &last);
	}
	if (rows == NULL)
		*err = last;
	return rows;
}

static int64_t
held_count(const PGresult *rows)
{
	return PQntuples(rows) == 0 ? 0 : jr_pg_int(rows, 0, R_COUNT, 0);
}

static bool
has_run(const PGresult *rows, const char *id)
{
	for (int row = 0; rows != NULL && row < PQntuples(rows); row++) {
		if (jr_pg_bool(rows, row, R_HELD) && strcmp(PQgetvalue(rows, row, R_ID), id) == 0)
			return true;
	}
	return false;
}

static void
tell(const PGresult *rows, int row, const char *rest)
{
	char *line = jr_xasprintf("run %s (%s) on %s%s", PQgetvalue(rows, row, R_ID), PQgetvalue(rows, row, R_TYPE),
	    PQgetvalue(rows, row, R_HOST), rest);

	jr_print_line(stderr, "", line);
	free(line);
}

/* "run 17 (work) on db1 runs since 14:35:00+01:00 (3m ago)" */
static void
tell_running(const PGresult *rows, int row)
{
	char *at = jr_format_local_time(jr_pg_int(rows, row, R_STARTED, 0));
	char *age = jr_format_age(jr_pg_int(rows, row, R_AGE, 0));
	char *rest = jr_xasprintf(" runs since %s (%s)", at, age);

	tell(rows, row, rest);
	free(at);
	free(age);
	free(rest);
}

/* What has ended, what is new, and now and then all. */
static void
tell_changes(struct waiting *w, const PGresult *rows)
{
	bool all = jr_clock_now_ms() - w->told_ms >= TELL_MS;

	for (int row = 0; w->rows != NULL && row < PQntuples(w->rows); row++) {
		if (jr_pg_bool(w->rows, row, R_HELD) && !has_run(rows, PQgetvalue(w->rows, row, R_ID)))
			tell(w->rows, row, " is over");
	}
	for (int row = 0; row < PQntuples(rows); row++) {
		if (jr_pg_bool(rows, row, R_HELD) && (all || !has_run(w->rows, PQgetvalue(rows, row, R_ID))))
			tell_running(rows, row);
	}
	if (w->rows == NULL || all) {
		if (held_count(rows) > PQntuples(rows))
			fprintf(stderr, "... and %" PRId64 " more\n", held_count(rows) - PQntuples(rows));
		w->told_ms = jr_clock_now_ms();
	}
}

/* One look. */
static bool
look(struct waiting *w, struct jr_err *err)
{
	PGresult *rows = ask(w, err);

	if (rows == NULL)
		return false;
	if (w->terminal)
		tell_changes(w, rows);
	PQclear(w->rows);
	w->rows = rows;
	if (held_count(rows) > 0)
		w->idle_ms = -1;
	else if (w->idle_ms < 0)
		w->idle_ms = jr_clock_now_ms();
	return true;
}

static bool
is_done(const struct waiting *w)
{
	return w->idle_ms >= 0 && jr_clock_now_ms() - w->idle_ms > w->apart_ms;
}

static bool
wait_until_done(struct waiting *w, struct jr_err *err)
{
	bool ok = look(w, err);

	while (ok && !is_done(w) && rest_ms(w) > 0) {
		int64_t nap = w->idle_ms < 0 ? LOOK_MS : w->idle_ms + w->apart_ms + 1 - jr_clock_now_ms();

		poll(NULL, 0, (int)(nap < 0 ? 0 : nap < rest_ms(w) ? nap : rest_ms(w)));
		ok = look(w, err);
	}
	return ok;
}

static bool
fail_late(const struct waiting *w, struct jr_err *err)
{
	char *time = jr_format_duration(w->timeout_ms);
	int64_t count = held_count(w->rows);

	if (count == 0)
		jr_fail(err, JR_E_TEMP,
		    "nothing runs, but a claim may still be on its way: wait for more than %s; the pause stays", time);
	else
		jr_fail(err, JR_E_TEMP, "%" PRId64 " %s not over after %s; one is run %s (%s) on %s; the pause stays",
		    count, count == 1 ? "run is" : "runs are", time, PQgetvalue(w->rows, 0, R_ID),
		    PQgetvalue(w->rows, 0, R_TYPE), PQgetvalue(w->rows, 0, R_HOST));
	free(time);
	return false;
}

/* Its runner has stopped it before that, or is dead. */
static void
tell_lost(const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		tell(rows, row, ": its lease has ended, so nobody works on it; a tick takes it back");
}

int
jr_pause_wait(const struct jr_app *app, const struct jr_pauses *what, int64_t timeout_ms, struct jr_err *err)
{
	struct waiting w = {.app = app,
	    .terminal = jr_print_is_terminal(stderr),
	    .timeout_ms = timeout_ms,
	    .until_ms = jr_clock_after(jr_clock_now_ms(), timeout_ms),
	    .idle_ms = -1};
	struct jr_lease lease;
	bool ok = jr_lease_init(&lease, -1, -1, err);

	w.apart_ms = lease.deadline_ms;
	w.told_ms = jr_clock_now_ms();
	jr_pauses_values_init(&w.named, what);
	catch_interrupt();
	ok = ok && wait_until_done(&w, err) && (is_done(&w) || fail_late(&w, err));
	if (ok)
		tell_lost(w.rows);
	if (ok && w.terminal)
		fputs("nothing runs\n", stderr);
	PQclear(w.rows);
	jr_db_close(w.db);
	jr_pauses_values_release(&w.named);
	return ok ? 0 : (int)err->code;
}
