/*
 * enqueue_request: see enqueue_request.h.
 */
#include "enqueue_request.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "payload.h"
#include "sql_text.h"
#include "zone.h"

static void
set_number(struct jr_enqueue_request *request, enum jr_enqueue_request_param param, int64_t value)
{
	if (value != JR_UNSET)
		request->values[param] = jr_print_int(request->numbers[param], value);
}

static bool
set_backoff(struct jr_enqueue_request *request, const char *text, struct jr_err *err)
{
	int64_t base, cap = JR_UNSET;
	size_t len = strcspn(text, ",");
	char *first = jr_xmemdup0(text, len);
	bool ok = jr_parse_duration("--backoff", first, &base, err);

	free(first);
	if (!ok || (text[len] == ',' && !jr_parse_duration("--backoff", text + len + 1, &cap, err)))
		return false;
	if (cap != JR_UNSET && cap < base)
		return jr_fail(err, JR_E_USAGE, "--backoff: the cap of \"%s\" is less than its base", text);
	set_number(request, JR_REQUEST_BACKOFF_BASE, base);
	set_number(request, JR_REQUEST_BACKOFF_CAP, cap);
	return true;
}

static bool
set_key(struct jr_enqueue_request *request, const char *key, struct jr_err *err)
{
	uint64_t random[2];

	request->values[JR_REQUEST_KEY] = key;
	request->values[JR_REQUEST_KEY_IS_RANDOM] = key == NULL ? "true" : "false";
	if (key != NULL)
		return true;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return jr_fail(err, JR_E_TEMP, "could not get random bytes");
	snprintf(
	    request->random_key, sizeof(request->random_key), "cli:%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	request->values[JR_REQUEST_KEY] = request->random_key;
	return true;
}

/* If a handler calls us, its run is the parent. */
static void
set_parent(struct jr_enqueue_request *request)
{
	const char *text = getenv("JOBRUN_RUN_ID");
	struct jr_err unused;
	int64_t id;

	if (text != NULL && jr_parse_int("JOBRUN_RUN_ID", text, 1, INT64_MAX, &id, &unused))
		set_number(request, JR_REQUEST_PARENT, id);
}

/* The trace context of the caller, if TRACEPARENT is a valid text for it. */
static void
set_trace(struct jr_enqueue_request *request)
{
	const char *text = getenv("TRACEPARENT");
	size_t len;

	if (text == NULL)
		return;
	len = strlen(text);
	if (len == 0 || len > JR_KEY_MAX)
		return;
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return;
	}
	request->values[JR_REQUEST_TRACE] = text;
}

static bool
check_keys(const struct jr_enqueue_opts *opts, struct jr_err *err)
{
	if (opts->replace && opts->unless_running)
		return jr_fail(err, JR_E_USAGE, "--replace and --unless-running exclude each other");
	if ((opts->replace || opts->unless_running) && opts->unique == NULL)
		return jr_fail(
		    err, JR_E_USAGE, "%s needs --unique KEY", opts->replace ? "--replace" : "--unless-running");
	return true;
}

static bool
check_times(const struct jr_enqueue_opts *opts, struct jr_err *err)
{
	if (opts->in_ms != JR_UNSET && opts->at != NULL)
		return jr_fail(err, JR_E_USAGE, "--in and --at exclude each other");
	if (opts->time_zone != NULL && opts->at == NULL && !opts->per_run)
		return jr_fail(err, JR_E_USAGE, "--time-zone goes with --at, which is missing");
	if (opts->wait_ms != JR_UNSET && !opts->wait)
		return jr_fail(err, JR_E_USAGE, "--wait-timeout goes with --wait, which is missing");
	return true;
}

static bool
check_batch(const struct jr_enqueue_opts *opts, int argc, char **argv, struct jr_err *err)
{
	if (opts->batch == NULL && opts->per_run)
		return jr_fail(err, JR_E_USAGE, "--per-run goes with --batch FILE, which is missing");
	if (opts->batch == NULL)
		return true;
	if (argc > 1)
		return jr_fail(
		    err, JR_E_USAGE, "with --batch the payloads are in the file; \"%s\" is one too many", argv[1]);
	if (opts->key != NULL || opts->unique != NULL)
		return jr_fail(err, JR_E_USAGE,
		    "%s cannot be the same for all runs of --batch: give it in each line, with --per-run",
		    opts->key != NULL ? "--idempotency-key" : "--unique");
	if (opts->wait)
		return jr_fail(err, JR_E_USAGE, "--wait waits for one run, not for those of --batch");
	return true;
}

/* With --definition only the payload, the time and the idempotency key can be given. */
static bool
check_definition(const struct jr_enqueue_opts *opts, int argc, char **argv, struct jr_err *err)
{
	const struct {
		const char *name;
		bool given;
	} others[] = {
	    {"batch", opts->batch != NULL},
	    {"per-run", opts->per_run},
	    {"queue", opts->queue != NULL},
	    {"priority", opts->priority != JR_UNSET},
	    {"expires", opts->expires_ms != JR_UNSET},
	    {"max-attempts", opts->max_attempts != JR_UNSET},
	    {"timeout", opts->timeout_ms != JR_UNSET},
	    {"backoff", opts->backoff != NULL},
	    {"unique", opts->unique != NULL},
	    {"replace", opts->replace},
	    {"unless-running", opts->unless_running},
	    {"lock", opts->lock != NULL},
	};

	if (!jr_parse_definition("--definition", opts->definition, err))
		return false;
	if (argc > 1)
		return jr_fail(err, JR_E_USAGE,
		    "with --definition the only argument is PAYLOAD; \"%.100s\" is one too many",
		    argv[jr_payload_is_name(argv[0]) ? 0 : 1]);
	for (size_t i = 0; i < JR_COUNT(others); i++) {
		if (others[i].given)
			return jr_fail(err, JR_E_USAGE,
			    "--%s: with --definition the run is what %s says; to have it otherwise enqueue its type",
			    others[i].name, opts->definition);
	}
	return true;
}

static void
set_values(struct jr_enqueue_request *request, const struct jr_enqueue_opts *opts)
{
	request->values[JR_REQUEST_DRY_RUN] = opts->dry_run ? "true" : "false";
	request->values[JR_REQUEST_QUEUE] = opts->queue;
	request->values[JR_REQUEST_UNIQUE] = opts->unique;
	request->values[JR_REQUEST_LOCK] = opts->lock;
	if (opts->replace)
		request->values[JR_REQUEST_ON_CONFLICT] = "replace";
	else if (opts->unless_running)
		request->values[JR_REQUEST_ON_CONFLICT] = "unless_running";
	set_number(request, JR_REQUEST_PRIORITY, opts->priority);
	set_number(request, JR_REQUEST_IN, opts->in_ms);
	set_number(request, JR_REQUEST_EXPIRES, opts->expires_ms);
	set_number(request, JR_REQUEST_MAX_ATTEMPTS, opts->max_attempts);
	set_number(request, JR_REQUEST_TIMEOUT, opts->timeout_ms);
	set_parent(request);
	set_trace(request);
}

bool
jr_enqueue_request_make(
    struct jr_enqueue_request *request, const struct jr_enqueue_opts *opts, int argc, char **argv, struct jr_err *err)
{
	bool is_definition = opts->definition != NULL;

	*request = (struct jr_enqueue_request){.is_definition = is_definition};
	if (is_definition ? !check_definition(opts, argc, argv, err)
			  : !jr_parse_job_type("TYPE", argv[0], err) || !check_batch(opts, argc, argv, err) ||
				!check_keys(opts, err))
		return false;
	if (!check_times(opts, err))
		return false;
	request->values[JR_REQUEST_TYPE] = is_definition ? opts->definition : argv[0];
	set_values(request, opts);
	if (opts->backoff != NULL && !set_backoff(request, opts->backoff, err))
		return false;
	if (!set_key(request, opts->key, err))
		return false;
	if (argc < (is_definition ? 1 : 2))
		return true; /* the definition's payload, else {} */
	request->payload = jr_payload_read(argv[is_definition ? 0 : 1], err);
	request->values[JR_REQUEST_PAYLOAD] = request->payload;
	return request->payload != NULL;
}

void
jr_enqueue_request_release(struct jr_enqueue_request *request)
{
	free(request->payload);
	free(request->at);
}

char *
jr_enqueue_request_zone(const struct jr_enqueue_opts *opts, const char *values[2])
{
	char *host = opts->time_zone == NULL ? jr_zone_of_host() : NULL;

	values[0] = opts->time_zone;
	values[1] = host;
	return host;
}

bool
jr_request_resolve_at(
    struct jr_db *db, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request, struct jr_err *err)
{
	const char *zone[2];
	const char *at[] = {opts->at};
	const struct jr_statement statements[] = {
	    {jr_sql_enqueue_zone, JR_COUNT(zone), zone}, {jr_sql_enqueue_at, JR_COUNT(at), at}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	char *host;
	bool ok;

	if (opts->at == NULL)
		return true;
	host = jr_enqueue_request_zone(opts, zone);
	ok = jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err);
	free(host);
	if (!ok) {
		if (!jr_zone_blame_zone(opts->time_zone, err))
			jr_zone_blame_time("--at", opts->at, err);
		return false;
	}
	request->at = jr_xstrdup(PQgetvalue(results[1], 0, 0));
	request->values[JR_REQUEST_AT] = request->at;
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return true;
}

enum shape {
	TEXT,
	NUMBER,
	DURATION /* milliseconds in the request, an interval in the JSON object */
};

static json_t *
member_value(enum shape shape, const char *text)
{
	json_t *value;
	long long ms;
	char *interval;

	if (shape == TEXT)
		return json_string(text);
	ms = strtoll(text, NULL, 10);
	if (shape == NUMBER)
		return json_integer(ms);
	/* Servers before 15 cannot read large numbers of milliseconds in an interval. */
	interval = jr_xasprintf("%lld:%02lld:%02lld.%03lld", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
	value = json_string(interval);
	free(interval);
	return value;
}

char *
jr_enqueue_request_options(const struct jr_enqueue_request *request, struct jr_err *err)
{
	static const struct {
		enum jr_enqueue_request_param param;
		enum shape shape;
		const char *name;
	} members[] = {
	    {JR_REQUEST_QUEUE, TEXT, "queue"},
	    {JR_REQUEST_PRIORITY, NUMBER, "priority"},
	    {JR_REQUEST_IN, DURATION, "run_in"},
	    {JR_REQUEST_AT, TEXT, "run_at"},
	    {JR_REQUEST_EXPIRES, DURATION, "expires_in"},
	    {JR_REQUEST_MAX_ATTEMPTS, NUMBER, "max_attempts"},
	    {JR_REQUEST_TIMEOUT, DURATION, "timeout"},
	    {JR_REQUEST_BACKOFF_BASE, DURATION, "backoff_base"},
	    {JR_REQUEST_BACKOFF_CAP, DURATION, "backoff_cap"},
	    {JR_REQUEST_LOCK, TEXT, "concurrency_key"},
	    {JR_REQUEST_PARENT, NUMBER, "parent_id"},
	    {JR_REQUEST_TRACE, TEXT, "trace_context"},
	};
	json_t *options = json_object();
	char *text = NULL;
	size_t i = 0;

	while (i < JR_COUNT(members)) {
		const char *value = request->values[members[i].param];

		if (value != NULL &&
		    json_object_set_new(options, members[i].name, member_value(members[i].shape, value)) != 0)
			break;
		i++;
	}
	if (i < JR_COUNT(members))
		jr_fail(err, JR_E_DATA, "%s: it is not UTF-8", members[i].name);
	else
		text = json_dumps(options, JSON_COMPACT);
	json_decref(options);
	return text;
}
