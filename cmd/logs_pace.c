/*
 * logs_pace: see logs_pace.h.
 *
 * A runner learns that a run is followed with its next heartbeat, which moves the end of the lease. So from then on the
 * output comes each second.
 */
#include "logs_pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "print.h"
#include "sql_text.h"

#define MARK_MS 3000 /* less than a mark lasts, by far */
#define QUICK_MS 1000

enum column {
	C_FOLLOWED,
	C_HEARTBEAT,
	C_LOCKED_UNTIL
};

void
jr_logs_pace_again(struct jr_logs_pace *pace)
{
	free(pace->locked_until);
	pace->locked_until = NULL;
	pace->mark_ms = 0;
	if (pace->said_quick)
		pace->said_slow = false; /* it comes slowly again at first */
	pace->said_quick = false;
}

void
jr_logs_pace_release(struct jr_logs_pace *pace)
{
	free(pace->locked_until);
	pace->locked_until = NULL;
}

/* How often it comes until the runner knows. heartbeat_ms 0: an older program, which does not ask. */
static void
say_slow(int64_t heartbeat_ms)
{
	char *every;

	if (heartbeat_ms == 0) {
		fputs("-- output comes with the heartbeats of the runner\n", stderr);
		return;
	}
	every = jr_format_duration(heartbeat_ms);
	fprintf(stderr, "-- output comes every %s\n", every);
	free(every);
}

static void
take(struct jr_logs_pace *pace, const PGresult *result, void (*say)(void *ctx), void *ctx)
{
	int64_t heartbeat_ms = jr_pg_int(result, 0, C_HEARTBEAT, 0);
	const char *until = jr_pg_text(result, 0, C_LOCKED_UNTIL);
	bool tells = jr_print_is_terminal(stderr);

	if (!jr_pg_bool(result, 0, C_FOLLOWED) || until == NULL)
		return;
	if (tells && !pace->said_slow) {
		say(ctx);
		say_slow(heartbeat_ms);
	}
	pace->said_slow = true;
	if (pace->locked_until == NULL) {
		pace->locked_until = jr_xstrdup(until);
	} else if (heartbeat_ms > QUICK_MS && !pace->said_quick && strcmp(until, pace->locked_until) != 0) {
		if (tells) {
			say(ctx);
			fputs("-- output comes each second from now on\n", stderr);
		}
		pace->said_quick = true;
	}
}

/* A lost connection is not said: the next look finds out, and the next mark comes over the next connection. */
static void
take_error(struct jr_logs_pace *pace, const struct jr_err *err, void (*say)(void *ctx), void *ctx)
{
	if (err->code == JR_E_TEMP)
		return;
	pace->refused = true;
	say(ctx);
	fprintf(stderr, "jobrun: output comes only with the heartbeats of the runner: %s\n", err->msg);
}

void
jr_logs_pace_mark(struct jr_logs_pace *pace, struct jr_db *db, int64_t id, void (*say)(void *ctx), void *ctx)
{
	int64_t now = jr_clock_now_ms();
	char text[24];
	const char *values[] = {jr_print_int(text, id)};
	struct jr_err err;
	PGresult *result;

	if (pace->refused || now < pace->mark_ms)
		return;
	pace->mark_ms = jr_clock_after(now, MARK_MS);
	result = jr_db_query(db, jr_sql_follow, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, &err);
	if (result == NULL)
		take_error(pace, &err, say, ctx);
	else if (PQntuples(result) == 1)
		take(pace, result, say, ctx);
	PQclear(result);
}
