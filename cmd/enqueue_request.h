/*
 * enqueue_request: the options of enqueue as the parameters of enqueue.sql or, for --batch, as the object `options` of
 * the table jobrun.new_runs.
 *
 * What must hold: if an answer is lost and the same request is sent again, it creates no second run. So there is always
 * an idempotency key, the caller's or a random one made up here, and --at is turned into a point in time only once.
 */
#ifndef JR_ENQUEUE_REQUEST_H
#define JR_ENQUEUE_REQUEST_H

#include "commands.h"

struct jr_enqueue_opts {
	const char *queue, *at, *time_zone, *backoff, *key, *unique, *lock, *batch, *definition;
	int64_t priority, max_attempts;
	int64_t in_ms, expires_ms, timeout_ms, wait_ms;
	bool replace, unless_running, strict, per_run, wait, dry_run;
};

/* The value of a number that was not given. */
#define JR_UNSET INT64_MIN

/* Parameters of enqueue.sql, in their order. */
enum jr_enqueue_request_param {
	JR_REQUEST_TYPE,
	JR_REQUEST_PAYLOAD,
	JR_REQUEST_QUEUE,
	JR_REQUEST_PRIORITY,
	JR_REQUEST_IN,
	JR_REQUEST_AT,
	JR_REQUEST_EXPIRES,
	JR_REQUEST_MAX_ATTEMPTS,
	JR_REQUEST_TIMEOUT,
	JR_REQUEST_BACKOFF_BASE,
	JR_REQUEST_BACKOFF_CAP,
	JR_REQUEST_KEY,
	JR_REQUEST_PARENT,
	JR_REQUEST_KEY_IS_RANDOM,
	JR_REQUEST_DRY_RUN,
	JR_REQUEST_UNIQUE,
	JR_REQUEST_ON_CONFLICT,
	JR_REQUEST_LOCK,
	JR_REQUEST_TRACE,
	JR_REQUEST_COUNT
};

struct jr_enqueue_request {
	bool is_definition; /* JR_REQUEST_TYPE is the name of a definition, for enqueue_definition.sql */
	const char *values[JR_REQUEST_COUNT];

	/* The storage behind the values. */
	char numbers[JR_REQUEST_COUNT][24];
	char random_key[40];
	char *payload;
	char *at;
};

/* argv: TYPE [PAYLOAD]; with --definition: [PAYLOAD]. Reads the payload. Release the request even after a failure. */
bool jr_enqueue_request_make(struct jr_enqueue_request *request, const struct jr_enqueue_opts *opts, int argc,
    char **argv, struct jr_err *err) JR_MUST;
void jr_enqueue_request_release(struct jr_enqueue_request *request);

/* The parameters of enqueue_zone.sql, which sets the zone in which times are read. Caller frees the result later. */
char *jr_enqueue_request_zone(const struct jr_enqueue_opts *opts, const char *values[2]);

/* Let the database turn --at into a point in time, once: a second try must not read "tomorrow" again. */
bool jr_request_resolve_at(struct jr_db *db, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request,
    struct jr_err *err) JR_MUST;

/* The options as a JSON object, without payload and keys. Caller frees. NULL with JR_E_DATA: one is not UTF-8. */
char *jr_enqueue_request_options(const struct jr_enqueue_request *request, struct jr_err *err) JR_MUST;

#endif
