/*
 * try: run a handler here and now, without a queue, and explain its verdict.
 *
 * The library rehearses the handler and try_report.h prints the report. This file builds the run from the command line.
 * What must hold: nothing here needs a database, so that a handler can be tried where there is none.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/parse.h"
#include "commands.h"
#include "handler/handlers.h"
#include "payload.h"
#include "runner/rehearse.h"
#include "try_report.h"
#include "types.h"

#define ATTEMPTS 5 /* the default of max_attempts */
#define ATTEMPTS_MAX 100
#define KILLED 130

struct try_opts {
	const char *handlers, *key, *checkpoint;
	int64_t attempt, max_attempts, timeout_ms;
	bool raw;
};

static const struct try_opts try_defaults = {.attempt = 1, .max_attempts = ATTEMPTS, .timeout_ms = -1};

static bool
check_key(const char *what, const char *text, struct jr_err *err)
{
	if (text[0] != '\0' && strlen(text) <= JR_KEY_MAX)
		return true;
	return jr_fail(err, JR_E_USAGE, "%s: from 1 to %d bytes are possible", what, JR_KEY_MAX);
}

#define AT(field) offsetof(struct try_opts, field)

/* clang-format off */
static const struct jr_option try_options[] = {
	{ .name = "attempt", .arg = "N", .help = "number of the attempt (1)", .type = JR_OPT_INT, .offset = AT(attempt),
	    .min = 1, .max = ATTEMPTS_MAX },
	{ .name = "checkpoint", .arg = "JSON", .help = "the checkpoint of an earlier attempt", .type = JR_OPT_STRING,
	    .offset = AT(checkpoint) },
	{ .name = "handlers", .arg = "DIR", .help = "the handlers directory (~/.config/jobrun/handlers, else /etc/jobrun/handlers)",
	    .type = JR_OPT_STRING, .offset = AT(handlers), .env = "JOBRUN_HANDLERS", .not_empty = true },
	{ .name = "key", .letter = 'k', .arg = "KEY", .help = "value of JOBRUN_KEY (\"try-\" and a random number)", .type = JR_OPT_STRING,
	    .offset = AT(key), .check = check_key },
	{ .name = "max-attempts", .arg = "N", .help = "attempts that the run has (5)", .type = JR_OPT_INT, .offset = AT(max_attempts),
	    .min = 1, .max = ATTEMPTS_MAX },
	{ .name = "raw", .help = "show its output unchanged, even on a terminal", .type = JR_OPT_FLAG, .offset = AT(raw) },
	{ .name = "timeout", .arg = "D", .help = "time limit; 0: none (the handler's own)", .type = JR_OPT_DURATION,
	    .offset = AT(timeout_ms) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* A random key, "try-..." */
static bool
make_key(char *key, size_t size, struct jr_err *err)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return jr_fail(err, JR_E_TEMP, "could not get random bytes");
	snprintf(key, size, "try-%016" PRIx64, random);
	return true;
}

/*
 * PostgreSQL would refuse a text that is not JSON, so this does, too. The handler gets the text unchanged. Numbers and
 * nesting that only the parser used here cannot read are accepted.
 */
static bool
check_json(const char *what, const char *text, struct jr_err *err)
{
	const size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL;
	json_error_t error;
	json_t *value = json_loadb(text, strlen(text), flags, &error);

	if (value != NULL) {
		json_decref(value);
		return true;
	}
	if (json_error_code(&error) == json_error_numeric_overflow ||
	    json_error_code(&error) == json_error_stack_overflow)
		return true;
	return jr_fail(err, JR_E_DATA, "%s is not JSON: line %d, column %d: %s", what, error.line > 0 ? error.line : 1,
	    error.column > 0 ? error.column : 1,
	    json_error_code(&error) == json_error_null_character ? "jsonb has no \\u0000" : error.text);
}

static int
rehearse(const struct jr_app *app, const struct jr_rehearsal *rehearsal, struct jr_err *err)
{
	struct jr_rehearsed rehearsed;
	int status;

	if (!jr_rehearse(rehearsal, &rehearsed, err))
		return (int)err->code;
	if (app->json)
		jr_try_report_document(&rehearsed, rehearsal);
	else
		jr_try_report_print(&rehearsed, rehearsal);
	status = rehearsed.outcome.kind == JR_OUT_SUCCEEDED ? 0 : JR_E_NEWS;
	if (rehearsed.killed)
		status = KILLED;
	jr_rehearsed_release(&rehearsed);
	return status;
}

static int
rehearse_with(const struct jr_app *app, const struct try_opts *opts, const struct jr_handlers *handlers,
    const char *job_type, const char *argument, struct jr_err *err)
{
	char random_key[32];
	char *payload = NULL;
	int status;

	if (!jr_types_check(handlers, job_type, err) || !make_key(random_key, sizeof(random_key), err))
		return (int)err->code;
	if (opts->checkpoint != NULL && !check_json("the checkpoint", opts->checkpoint, err))
		return (int)err->code;
	payload = jr_payload_read(argument, err);
	if (payload == NULL || !check_json("the payload", payload, err)) {
		free(payload);
		return (int)err->code;
	}
	status = rehearse(app,
	    &(struct jr_rehearsal){
		.handler = jr_handlers_find(handlers, job_type),
		.conninfo = jr_db_conninfo(app->dbname, NULL),
		.payload = payload,
		.key = opts->key != NULL ? opts->key : random_key,
		.checkpoint = opts->checkpoint,
		.attempt = opts->attempt,
		.max_attempts = opts->max_attempts,
		.timeout_ms = opts->timeout_ms,
		.raw = opts->raw,
	    },
	    err);
	free(payload);
	return status;
}

static bool
check_attempt(const struct try_opts *opts, struct jr_err *err)
{
	if (opts->attempt <= opts->max_attempts)
		return true;
	return jr_fail(err, JR_E_USAGE, "--attempt %" PRId64 " of --max-attempts %" PRId64 " cannot be", opts->attempt,
	    opts->max_attempts);
}

static int
try_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct try_opts *opts = values;
	struct jr_handlers handlers;
	char *directory;
	bool ok;
	int status;

	if (!jr_parse_job_type("TYPE", argv[0], err) || !check_attempt(opts, err))
		return (int)err->code;
	directory = jr_handlers_directory(opts->handlers);
	ok = jr_handlers_load(&handlers, directory, err);
	free(directory);
	if (!ok)
		return (int)err->code;
	status = rehearse_with(app, opts, &handlers, argv[0], argc > 1 ? argv[1] : "{}", err);
	jr_handlers_release(&handlers);
	return status;
}

const struct jr_cmd jr_cmd_try = {
    .name = "try",
    .group = JR_GROUP_SETUP,
    .summary = "run a handler here and now, without a queue, and explain the result",
    .usage = "[OPTION...] TYPE [PAYLOAD|-|@FILE]",
    .details = "PAYLOAD is JSON and passed on unchanged; - reads it from stdin, @FILE from a file; without it {}.\n"
	       "A sql handler with \"batch\", too, gets the payload of one run: jobrun makes an array of it.\n"
	       "A sql handler works in the database, in a transaction that is rolled back. Others need no database.\n"
	       "Exit status 0 if the run would succeed, else 1.\n",
    .options = try_options,
    .defaults = &try_defaults,
    .size = sizeof(try_defaults),
    .min_args = 1,
    .max_args = 2,
    .run = try_run,
};
