/*
 * status_watch: see status_watch.h.
 */
#include "status_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "print.h"
#include "screen.h"
#include "status.h"

#define ANSWER_MS 5000 /* keys and signals wait for an answer */

struct watch {
	const struct jr_app *app;
	const char *types;
	bool exact;
	int64_t every_ms;
	struct jr_db *db; /* NULL: the connection was lost */
	struct jr_status status;
	int64_t answered_ms; /* when the last answer came */
};

static void
print_top(const struct watch *watch)
{
	char *every = jr_format_duration(watch->every_ms);
	char *now = jr_format_local_time((int64_t)time(NULL) * 1000);

	printf("%s, every %s; q quits\n", now, every);
	free(every);
	free(now);
}

static void
print_away(const struct watch *watch, const struct jr_err *away)
{
	char *ago = jr_format_age(jr_clock_now_ms() - watch->answered_ms);
	char *line = jr_xasprintf("! no answer from the database, this is from %s: %s", ago, away->msg);

	jr_print_paragraph(line, 2);
	free(line);
	free(ago);
}

/* `away`: why there is no answer; NULL: there is. */
static bool
show(const struct watch *watch, const struct jr_err *away)
{
	print_top(watch);
	if (away != NULL)
		print_away(watch, away);
	jr_status_print(&watch->status);
	jr_status_print_running(&watch->status);
	return jr_screen_show();
}

static bool
ask(struct watch *watch, struct jr_err *err)
{
	if (watch->db == NULL)
		watch->db = jr_db_open(jr_db_conninfo(watch->app->dbname, NULL), 0, NULL, err);
	if (watch->db != NULL)
		jr_db_needs_grant(watch->db, watch->app->kind);
	if (watch->db == NULL ||
	    !jr_status_ask(&watch->status, watch->db, watch->types, watch->exact, true, ANSWER_MS, err))
		return false;
	watch->answered_ms = jr_clock_now_ms();
	return true;
}

static void
forget_connection(struct watch *watch)
{
	jr_db_close(watch->db);
	watch->db = NULL;
}

/* false: the database has refused. */
static bool
watch_on(struct watch *watch, struct jr_err *err)
{
	for (bool first = true;; first = false) {
		struct jr_err away;
		bool ok = first || ask(watch, &away);

		if (!ok && away.code != JR_E_TEMP) {
			*err = away;
			return false;
		}
		if (!ok)
			forget_connection(watch);
		if (!show(watch, ok ? NULL : &away) || jr_screen_wait(watch->every_ms) == JR_SCREEN_QUIT)
			return true;
	}
}

bool
jr_status_watch(const struct jr_app *app, const char *types, bool exact, int64_t every_ms, struct jr_err *err)
{
	struct watch watch = {.app = app, .types = types, .exact = exact, .every_ms = every_ms};
	bool ok;

	watch.db = jr_cmd_connect(app, err);
	ok = watch.db != NULL && ask(&watch, err) && jr_screen_open(err);
	if (ok) {
		ok = watch_on(&watch, err);
		jr_screen_close();
	}
	jr_status_release(&watch.status);
	jr_db_close(watch.db);
	return ok;
}
