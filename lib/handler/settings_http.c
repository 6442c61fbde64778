/*
 * settings_http: "http", the request of an http handler.
 *
 * libcurl's own parser checks URLs, so that the URL that is checked here cannot mean another host when libcurl
 * connects. What must hold: no header value can end a line, and no header replaces one that jobrun sets itself; no
 * value that may be a secret gets into a message.
 */
#include "base/mem.h"
#include "handler/curl.h"
#include "handler/document.h"
#include "handler/header.h"
#include "handler/settings_parts.h"
#include "process/perm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define AT(field) offsetof(struct jr_http_target, field)
#define HEADERS_MAX 50
#define HEADER_FILE_MAX 8192 /* a common limit of servers for one header */
#define METHOD_MAX 20
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* RFC 9110, section 5.6.2 */
#define TOKEN_CHARACTERS "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz" LETTERS

void
jr_http_target_free(struct jr_http_target *target)
{
	if (target == NULL)
		return;
	free(target->url);
	free(target->method);
	jr_strings_free(target->headers);
	free(target->proxy);
	free(target->ca_file);
	free(target->expect);
	explicit_bzero(target->secrets, sizeof(target->secrets));
	free(target);
}

bool
jr_http_target_has_header(const struct jr_http_target *target, const char *name)
{
	size_t len = strlen(name);

	for (char *const *at = target->headers; at != NULL && *at != NULL; at++) {
		if (strncasecmp(*at, name, len) == 0 && (*at)[len] == ':')
			return true;
	}
	return false;
}

bool
jr_http_target_expects(const struct jr_http_target *target, int64_t status)
{
	for (size_t i = 0; i < target->expect_count; i++) {
		if (status >= target->expect[i].from && status <= target->expect[i].to)
			return true;
	}
	return false;
}

static bool
has_part(CURLU *url, CURLUPart part)
{
	char *text = NULL;
	bool has = jr_curl.url_get(url, part, &text, 0) == CURLUE_OK && text[0] != '\0';

	jr_curl.free(text);
	return has;
}

static bool
has_scheme(CURLU *url, const char *const *schemes)
{
	char *scheme = NULL;
	bool found = false;

	if (jr_curl.url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
		return false;
	for (; !found && *schemes != NULL; schemes++)
		found = strcasecmp(*schemes, scheme) == 0;
	jr_curl.free(scheme);
	return found;
}

/* Why the URL cannot be used; NULL if it can. */
static const char *
problem_of_url(const char *text, const char *const *schemes, const char *scheme_words)
{
	const char *problem = NULL;
	struct jr_err err;
	CURLU *url;

	if (!jr_curl_load(&err))
		return "libcurl, which would send the request, is not installed (libcurl.so.4)";
	url = jr_curl.url();
	if (url == NULL)
		abort(); /* out of memory, as in mem.h */
	if (jr_curl.url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
		problem = "it is not a URL like https://host/path";
	else if (!has_scheme(url, schemes))
		problem = scheme_words;
	else if (!has_part(url, CURLUPART_HOST))
		problem = "there is no host in it";
	else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
		problem = "there must be no user or password in it";
	else if (strchr(text, '#') != NULL)
		problem = "there must be no # in it: a fragment is never sent";
	jr_curl.url_cleanup(url);
	return problem;
}

const char *
jr_http_url_problem(const char *text)
{
	static const char *const schemes[] = {"http", "https", NULL};

	return problem_of_url(text, schemes, "it must begin with https:// or http://");
}

static bool
read_url(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_http_target *http = target;
	const char *text = jr_read_text(r, step, value, "a URL");
	const char *problem;

	(void)member;
	if (text == NULL)
		return false;
	problem = jr_http_url_problem(text);
	if (problem != NULL)
		return jr_refuse(r, step, "url: cannot be used: %s", problem);
	http->url = jr_xstrdup(text);
	return true;
}

static bool
read_proxy(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	static const char *const schemes[] = {"http", "https", "socks5", "socks5h", NULL};
	struct jr_http_target *http = target;
	const char *text = jr_read_text(r, step, value, "a URL or \"environment\"");
	const char *problem = NULL;

	(void)member;
	if (text == NULL)
		return false;
	if (strcmp(text, "environment") != 0)
		problem = problem_of_url(text, schemes, "it must begin with http://, https:// or socks5://");
	if (problem != NULL)
		return jr_refuse(
		    r, step, "proxy: cannot be used: %s; or write \"environment\" to use https_proxy", problem);
	http->proxy = jr_xstrdup(text);
	return true;
}

static bool
read_method(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_http_target *http = target;
	const char *text = jr_read_text(r, step, value, "a method like \"POST\"");

	(void)member;
	if (text == NULL)
		return false;
	if (strlen(text) > METHOD_MAX || text[strspn(text, LETTERS)] != '\0')
		return jr_refuse(r, step, "method: \"%.100s\" is not a method: 1 to %d capital letters, like \"POST\"",
		    text, METHOD_MAX);
	if (strcmp(text, "CONNECT") == 0)
		return jr_refuse(r, step, "method: CONNECT opens a tunnel through a proxy; set \"proxy\" instead");
	free(http->method);
	http->method = jr_xstrdup(text);
	return true;
}

static bool
is_own_header(const char *name)
{
	static const char *const own[] = {"webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key",
	    "traceparent", "content-length", "transfer-encoding", "expect", "connection", "jobrun-run", "jobrun-type",
	    "jobrun-attempt", "jobrun-slot"};

	for (size_t i = 0; i < JR_COUNT(own); i++) {
		if (strcasecmp(own[i], name) == 0)
			return true;
	}
	return false;
}

/* `http` has the headers that come before this one. */
static bool
check_header_name(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_http_target *http)
{
	const char *name = step->key;

	if (name[0] == '\0' || name[strspn(name, TOKEN_CHARACTERS)] != '\0')
		return jr_refuse(r, step, "headers: \"%.100s\" cannot be the name of a header", name);
	if (is_own_header(name))
		return jr_refuse(r, step, "headers: jobrun itself sets \"%s\"", name);
	if (jr_http_target_has_header(http, name))
		return jr_refuse(r, step, "headers: \"%.100s\" is there twice", name);
	if (!json_is_string(value))
		return jr_refuse(r, step, "headers.%.100s: expected a string, not %s", name, jr_type_word(value));
	return true;
}

/* Messages never show the value: it may be a secret. */
static bool
check_header_value(const struct jr_reading *r, const struct jr_step *step, const char *text)
{
	if (text[strspn(text, " \t")] == '\0')
		return jr_refuse(r, step, "headers: the value of \"%.100s\" is empty", step->key);
	if (!jr_header_is_value(text))
		return jr_refuse(r, step,
		    "headers: the value of \"%.100s\" has a line end, a blank at an end, or another byte that is not visible ASCII",
		    step->key);
	return true;
}

/* The value of a header from a file of its own. NULL after a refusal; caller frees. */
static char *
read_header_file(const struct jr_reading *r, const struct jr_step *step, const char *name)
{
	char *path = jr_settings_path(r->directory, name);
	struct jr_err err = {.code = JR_E_CONFIG};
	char *text = NULL;
	size_t len;

	if (name[0] == '\0')
		(void)jr_refuse(r, step, "headers.%.100s: expected \"file:PATH\"", step->key);
	else if ((text = jr_settings_closed_file(path, HEADER_FILE_MAX, &err)) == NULL)
		(void)jr_refuse(r, step, "headers.%.100s: %s", step->key, err.msg);
	free(path);
	if (text == NULL)
		return NULL;
	len = strlen(text);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	return text;
}

/* The value of a header, from its file or as it is. NULL after a refusal; caller frees. */
static char *
header_value(const struct jr_reading *r, const struct jr_step *step, const char *text)
{
	if (strncmp(text, JR_FILE_PREFIX, sizeof(JR_FILE_PREFIX) - 1) == 0)
		return read_header_file(r, step, text + sizeof(JR_FILE_PREFIX) - 1);
	if (r->is_open && jr_header_is_secret(step->key)) {
		(void)jr_refuse(r, step,
		    "headers: \"%.100s\" is a secret, and this file is open to others: put it into one of its own (\"file:PATH\"), or type: chmod o-rwx,g-w %s",
		    step->key, r->path);
		return NULL;
	}
	return jr_xstrdup(text);
}

/* The header as "Name: value"; NULL after a refusal. Caller frees. */
static char *
read_header(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_http_target *http)
{
	char *text, *line = NULL;

	if (!check_header_name(r, step, value, http))
		return NULL;
	text = header_value(r, step, json_string_value(value));
	if (text != NULL && check_header_value(r, step, text))
		line = jr_xasprintf("%s: %s", step->key, text);
	jr_settings_wipe(text);
	return line;
}

static bool
read_headers(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_http_target *http = target;
	size_t used = 0;

	(void)member;
	if (!json_is_object(value))
		return jr_refuse_type(r, step, value, "an object of names and strings");
	if (json_object_size(value) > HEADERS_MAX)
		return jr_refuse(r, step, "headers: more than %d", HEADERS_MAX);
	http->headers = jr_xcalloc(json_object_size(value) + 1, sizeof(*http->headers));
	for (void *i = json_object_iter(jr_unconst(value)); i != NULL;
	     i = json_object_iter_next(jr_unconst(value), i)) {
		const struct jr_step header = {.up = step, .key = json_object_iter_key(i)};
		char *line = read_header(r, &header, json_object_iter_value(i), http);

		if (line == NULL)
			return false;
		http->headers[used++] = line;
	}
	return true;
}

/* 204 or "2xx". */
static bool
read_range(const struct jr_reading *r, const struct jr_step *step, const json_t *value, struct jr_status_range *range)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 100 && json_integer_value(value) <= 599) {
		range->from = (int)json_integer_value(value);
		range->to = range->from;
		return true;
	}
	if (text != NULL && text[0] >= '1' && text[0] <= '5' && strcmp(text + 1, "xx") == 0) {
		range->from = (text[0] - '0') * 100;
		range->to = range->from + 99;
		return true;
	}
	return jr_refuse(r, step, "expect: expected statuses from 100 to 599 and strings like \"2xx\"");
}

static bool
read_expect(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_http_target *http = target;

	(void)member;
	if (!jr_read_list(r, step, value, false))
		return false;
	free(http->expect);
	http->expect_count = json_array_size(value);
	http->expect = jr_xcalloc(http->expect_count, sizeof(*http->expect));
	for (size_t i = 0; i < http->expect_count; i++) {
		const struct jr_step element = {.up = step, .index = i};

		if (!read_range(r, &element, json_array_get(value, i), &http->expect[i]))
			return false;
	}
	return true;
}

static bool
read_ca_file(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	const struct jr_http_target *http = target;
	struct jr_err err = {.code = JR_E_CONFIG};

	if (!jr_read_path(r, step, value, member, target))
		return false;
	/*
	 * Whoever can write to it decides whom we trust. And reading a pipe would block libcurl, and so the whole
	 * runner.
	 */
	if (!jr_perm_check_named(http->ca_file, &err))
		return jr_refuse(r, step, "ca_file: %s", err.msg);
	if (access(http->ca_file, R_OK) != 0)
		return jr_refuse(r, step, "ca_file: cannot read %s: %s", http->ca_file, strerror(errno));
	return true;
}

char *
jr_http_origin(const char *url)
{
	const char *host = strstr(url, "://");

	host = host != NULL ? host + 3 : url;
	return jr_xmemdup0(url, (size_t)(host - url) + strcspn(host, "/?\\"));
}

/* In words, the method stands before the URL, in place of a label. */
static void
show_url(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;
	char *origin = jr_http_origin(http->url);

	jr_show_bare(out, http->method, origin);
	jr_show_value(out, member, jr_document_string(origin, strlen(origin)));
	free(origin);
}

static void
show_headers(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;

	jr_show_list(out, member, http->headers, jr_strings_count(http->headers), ":", NULL);
}

static void
show_secret(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;

	if (http->secret_count > 0)
		jr_show_words(out, member, http->secret_count > 1 ? "twice" : "");
	jr_show_value(out, member, json_integer((json_int_t)http->secret_count));
}

/* In words, the default is not shown. */
static void
show_timeout(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;

	if (out->words == NULL || http->timeout_ms != JR_HTTP_TIMEOUT_MS)
		jr_show_duration(out, member, target);
}

/* 204 or "200-299". */
static void
show_expect(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;
	json_t *list = json_array();

	for (size_t i = 0; i < http->expect_count; i++) {
		const struct jr_status_range *range = &http->expect[i];

		jr_document_append(list, range->from == range->to ? json_integer(range->from)
								  : json_sprintf("%d-%d", range->from, range->to));
	}
	jr_show_value(out, member, list);
}

static void
show_allow_private(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = target;

	if (!http->allow_private)
		jr_show_words(out, member, "");
	jr_show_value(out, member, json_boolean(http->allow_private));
}

/* clang-format off */
const struct jr_member jr_http_members[] = {
	{ .name = "url", .with = JR_WITH_HTTP, .read = read_url, .show = show_url, .key = "origin",
	    .help = "http:// or https://, without user and password" },
	{ .name = "method", .with = JR_WITH_HTTP, .read = read_method, .show = jr_show_text, .offset = AT(method), .label = "",
	    .help = "POST by default" },
	{ .name = "headers", .with = JR_WITH_HTTP, .read = read_headers, .show = show_headers, .rank = JR_RANK_ENV,
	    .help = "{\"Name\": \"value\"}, or \"file:PATH\" for a value that is a secret" },
	{ .name = "secret", .with = JR_WITH_HTTP, .read = jr_read_secret, .show = show_secret, .rank = JR_RANK_WHO,
	    .label = "signed", .key = "secrets", .help = "\"file:PATH\", or two of them: the keys that sign the request" },
	{ .name = "timeout", .with = JR_WITH_HTTP, .read = jr_read_duration, .show = show_timeout, .offset = AT(timeout_ms),
	    .min = 1, .rank = JR_RANK_CODES, .label = "answer within", .key = "timeout_ms",
	    .help = "for the whole transfer; 30s unless the attempt has a timeout" },
	{ .name = "connect_timeout", .with = JR_WITH_HTTP, .read = jr_read_duration, .show = jr_show_duration,
	    .offset = AT(connect_timeout_ms), .min = 1, .label = "", .key = "connect_timeout_ms",
	    .help = "until the connection is made; 10s by default" },
	{ .name = "expect", .with = JR_WITH_HTTP, .read = read_expect, .show = show_expect,
	    .help = "the statuses that mean done, like [200, \"2xx\"]; 2xx by default" },
	{ .name = "allow_private", .with = JR_WITH_HTTP, .read = jr_read_bool, .show = show_allow_private,
	    .offset = AT(allow_private), .rank = JR_RANK_CODES, .label = "no private address",
	    .help = "false: only global unicast addresses; true by default" },
	{ .name = "proxy", .with = JR_WITH_HTTP, .read = read_proxy, .show = jr_show_text, .offset = AT(proxy),
	    .rank = JR_RANK_CODES, .help = "its URL, or \"environment\" to use https_proxy" },
	{ .name = "ca_file", .with = JR_WITH_HTTP, .read = read_ca_file, .show = jr_show_text, .offset = AT(ca_file), .label = "",
	    .help = "the certificates to trust instead of the system's" },
};
/* clang-format on */
const size_t jr_http_member_count = JR_COUNT(jr_http_members);

void
jr_show_http(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_http_target *http = ((const struct jr_settings *)target)->http;
	struct jr_settings_out inner = {.words = out->words, .object = out->object != NULL ? json_object() : NULL};

	if (http != NULL) {
		jr_members_show(&inner, jr_http_members, jr_http_member_count, http);
		if (inner.object != NULL)
			jr_show_value(out, member, json_incref(inner.object));
	}
	json_decref(inner.object);
}

bool
jr_read_http(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_settings *settings = target;
	struct jr_http_target *http;

	(void)member;
	if (!json_is_object(value))
		return jr_refuse_type(r, step, value, "an object with at least \"url\"");
	http = jr_xcalloc(1, sizeof(*http));
	settings->http = http;
	http->method = jr_xstrdup("POST");
	http->timeout_ms = -1; /* not set; see set_request_timeout */
	http->connect_timeout_ms = JR_HTTP_CONNECT_MS;
	http->allow_private = true;
	http->expect = jr_xcalloc(1, sizeof(*http->expect));
	http->expect[0] = (struct jr_status_range){200, 299};
	http->expect_count = 1;
	if (!jr_members_check(r, step, value, jr_http_members, jr_http_member_count))
		return false;
	if (json_object_get(value, "url") == NULL)
		return jr_refuse(r, step, "http: \"url\" is missing");
	return jr_members_read(r, step, value, jr_http_members, jr_http_member_count, http);
}
