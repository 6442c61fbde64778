/*
 * handler_http: a handler that sends the payload to the "http" target of NAME.json. The status of the answer decides
 * the verdict (verdict.h).
 *
 * Headers of the request name the run, the job type and the attempt. The run's key is sent as Idempotency-Key, so that
 * the receiver can recognise a repetition. The request is signed if the target has a secret. What must hold: a text
 * from the database gets into a header only as visible ASCII, so it cannot end a line; every text that is reported is
 * clean and bounded.
 */
#include "handler/handler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "handler/http.h"
#include "handler/verdict.h"
#include "handler/webhook.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 10 /* with the NULL at the end */
#define FIRST_LINE_MAX 512

struct http_work {
	struct jr_work work; /* first */
	struct jr_host *host;
	const struct jr_handler *handler;
	struct jr_transfer *transfer; /* NULL: stop was called */
	struct jr_timer stopped;
	char *headers[HEADERS_MAX];
	jr_work_fn *ended;
	void *ctx;
};

struct phrase {
	int status;
	const char *text;
};

/* clang-format off */
static const struct phrase phrases[] = {
	{ 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 204, "No Content" },
	{ 301, "Moved Permanently" }, { 302, "Found" }, { 303, "See Other" }, { 304, "Not Modified" },
	{ 307, "Temporary Redirect" }, { 308, "Permanent Redirect" }, { 400, "Bad Request" },
	{ 401, "Unauthorized" }, { 402, "Payment Required" }, { 403, "Forbidden" }, { 404, "Not Found" },
	{ 405, "Method Not Allowed" }, { 406, "Not Acceptable" }, { 407, "Proxy Authentication Required" },
	{ 408, "Request Timeout" }, { 409, "Conflict" }, { 410, "Gone" }, { 411, "Length Required" },
	{ 412, "Precondition Failed" }, { 413, "Content Too Large" }, { 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" }, { 417, "Expectation Failed" }, { 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" }, { 423, "Locked" }, { 424, "Failed Dependency" },
	{ 425, "Too Early" }, { 426, "Upgrade Required" }, { 428, "Precondition Required" },
	{ 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
	{ 451, "Unavailable For Legal Reasons" }, { 500, "Internal Server Error" },
	{ 501, "Not Implemented" }, { 502, "Bad Gateway" }, { 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" }, { 505, "HTTP Version Not Supported" }, { 507, "Insufficient Storage" },
	{ 508, "Loop Detected" },
};
/* clang-format on */

/* The reason phrase with a blank before it; "" for a status that is not in the table. */
static char *
phrase_of(int status)
{
	for (size_t i = 0; i < JR_COUNT(phrases); i++) {
		if (phrases[i].status == status)
			return jr_xasprintf(" %s", phrases[i].text);
	}
	return jr_xstrdup("");
}

static bool
is_lower_hex(const char *s, size_t len)
{
	return strspn(s, "0123456789abcdef") >= len;
}

static bool
is_zero(const char *s, size_t len)
{
	return strspn(s, "0") >= len;
}

/* W3C Trace Context: version-traceid-parentid-flags, in lower case; neither id is 0 and the version is not ff. */
static bool
is_traceparent(const char *s)
{
	return strlen(s) == 55 && s[2] == '-' && s[35] == '-' && s[52] == '-' && is_lower_hex(s, 2) &&
	       is_lower_hex(s + 3, 32) && is_lower_hex(s + 36, 16) && is_lower_hex(s + 53, 2) &&
	       strncmp(s, "ff", 2) != 0 && !is_zero(s + 3, 32) && !is_zero(s + 36, 16);
}

/* Takes `line`. */
static void
add_header(struct http_work *http, char *line)
{
	size_t i = 0;

	while (http->headers[i] != NULL)
		i++;
	http->headers[i] = line;
}

/* The time of the database. */
static int64_t
unix_ms_of(const struct jr_run *run)
{
	return run->started_ms + (jr_clock_now_ms() - run->claimed_ms);
}

/* The three headers of Standard Webhooks. The timestamp is the time of the database. */
static void
sign(struct http_work *http, const struct jr_http_target *target, const struct jr_run *run, const char *body)
{
	int64_t now_ms = unix_ms_of(run);
	char *id = jr_webhook_id(run->key, true);
	char *signature = jr_webhook_sign(target->secrets, target->secret_count, id, now_ms / 1000, body, strlen(body));

	add_header(http, jr_xasprintf("webhook-id: %s", id));
	add_header(http, jr_xasprintf("webhook-timestamp: %" PRId64, now_ms / 1000));
	add_header(http, jr_xasprintf("webhook-signature: %s", signature));
	free(signature);
	free(id);
}

static void
make_headers(struct http_work *http, const struct jr_http_target *target, const struct jr_run *run, const char *body)
{
	char *key = jr_webhook_id(run->key, false);

	add_header(http, jr_xasprintf("Idempotency-Key: %s", key));
	add_header(http, jr_xasprintf("Jobrun-Run: %" PRId64, run->id));
	add_header(http, jr_xasprintf("Jobrun-Type: %s", run->job_type));
	add_header(http, jr_xasprintf("Jobrun-Attempt: %" PRId64, run->attempts));
	if (run->slot != NULL)
		add_header(http, jr_xasprintf("Jobrun-Slot: %s", run->slot));
	if (run->trace_context != NULL && is_traceparent(run->trace_context))
		add_header(http, jr_xasprintf("traceparent: %s", run->trace_context));
	if (target->secret_count > 0)
		sign(http, target, run, body);
	free(key);
}

/* The length of the kept body without a character that was cut at its end. */
static size_t
whole_characters(const struct jr_answer *answer)
{
	size_t len = answer->body_len;

	return (int64_t)len == answer->body_total ? len : jr_text_whole(answer->body, len);
}

/* Status and body, for people. NULL if there is no body: the error has the status, if there is an error. */
static char *
output_of(const struct jr_answer *answer)
{
	size_t len = whole_characters(answer);
	char *body, *output;

	if (answer->body_total == 0 || answer->status == 0)
		return NULL;
	body = jr_text_clean(answer->body, len, len * 3);
	output = jr_xasprintf("HTTP %d, %s%" PRId64 " byte%s\n%s", answer->status,
	    answer->body_total >= JR_ANSWER_MAX ? "more than " : "", answer->body_total,
	    jr_text_plural(answer->body_total), body);
	free(body);
	return output;
}

/* The first non-blank line of the body, clean; "" if there is none. Caller frees. */
static char *
first_line(const struct jr_answer *answer)
{
	const char *at = answer->body, *end = at + whole_characters(answer);
	const char *newline;

	while (at < end && (unsigned char)*at <= ' ')
		at++;
	for (newline = at; newline < end && *newline != '\n' && *newline != '\r';)
		newline++;
	return jr_text_clean(at, (size_t)(newline - at), FIRST_LINE_MAX);
}

static char *
error_of(const struct jr_answer *answer)
{
	char *phrase, *line, *error;

	if (answer->code != NULL)
		return jr_xstrdup(answer->error);
	phrase = phrase_of(answer->status);
	line = first_line(answer);
	error = jr_xasprintf("HTTP %d%s%s%s%s", answer->status, phrase,
	    answer->status / 100 == 3 ? " (redirects are not followed)" : "", line[0] != '\0' ? ": " : "", line);
	free(line);
	free(phrase);
	return error;
}

static enum jr_verdict
verdict_of(const struct jr_handler *handler, const struct jr_answer *answer)
{
	if (answer->code != NULL)
		return answer->passing ? JR_LATER : JR_FAIL;
	if (jr_http_target_expects(handler->settings.http, answer->status))
		return JR_DONE;
	return jr_verdict_of_http(&handler->settings.rules, answer->status, answer->has_retry_after);
}

/* `ended` may free the work, so only local memory is used after it. */
static void
on_answer(void *ctx, const struct jr_answer *answer)
{
	struct http_work *http = ctx;
	char *output = output_of(answer);
	char *code = NULL, *error = NULL;
	struct jr_work_end end = {.verdict = verdict_of(http->handler, answer),
	    .retry_in_ms = answer->retry_after_ms,
	    .output_dropped = answer->body_total - (int64_t)answer->body_len,
	    .output = output};

	if (end.verdict != JR_DONE) {
		code = answer->code != NULL ? jr_xasprintf("curl:%s", answer->code)
					    : jr_xasprintf("http:%d", answer->status);
		error = error_of(answer);
	}
	end.error_code = code;
	end.error = error;
	http->ended(http->ctx, &end);
	free(output);
	free(code);
	free(error);
}

static void
on_stopped(void *ctx)
{
	struct http_work *http = ctx;
	struct jr_work_end end = {
	    .verdict = JR_FAIL, .error_code = "stopped", .error = "stopped before the answer came"};

	http->ended(http->ctx, &end);
}

static struct jr_work *
start(struct jr_host *host, const struct jr_handler *handler, const struct jr_run *run, int64_t deadline_ms,
    int64_t run_deadline_ms, const struct jr_owner *owner, struct jr_err *err)
{
	const struct jr_http_target *target = handler->settings.http;
	const char *body = jr_http_has_body(target->method) ? run->payload : "";
	struct http_work *http;

	(void)deadline_ms;
	(void)run_deadline_ms;
	if (host->http == NULL)
		host->http = jr_http_new(host->loop, err);
	if (host->http == NULL)
		return NULL;
	http = jr_xcalloc(1, sizeof(*http));
	http->work.kind = &jr_handler_http;
	http->host = host;
	http->handler = handler;
	http->ended = owner->ended;
	http->ctx = owner->ctx;
	jr_timer_init(&http->stopped, on_stopped, http);
	make_headers(http, target, run, body);
	http->transfer = jr_transfer_start(host->http,
	    &(struct jr_http_request){.target = target,
		.headers = http->headers,
		.body = body,
		.body_len = strlen(body),
		.unix_ms = unix_ms_of(run)},
	    on_answer, http);
	return &http->work;
}

/* A request cannot be asked to end: abort the transfer, TERM or KILL. The end is reported from a timer of the loop. */
static void
stop(struct jr_work *work, bool kill)
{
	struct http_work *http = (struct http_work *)work;

	(void)kill;
	if (http->transfer == NULL)
		return;
	jr_transfer_free(http->transfer);
	http->transfer = NULL;
	jr_timer_set(http->host->loop, &http->stopped, jr_clock_now_ms());
}

static void
move(struct jr_work *work, int64_t deadline_ms)
{
	(void)work;
	(void)deadline_ms;
}

static void
free_work(struct jr_work *work)
{
	struct http_work *http = (struct http_work *)work;

	jr_timer_cancel(&http->stopped);
	jr_transfer_free(http->transfer);
	for (size_t i = 0; http->headers[i] != NULL; i++)
		free(http->headers[i]);
	free(http);
}

static void
close_host(struct jr_host *host)
{
	jr_http_free(host->http);
	host->http = NULL;
}

static bool
check(struct jr_handler *handler, struct jr_err *err)
{
	(void)handler;
	return jr_http_is_usable(err);
}

const struct jr_handler_kind jr_handler_http = {
    .name = "http",
    .pool = JR_POOL_HTTP,
    .member = "http",
    .success_rule = "the answer has a status that is expected",
    .check = check,
    .start = start,
    .stop = stop,
    .move = move,
    .free = free_work,
    .close = close_host,
};
