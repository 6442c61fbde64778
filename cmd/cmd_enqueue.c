/*
 * enqueue: one run. Prints its id and nothing else.
 *
 * What must hold: the same command line, sent again because an answer was lost, makes no second run. So there is always
 * an idempotency key: the caller's, or a random one made up here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "mem.h"
#include "parse.h"
#include "payload.h"
#include "print.h"
#include "sql_text.h"

#define DOUBT_MS 30000 /* how long a lost answer is asked for again */

struct enqueue_opts {
	const char *queue, *at, *time_zone, *backoff, *key;
	int64_t priority, max_attempts;
	int64_t in_ms, expires_ms, timeout_ms;
	bool dry_run;
};

#define UNSET INT64_MIN

static const struct enqueue_opts enqueue_defaults = {.priority = UNSET,
    .max_attempts = UNSET,
    .in_ms = UNSET,
    .expires_ms = UNSET,
    .timeout_ms = UNSET};

static bool
check_key(const char *what, const char *text, struct jr_err *err)
{
	size_t len = strlen(text);

	if (len >= 1 && len <= JR_KEY_MAX)
		return true;
	return jr_fail(
	    err, JR_E_USAGE, "%s: %zu bytes; from 1 to %d are possible", what, len, JR_KEY_MAX);
}

#define AT(field) offsetof(struct enqueue_opts, field)

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
	{ .name = "time-zone", .arg = "ZONE", .help = "in which --at is read ($TZ, else that of the server)",
	    .type = JR_OPT_STRING, .offset = AT(time_zone) },
	{ .name = "expires", .arg = "D", .help = "give up if it could not start within D of its time", .type = JR_OPT_DURATION,
	    .offset = AT(expires_ms), .min = 1 },
	{ .name = "max-attempts", .arg = "N", .help = "attempts before it is dead (5)", .type = JR_OPT_INT,
	    .offset = AT(max_attempts), .min = 1, .max = INT32_MAX },
	{ .name = "timeout", .arg = "D", .help = "time for one attempt; 0: no limit", .type = JR_OPT_DURATION,
	    .offset = AT(timeout_ms) },
	{ .name = "backoff", .arg = "BASE[,CAP]", .help = "pause before the second attempt, doubled up to CAP (10s,1h)",
	    .type = JR_OPT_STRING, .offset = AT(backoff) },
	{ .name = "idempotency-key", .letter = 'k', .arg = "KEY", .help = "the same run again, if there is one with this key",
	    .type = JR_OPT_STRING, .offset = AT(key), .check = check_key },
	{ .name = "dry-run", .letter = 'n', .help = "check everything, queue nothing", .type = JR_OPT_FLAG,
	    .offset = AT(dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* clang-format off */
enum param {
	P_TYPE, P_PAYLOAD, P_QUEUE, P_PRIORITY, P_IN, P_AT, P_EXPIRES, P_MAX_ATTEMPTS, P_TIMEOUT, P_BACKOFF_BASE,
	P_BACKOFF_CAP, P_KEY, P_PARENT, P_KEY_IS_RANDOM, P_DRY_RUN, PARAM_COUNT
};

enum column { C_ID, C_CREATED, C_RUN_AT, C_AGE, C_STATUS, C_QUEUE, C_PRIORITY, C_DOC };
/* clang-format on */

/* What enqueue.sql is given, and the storage behind it. */
struct request {
	const char *values[PARAM_COUNT];
	char numbers[PARAM_COUNT][24];
	char random_key[40];
	char *payload;
	char *at; /* --at in UTC */
};

static void
set_number(struct request *request, enum param param, int64_t value)
{
	if (value != UNSET)
		request->values[param] = jr_pg_print_int(request->numbers[param], value);
}

static bool
set_backoff(struct request *request, const char *text, struct jr_err *err)
{
	int64_t base, cap = UNSET;
	size_t len = strcspn(text, ",");
	char *first = jr_xmemdup0(text, len);
	bool ok = jr_parse_duration("--backoff", first, &base, err);

	free(first);
	if (!ok || (text[len] == ',' && !jr_parse_duration("--backoff", text + len + 1, &cap, err)))
		return false;
	if (cap != UNSET && cap < base)
		return jr_fail(
		    err, JR_E_USAGE, "--backoff: the cap of \"%s\" is less than its base", text);
	set_number(request, P_BACKOFF_BASE, base);
	set_number(request, P_BACKOFF_CAP, cap);
	return true;
}

static bool
set_key(struct request *request, const char *key, struct jr_err *err)
{
	uint64_t random[2];

	request->values[P_KEY] = key;
	request->values[P_KEY_IS_RANDOM] = key == NULL ? "true" : "false";
	if (key != NULL)
		return true;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return jr_fail(err, JR_E_TEMP, "could not get random bytes");
	snprintf(request->random_key, sizeof(request->random_key), "cli:%016" PRIx64 "%016" PRIx64,
	    random[0], random[1]);
	request->values[P_KEY] = request->random_key;
	return true;
}

/* A handler that enqueues is inside a run. */
static void
set_parent(struct request *request)
{
	const char *text = getenv("JOBRUN_RUN_ID");
	struct jr_err unused;
	int64_t id;

	if (text != NULL && jr_parse_int("JOBRUN_RUN_ID", text, 1, INT64_MAX, &id, &unused))
		set_number(request, P_PARENT, id);
}

static bool
make_request(struct request *request, const struct enqueue_opts *opts, int argc, char **argv,
    struct jr_err *err)
{
	if (!jr_parse_job_type("TYPE", argv[0], err))
		return false;
	if (opts->in_ms != UNSET && opts->at != NULL)
		return jr_fail(err, JR_E_USAGE, "--in and --at exclude each other");
	if (opts->time_zone != NULL && opts->at == NULL)
		return jr_fail(
		    err, JR_E_USAGE, "--time-zone says how to read --at, which is missing");
	request->values[P_TYPE] = argv[0];
	request->values[P_DRY_RUN] = opts->dry_run ? "true" : "false";
	request->values[P_QUEUE] = opts->queue;
	set_number(request, P_PRIORITY, opts->priority);
	set_number(request, P_IN, opts->in_ms);
	set_number(request, P_EXPIRES, opts->expires_ms);
	set_number(request, P_MAX_ATTEMPTS, opts->max_attempts);
	set_number(request, P_TIMEOUT, opts->timeout_ms);
	set_parent(request);
	if (opts->backoff != NULL && !set_backoff(request, opts->backoff, err))
		return false;
	if (!set_key(request, opts->key, err))
		return false;
	if (argc < 2)
		return true; /* the definition's payload, else {} */
	request->payload = jr_payload_read(argv[1], err);
	request->values[P_PAYLOAD] = request->payload;
	return request->payload != NULL;
}

/* --at to a point in time, once: a repeated try must not read "tomorrow" again. */
static bool
resolve_at(
    struct jr_db *db, const struct enqueue_opts *opts, struct request *request, struct jr_err *err)
{
	const char *tz = getenv("TZ");
	const char *zone[] = {opts->time_zone, tz != NULL && tz[0] == ':' ? tz + 1 : tz};
	const char *at[] = {opts->at};
	const struct jr_statement statements[] = {
	    {jr_sql_enqueue_zone, JR_COUNT(zone), zone}, {jr_sql_enqueue_at, JR_COUNT(at), at}};
	PGresult *results[JR_COUNT(statements)] = {NULL};

	if (opts->at == NULL)
		return true;
	if (!jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err)) {
		if (err->code == JR_E_DATA) {
			err->code = JR_E_USAGE;
			jr_fail_in(
			    err, strstr(err->msg, "TimeZone") != NULL ? "--time-zone" : "--at");
		}
		return false;
	}
	request->at = jr_xstrdup(PQgetvalue(results[1], 0, 0));
	request->values[P_AT] = request->at;
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return true;
}

/* With -n the transaction is rolled back, and an empty one committed. */
static PGresult *
send(struct jr_db *db, const struct request *request, bool dry_run, struct jr_err *err)
{
	const struct jr_statement statements[] = {{jr_sql_enqueue, PARAM_COUNT, request->values},
	    {jr_sql_rollback, 0, NULL}, {jr_sql_begin, 0, NULL}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	size_t count = dry_run ? JR_COUNT(statements) : 1;

	if (!jr_db_run(db, statements, count, results, JR_CMD_TIMEOUT_MS, err))
		return NULL;
	for (size_t i = 1; i < count; i++)
		PQclear(results[i]);
	return results[0];
}

/* Send it; if the answer was lost, ask again with the same key, on a new connection. */
static PGresult *
send_until_known(const struct jr_app *app, struct jr_db **db, const struct request *request,
    bool dry_run, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), DOUBT_MS);
	struct jr_err last;
	PGresult *result = send(*db, request, dry_run, &last);
	bool doubt = result == NULL && jr_db_is_in_doubt(&last);

	while (result == NULL && doubt && last.code == JR_E_TEMP && jr_clock_now_ms() < until) {
		jr_db_close(*db);
		*db = jr_cmd_connect(app, &last);
		if (*db != NULL)
			result = send(*db, request, dry_run, &last);
	}
	if (result != NULL)
		return result;
	*err = last;
	if (doubt)
		jr_fail(err, last.code,
		    "%s; the run may have been queued: safe to repeat with --idempotency-key %s",
		    last.msg, request->values[P_KEY]);
	if (err->code == JR_E_DATA && request->payload != NULL)
		jr_payload_locate(request->payload, err);
	return NULL;
}

/* On a terminal: does anybody have this job type? A wrong name would wait for ever. */
static void
hint_unknown(struct jr_db *db, const char *type)
{
	const char *values[] = {type};
	struct jr_err unused;
	PGresult *result =
	    jr_db_query(db, jr_sql_enqueue_known, 1, values, JR_CMD_TIMEOUT_MS, &unused);

	if (result != NULL && !jr_pg_bool(result, 0, 0))
		fprintf(stderr, "no runner of the last 24h has a handler %s; is that its name?\n",
		    type);
	PQclear(result);
}

static void
hint_time(const PGresult *result)
{
	char *at = jr_format_local_time(jr_pg_int(result, 0, C_RUN_AT, 0));
	char *age = jr_format_age(jr_pg_int(result, 0, C_AGE, 0));

	if (!jr_pg_bool(result, 0, C_CREATED))
		fprintf(stderr, "was there before: %s\n", PQgetvalue(result, 0, C_STATUS));
	else
		fprintf(stderr, "queued for %s (%s)\n", at, age);
	free(at);
	free(age);
}

static void
tell_dry_run(const PGresult *result, const char *type)
{
	char *age = jr_format_age(jr_pg_int(result, 0, C_AGE, 0));

	if (jr_pg_bool(result, 0, C_CREATED))
		printf("would queue %s: queue %s, priority %s, due %s\n", type,
		    PQgetvalue(result, 0, C_QUEUE), PQgetvalue(result, 0, C_PRIORITY), age);
	else
		printf("would queue nothing: run %s has this key and is %s\n",
		    PQgetvalue(result, 0, C_ID), PQgetvalue(result, 0, C_STATUS));
	free(age);
}

static void
tell(const struct jr_app *app, struct jr_db *db, const struct enqueue_opts *opts,
    const PGresult *result, const char *type)
{
	const char *notice = jr_db_notice(db);

	if (notice != NULL)
		jr_print_line(stderr, "jobrun: ", notice);
	if (app->json)
		puts(PQgetvalue(result, 0, C_DOC));
	else if (opts->dry_run)
		tell_dry_run(result, type);
	else
		puts(PQgetvalue(result, 0, C_ID));
	if (opts->dry_run || !jr_print_is_terminal(stderr))
		return;
	fflush(stdout);
	hint_time(result);
	hint_unknown(db, type);
}

static bool
enqueue(const struct jr_app *app, const struct enqueue_opts *opts, struct request *request,
    struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;

	if (db != NULL && resolve_at(db, opts, request, err))
		result = send_until_known(app, &db, request, opts->dry_run, err);
	if (result != NULL)
		tell(app, db, opts, result, request->values[P_TYPE]);
	PQclear(result);
	jr_db_close(db);
	return result != NULL;
}

static int
enqueue_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct enqueue_opts *opts = values;
	struct request request = {.payload = NULL};
	bool ok =
	    make_request(&request, opts, argc, argv, err) && enqueue(app, opts, &request, err);

	free(request.payload);
	free(request.at);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_enqueue = {
    .name = "enqueue",
    .group = JR_GROUP_EVERYDAY,
    .summary = "queue one run; prints its id",
    .usage = "[OPTION...] TYPE [PAYLOAD|-|@FILE]",
    .details =
	"PAYLOAD is JSON, at most 1 MiB; - reads it from stdin, @FILE from a file; without it {}.\n"
	"A value that is not given comes from the definition named as the type, else it is the one "
	"in brackets.\n",
    .options = enqueue_options,
    .defaults = &enqueue_defaults,
    .size = sizeof(enqueue_defaults),
    .min_args = 1,
    .max_args = 2,
    .run = enqueue_run,
};
