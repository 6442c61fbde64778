/*
 * slots: did it run, and if not, why? The next slot of a definition, and the outcome of each slot before.
 *
 * Rows are printed as fire() has recorded them: many slots that were missed together are one row with their number and
 * the last slot. The current status of a run is read from the run.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "pager.h"
#include "print.h"
#include "slots_replay.h"
#include "sql_text.h"

#define NEWEST 20      /* the default limit */
#define MOST 100000    /* the default limit with --since */
#define LATE_MS 120000 /* a slot that was not fired for so long has been missed by two ticks */

struct slots_opts {
	const char *replay, *reason;
	int64_t since_ms, limit;
	bool dry_run;
};

static const struct slots_opts slots_defaults = {.since_ms = -1};

#define AT(field) offsetof(struct slots_opts, field)

/* clang-format off */
static const struct jr_option slots_options[] = {
	{ .name = "since", .arg = "D", .help = "only slots of the last D: 7d, 12h (all)", .type = JR_OPT_DURATION,
	    .offset = AT(since_ms) },
	{ .name = "limit", .arg = "N", .help = "at most N (20; with --since all)", .type = JR_OPT_INT, .offset = AT(limit),
	    .min = 1, .max = MOST },
	{ .name = "replay", .arg = "TIME", .help = "queue a run for the slot of TIME; prints its id", .type = JR_OPT_STRING,
	    .offset = AT(replay) },
	{ .name = "reason", .arg = "TEXT", .help = "with --replay: why, for the record", .type = JR_OPT_STRING,
	    .offset = AT(reason) },
	{ .name = "dry-run", .letter = 'n', .help = "with --replay: check everything, queue nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "SLOT", JR_CELL_WHOLE },
	{ "UNTIL", JR_CELL_WHOLE },
	{ "SLOTS", JR_CELL_NUMBER },
	{ "OUTCOME", JR_CELL_TEXT },
	{ "RUN", JR_CELL_NUMBER },
	{ "STATUS", JR_CELL_STATE },
	{ "REASON", JR_CELL_CUT },
};

/* Columns of slots.sql. */
enum { S_UNTIL = 1, S_SLOTS, S_DOC = 7, S_OLDER };

/* Columns of slots_head.sql. */
enum { H_NAME, H_SCHEDULE, H_ZONE, H_NEXT, H_AGE, H_ENABLED, H_PAUSED, H_REASON, H_DOC, H_TICKED };
/* clang-format on */

/* "disabled; ", "paused until 14:35:00+01:00: the disk is full; " or "". Caller frees. */
static char *
state_text(const PGresult *head)
{
	int64_t until = jr_pg_int(head, 0, H_PAUSED, -1);
	const char *reason = jr_pg_text(head, 0, H_REASON);
	char *at, *text;

	if (!jr_pg_bool(head, 0, H_ENABLED))
		return jr_xasprintf(
		    "disabled (jobrun define %s --enable), its slots are skipped; ", PQgetvalue(head, 0, H_NAME));
	if (until < 0)
		return jr_xstrdup("");
	at = until == 0 ? jr_xstrdup("resumed") : jr_format_local_time(until);
	text = jr_xasprintf("paused until %s%s%s, its slots are skipped; ", at, reason == NULL ? "" : ": ",
	    reason == NULL ? "" : reason);
	free(at);
	return text;
}

/* What to do if the next slot is long past. */
static const char *
late_text(const PGresult *head)
{
	if (jr_pg_int(head, 0, H_AGE, 0) < LATE_MS)
		return "";
	if (jr_pg_bool(head, 0, H_TICKED))
		return ": the ticks since then could not fire it; jobrun --once says why";
	return ": no tick has come since; is the crontab line in place? try: jobrun --once -v";
}

/* "next 2026-11-22 02:30+01:00 (in 11h 5m)". Caller frees. */
static char *
next_text(const PGresult *head)
{
	const char *next = jr_pg_text(head, 0, H_NEXT);
	char *age, *text;

	if (next == NULL || PQgetisnull(head, 0, H_AGE))
		return jr_xstrdup("there is no next slot");
	age = jr_format_age(jr_pg_int(head, 0, H_AGE, 0));
	text = jr_xasprintf("next %s (%s)%s", next, age, late_text(head));
	free(age);
	return text;
}

static void
print_head(const PGresult *head)
{
	const char *name = PQgetvalue(head, 0, H_NAME);
	const char *schedule = jr_pg_text(head, 0, H_SCHEDULE);
	char *state = state_text(head), *next = next_text(head), *line;

	if (schedule == NULL)
		line = jr_xasprintf("%s has no schedule", name);
	else
		line = jr_xasprintf("%s, %s, %s: %s%s", name, schedule, PQgetvalue(head, 0, H_ZONE), state, next);
	jr_print_paragraph(line, 0);
	free(line);
	free(next);
	free(state);
}

static void
print_slots(const PGresult *slots)
{
	bool older = PQntuples(slots) > 0 && jr_pg_bool(slots, 0, S_OLDER);

	if (PQntuples(slots) > 0)
		jr_print_table(slots, columns, JR_COUNT(columns));
	if (older)
		puts("older ones: --limit N, --since D");
}

static void
print_all(const struct jr_app *app, const struct slots_opts *opts, PGresult *const *parts)
{
	char *since;

	if (app->json) {
		jr_print_document_begin(PQgetvalue(parts[0], 0, H_DOC));
		printf(",\"older\":%s", PQntuples(parts[1]) > 0 && jr_pg_bool(parts[1], 0, S_OLDER) ? "true" : "false");
		jr_print_document_list("slots", parts[1], S_DOC);
		jr_print_document_end();
		return;
	}
	print_head(parts[0]);
	print_slots(parts[1]);
	if (PQntuples(parts[1]) > 0 || PQgetisnull(parts[0], 0, H_SCHEDULE))
		return;
	since = opts->since_ms < 0 ? NULL : jr_format_duration(opts->since_ms);
	if (since == NULL)
		puts("no slot yet");
	else
		printf("no slot within %s\n", since);
	free(since);
}

static int
show(const struct jr_app *app, const struct slots_opts *opts, const char *name, struct jr_err *err)
{
	char since[24], limit[24];
	const char *values[] = {name, NULL, NULL};
	const struct jr_statement statements[] = {
	    {jr_sql_slots_head, 1, values}, {jr_sql_slots, JR_COUNT(values), values}};
	PGresult *parts[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);
	int status = 0;

	if (opts->since_ms >= 0)
		values[1] = jr_print_int(since, opts->since_ms);
	values[2] = jr_print_int(limit, opts->limit > 0 ? opts->limit : opts->since_ms >= 0 ? MOST : NEWEST);
	if (db == NULL || !jr_db_run(db, statements, JR_COUNT(parts), parts, JR_CMD_TIMEOUT_MS, err))
		status = (int)err->code;
	else if (PQntuples(parts[0]) == 0)
		status = jr_slots_replay_unknown(name, err);
	jr_db_close(db);
	if (status == 0) {
		jr_pager_open(!app->no_pager);
		print_all(app, opts, parts);
	}
	for (size_t i = 0; i < JR_COUNT(parts); i++)
		PQclear(parts[i]);
	return status;
}

static bool
check(const struct slots_opts *opts, struct jr_err *err)
{
	if (opts->replay == NULL && (opts->reason != NULL || opts->dry_run))
		return jr_fail(err, JR_E_USAGE, "--%s goes with --replay TIME, which is missing",
		    opts->reason != NULL ? "reason" : "dry-run");
	if (opts->replay != NULL && (opts->since_ms >= 0 || opts->limit > 0))
		return jr_fail(err, JR_E_USAGE, "--replay is about one slot; --%s chooses which are shown",
		    opts->limit > 0 ? "limit" : "since");
	return true;
}

static int
slots_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct slots_opts *opts = values;
	const struct jr_slots_replay replay = {
	    .definition = argv[0], .at = opts->replay, .reason = opts->reason, .dry_run = opts->dry_run};

	(void)argc;
	if (!jr_parse_definition("NAME", argv[0], err) || !check(opts, err))
		return (int)err->code;
	return opts->replay == NULL ? show(app, opts, argv[0], err) : jr_slots_replay(app, &replay, err);
}

static bool
slots_changes(const void *values, int argc)
{
	(void)argc;
	return ((const struct slots_opts *)values)->replay != NULL;
}

const struct jr_cmd jr_cmd_slots = {
    .name = "slots",
    .group = JR_GROUP_SCHEDULE,
    .summary = "show what became of each slot of a definition, and why",
    .usage = "[OPTION...] NAME | [OPTION...] --replay TIME NAME",
    .details = "Prints the next slot, then what became of each slot, newest first, in the zone of the definition.\n"
	       "Many slots that were missed together are one line: the first, the last, how many.\n"
	       "Starts of 'jobrun exec NAME' that were skipped are listed, too, with seconds in their time.\n"
	       "TIME is a slot as printed here, or a time as for 'jobrun enqueue --at'; without an offset it is in\n"
	       "the zone of the definition.\n",
    .options = slots_options,
    .defaults = &slots_defaults,
    .size = sizeof(slots_defaults),
    .min_args = 1,
    .max_args = 1,
    .kind = "read",
    .needs_admin = slots_changes,
    .run = slots_run,
};
