/*
 * enqueue: queue a run and print its id, or with --wait its result; or with --batch many runs.
 *
 * The statement's result is read before COMMIT is sent. If the answer to COMMIT is lost, change.h finds out whether it
 * was committed, and runs the statement again only if it was not. So the result is always right: a run that this
 * command created is never reported as one that was there before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "change.h"
#include "commands.h"
#include "enqueue_batch.h"
#include "enqueue_request.h"
#include "explanation.h"
#include "known.h"
#include "payload.h"
#include "print.h"
#include "sql_text.h"
#include "wait_runs.h"
#include "written.h"

static const struct jr_enqueue_opts enqueue_defaults = {.priority = JR_UNSET,
    .max_attempts = JR_UNSET,
    .in_ms = JR_UNSET,
    .expires_ms = JR_UNSET,
    .timeout_ms = JR_UNSET,
    .wait_ms = JR_UNSET};

#define AT(field) offsetof(struct jr_enqueue_opts, field)

/* clang-format off */
static const struct jr_option enqueue_options[] = {
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "queue (default)", .type = JR_OPT_STRING, .offset = AT(queue),
	    .check = jr_parse_queue },
	{ .name = "priority", .letter = 'p', .arg = "N", .help = "smaller first, -1000 to 1000 (100)", .type = JR_OPT_INT,
	    .offset = AT(priority), .min = -1000, .max = 1000 },
	{ .name = "in", .arg = "D", .help = "not before D has passed: 90s, 10m, 2h, 1d", .type = JR_OPT_DURATION,
	    .offset = AT(in_ms) },
	{ .name = "at", .arg = "TIME", .help = "not before: '2026-12-24 18:00', 'tomorrow 02:30 Europe/Berlin'",
	    .type = JR_OPT_STRING, .offset = AT(at) },
	{ .name = "time-zone", .arg = "ZONE", .help = "time zone of --at (that of this host)",
	    .type = JR_OPT_STRING, .offset = AT(time_zone) },
	{ .name = "expires", .arg = "D", .help = "give up if it has not started within D after its time", .type = JR_OPT_DURATION,
	    .offset = AT(expires_ms), .min = 1 },
	{ .name = "max-attempts", .arg = "N", .help = "attempts before it is dead (5)", .type = JR_OPT_INT,
	    .offset = AT(max_attempts), .min = 1, .max = INT32_MAX },
	{ .name = "timeout", .arg = "D", .help = "time for one attempt; 0: no limit", .type = JR_OPT_DURATION,
	    .offset = AT(timeout_ms) },
	{ .name = "backoff", .arg = "BASE[,CAP]", .help = "pause before the second attempt, doubled up to CAP (10s,1h)",
	    .type = JR_OPT_STRING, .offset = AT(backoff) },
	{ .name = "idempotency-key", .letter = 'k', .arg = "KEY", .help = "if a run of this type with this key exists, queue nothing and print its id",
	    .type = JR_OPT_STRING, .offset = AT(key), .check = jr_parse_key },
	{ .name = "unique", .arg = "KEY", .help = "if a run of this type with this key waits, queue nothing and print its id", .type = JR_OPT_STRING,
	    .offset = AT(unique), .check = jr_parse_key },
	{ .name = "replace", .help = "with --unique: give that run this payload, priority and time", .type = JR_OPT_FLAG,
	    .offset = AT(replace) },
	{ .name = "unless-running", .help = "with --unique: a run that is running counts, too", .type = JR_OPT_FLAG,
	    .offset = AT(unless_running) },
	{ .name = "strict", .help = "exit status 1 if the run was there already, by either key", .type = JR_OPT_FLAG,
	    .offset = AT(strict) },
	{ .name = "lock", .arg = "KEY", .help = "lock key: one run with this key in its queue at a time", .type = JR_OPT_STRING,
	    .offset = AT(lock), .check = jr_parse_key },
	{ .name = "definition", .arg = "NAME", .help = "instead of TYPE: a run of definition NAME, with all its values",
	    .type = JR_OPT_STRING, .offset = AT(definition) },
	{ .name = "batch", .arg = "FILE", .help = "a run for each line of FILE (- is stdin), its payload; all or none",
	    .type = JR_OPT_STRING, .offset = AT(batch), .not_empty = true },
	{ .name = "per-run", .help = "with --batch: a line is {\"payload\": ..., \"run_in\": \"5m\", ...}", .type = JR_OPT_FLAG,
	    .offset = AT(per_run) },
	{ .name = "wait", .help = "wait until it is over, and print its result instead of its id", .type = JR_OPT_FLAG,
	    .offset = AT(wait) },
	{ .name = "wait-timeout", .arg = "D", .help = "with --wait: at most D (1h), then exit status 75",
	    .type = JR_OPT_DURATION, .offset = AT(wait_ms) },
	{ .name = "dry-run", .letter = 'n', .help = "check everything, queue nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* Columns of enqueue.sql and enqueue_definition.sql. */
enum sent_column {
	SENT_ID,
	SENT_CREATED,
	SENT_REPLACED,
	SENT_RUN_AT,
	SENT_AGE,
	SENT_STATUS,
	SENT_QUEUE,
	SENT_PRIORITY,
	SENT_DOCUMENT,
	SENT_TYPE,
	SENT_RUN /* its id, also of one that is rolled back */
};

static void
hint_time(const PGresult *result)
{
	char *at = jr_format_local_time(jr_pg_int(result, 0, SENT_RUN_AT, 0));
	char *age = jr_format_age(jr_pg_int(result, 0, SENT_AGE, 0));

	if (jr_pg_bool(result, 0, SENT_CREATED))
		fprintf(stderr, "queued for %s (%s)\n", at, age);
	else
		fprintf(stderr, "was there before: %s\n", PQgetvalue(result, 0, SENT_STATUS));
	free(at);
	free(age);
}

/* "now", or for a run that is to come "2026-12-24 18:00:00+01:00 (in 38d 20h)". Caller frees. */
static char *
due_text(const PGresult *result)
{
	int64_t age_ms = jr_pg_int(result, 0, SENT_AGE, 0);
	char *age = jr_format_age(age_ms), *at, *text;

	if (age_ms > -1000)
		return age;
	at = jr_format_local_time(jr_pg_int(result, 0, SENT_RUN_AT, 0));
	text = jr_xasprintf("%s (%s)", at, age);
	free(at);
	free(age);
	return text;
}

static void
tell_dry_run(const struct jr_enqueue_opts *opts, const PGresult *result)
{
	const char *type = PQgetvalue(result, 0, SENT_TYPE);
	const char *id = PQgetvalue(result, 0, SENT_ID);
	const char *status = PQgetvalue(result, 0, SENT_STATUS);
	const char *queue = PQgetvalue(result, 0, SENT_QUEUE);
	const char *priority = PQgetvalue(result, 0, SENT_PRIORITY);
	char *due = due_text(result);

	if (jr_pg_bool(result, 0, SENT_CREATED))
		printf("would queue %s: queue %s, priority %s, due %s\n", type, queue, priority, due);
	else if (jr_pg_bool(result, 0, SENT_REPLACED))
		printf("would replace run %s: queue %s, priority %s, due %s\n", id, queue, priority, due);
	else if (opts->unique != NULL)
		printf("would keep run %s, which is %s\n", id, status);
	else
		printf("would queue nothing: run %s has this key and is %s\n", id, status);
	free(due);
}

/* Hints on a terminal. */
static void
hint(const struct jr_enqueue_opts *opts, const PGresult *result)
{
	if (opts->dry_run || !jr_print_is_terminal(stderr))
		return;
	fflush(stdout);
	if (opts->wait)
		fprintf(stderr, "run %s\n", PQgetvalue(result, 0, SENT_ID));
	hint_time(result);
}

static void
tell(const struct jr_app *app, struct jr_db *db, const struct jr_enqueue_opts *opts, const PGresult *result)
{
	const char *notice = jr_db_notice(db);

	if (notice != NULL)
		jr_print_line(stderr, "jobrun: ", notice);
	if (opts->wait && !opts->dry_run)
		; /* its result is printed later */
	else if (app->json)
		jr_print_document(PQgetvalue(result, 0, SENT_DOCUMENT));
	else if (opts->dry_run)
		tell_dry_run(opts, result);
	else
		puts(PQgetvalue(result, 0, SENT_ID));
	hint(opts, result);
}

/* With --strict it is an error if the run was there already. */
static int
judge(const struct jr_enqueue_opts *opts, const PGresult *result, struct jr_err *err)
{
	if (!opts->strict || jr_pg_bool(result, 0, SENT_CREATED))
		return 0;
	jr_fail(err, JR_E_NEWS, "run %s was there already%s: it is %s", PQgetvalue(result, 0, SENT_ID),
	    jr_pg_bool(result, 0, SENT_REPLACED) ? " and got this payload" : "", PQgetvalue(result, 0, SENT_STATUS));
	return JR_E_NEWS;
}

static int
await(const struct jr_app *app, struct jr_db **db, const struct jr_enqueue_opts *opts, const PGresult *result,
    struct jr_err *err)
{
	const int64_t id = jr_pg_int(result, 0, SENT_ID, 0);
	const struct jr_wait_runs wait = {.ids = &id,
	    .count = 1,
	    .timeout_ms = opts->wait_ms == JR_UNSET ? JR_WAIT_RUNS_MS : opts->wait_ms,
	    .alone = true};

	return jr_wait_runs(app, db, &wait, err);
}

/* enqueue, and with it the question whether the job type is known. It points into itself. */
struct statements {
	const char *of_definition[9], *asked[2];
	struct jr_statement items[2];
};

static void
fill(struct statements *sent, const struct jr_enqueue_request *request)
{
	const char *const *v = request->values;
	const char *type = v[JR_REQUEST_TYPE];

	*sent = (struct statements){
	    .of_definition = {type, v[JR_REQUEST_PAYLOAD], v[JR_REQUEST_IN], v[JR_REQUEST_AT], v[JR_REQUEST_KEY],
		v[JR_REQUEST_PARENT], v[JR_REQUEST_TRACE], v[JR_REQUEST_KEY_IS_RANDOM], v[JR_REQUEST_DRY_RUN]},
	    .asked = {request->is_definition ? NULL : type, request->is_definition ? type : NULL}};
	if (request->is_definition)
		sent->items[0] = (struct jr_statement){
		    jr_sql_enqueue_definition, JR_COUNT(sent->of_definition), sent->of_definition};
	else
		sent->items[0] = (struct jr_statement){jr_sql_enqueue, JR_REQUEST_COUNT, v};
	sent->items[1] = (struct jr_statement){jr_sql_other_types, JR_COUNT(sent->asked), sent->asked};
}

/* The place of an error in the payload. Returns the exit status. */
static int
locate(const struct jr_enqueue_request *request, struct jr_err *err)
{
	if (err->code == JR_E_DATA && request->payload != NULL && jr_payload_locate(request->payload, err) &&
	    request->is_definition && jr_payload_is_name(request->payload))
		jr_fail(err, JR_E_DATA,
		    "with --definition the only argument is PAYLOAD, which is JSON, and \"%s\" is none; leave TYPE out",
		    request->payload);
	return (int)err->code;
}

/* Queue one run. results: as in struct statements. *db may become another connection, or NULL. */
static bool
send_request(const struct jr_app *app, struct jr_db **db, const struct jr_enqueue_request *request,
    PGresult *results[2], struct jr_err *err)
{
	char *perhaps = jr_xasprintf(
	    "the run may have been queued: safe to repeat with --idempotency-key %s", request->values[JR_REQUEST_KEY]);
	const struct jr_change change = {.app = app, .db = db, .undone = "nothing queued", .perhaps = perhaps};
	struct statements sent;
	bool ok;

	fill(&sent, request);
	ok = jr_change(&change, sent.items, JR_COUNT(sent.items), results, err);
	free(perhaps);
	return ok || locate(request, err) == 0;
}

/* What holds the run back, besides its time, the runs before it, and our own lock: the conditions of explain. */
static void
tell_held_back(const PGresult *rows)
{
	static const char *const others[] = {"handler", "due", "before", "runner", "lock"};

	for (int row = 1; row < PQntuples(rows); row++) {
		bool told = strcmp(PQgetvalue(rows, row, JR_EXPLAIN_STATE), "no") != 0;

		for (size_t i = 0; i < JR_COUNT(others); i++)
			told = told || strcmp(PQgetvalue(rows, row, JR_EXPLAIN_CONDITION), others[i]) == 0;
		if (!told)
			jr_explanation_print(rows, row);
	}
}

/* Enqueue, ask what would hold the run back, and roll back. A role that may not ask is not told. */
static int
rehearse(const struct jr_app *app, struct jr_db *db, const struct jr_enqueue_opts *opts,
    const struct jr_enqueue_request *request, struct jr_err *err)
{
	struct statements sent;
	const char *values[] = {NULL, NULL, NULL}; /* what this host has is said by jr_known_warn_type */
	const struct jr_statement explain = {jr_sql_explain, JR_COUNT(values), values};
	PGresult *results[2] = {NULL}, *rows = NULL;
	struct jr_err unused;
	int status;

	fill(&sent, request);
	if (!jr_db_begin(db, sent.items, JR_COUNT(sent.items), results, JR_CMD_TIMEOUT_MS, err))
		return locate(request, err);
	values[0] = PQgetvalue(results[0], 0, SENT_RUN);
	if (!jr_db_drop(db, &explain, 1, &rows, JR_CMD_TIMEOUT_MS, &unused))
		rows = NULL;
	tell(app, db, opts, results[0]);
	if (rows != NULL && !app->json)
		tell_held_back(rows);
	jr_known_warn_type(PQgetvalue(results[0], 0, SENT_TYPE), jr_pg_text(results[1], 0, 0), false);
	status = judge(opts, results[0], err);
	PQclear(rows);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return status;
}

/* Was the id, or the result, written? Who does not know that the run is there enqueues it again. */
static bool
was_told(const PGresult *result, struct jr_err *err)
{
	char *what;

	if (jr_written(err))
		return true;
	what = jr_xasprintf("run %s was %s", PQgetvalue(result, 0, SENT_ID),
	    jr_pg_bool(result, 0, SENT_CREATED) ? "queued" : "there already");
	jr_fail_in(err, what);
	free(what);
	return false;
}

/* Say what became of the request, and wait for the run if that is wanted. */
static int
tell_sent(const struct jr_app *app, struct jr_db **db, const struct jr_enqueue_opts *opts, PGresult *const *results,
    struct jr_err *err)
{
	struct jr_err strict = {.msg = ""};
	int status;

	tell(app, *db, opts, results[0]);
	jr_known_warn_type(PQgetvalue(results[0], 0, SENT_TYPE), jr_pg_text(results[1], 0, 0), false);
	status = judge(opts, results[0], &strict);
	if (opts->wait)
		status = jr_worse_status(status, await(app, db, opts, results[0], err));
	if (err->msg[0] == '\0' && !was_told(results[0], err))
		status = JR_E_TEMP;
	else if (err->msg[0] == '\0')
		*err = strict;
	return status;
}

static int
enqueue_one(const struct jr_app *app, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request,
    struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ready = db != NULL && jr_request_resolve_at(db, opts, request, err);
	PGresult *results[2] = {NULL};
	int status;

	if (ready && opts->dry_run)
		status = rehearse(app, db, opts, request, err);
	else if (ready && send_request(app, &db, request, results, err))
		status = tell_sent(app, &db, opts, results, err);
	else
		status = (int)err->code;
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	jr_db_close(db);
	return status;
}

static int
enqueue_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct jr_enqueue_opts *opts = values;
	struct jr_enqueue_request request;
	int status = 0;

	if (argc == 0 && opts->definition == NULL) {
		jr_cmd_bad_usage(&jr_cmd_enqueue, err, "an argument is missing");
		return (int)err->code;
	}
	if (!jr_enqueue_request_make(&request, opts, argc, argv, err))
		status = (int)err->code;
	else if (opts->batch != NULL)
		status = jr_enqueue_batch(app, opts, &request, err);
	else
		status = enqueue_one(app, opts, &request, err);
	jr_enqueue_request_release(&request);
	return status;
}

const struct jr_cmd jr_cmd_enqueue = {
    .name = "enqueue",
    .group = JR_GROUP_EVERYDAY,
    .summary = "queue one run, or many; prints the id",
    .usage =
	"[OPTION...] TYPE [PAYLOAD|-|@FILE] | [OPTION...] --definition NAME [PAYLOAD|-|@FILE] | [OPTION...] --batch FILE TYPE",
    .details =
	"PAYLOAD is JSON, at most 1 MiB; - reads it from stdin, @FILE from a file.\n"
	"What is not given, the payload too, comes from the definition that is named like the type, else it is the\n"
	"default, which is in brackets below; that of the payload is {}. A line of --batch --per-run can have all options, named like the arguments of\n"
	"jobrun.enqueue().\n",
    .options = enqueue_options,
    .defaults = &enqueue_defaults,
    .size = sizeof(enqueue_defaults),
    .max_args = 2,
    .kind = "enqueue",
    .run = enqueue_run,
};
