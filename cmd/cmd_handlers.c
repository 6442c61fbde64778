/*
 * handlers: what this host can do, and what it cannot though somebody put a file there for it. Asks no database.
 *
 * In the JSON document members are called as in NAME.json, with the unit behind the name where a string became a
 * number, and what is not set is left out.
 *
 * What must hold: nothing is shown that may be a secret: of headers and variables only the names, of a URL only
 * scheme, host and port (some services put their key into the path), and of a secret nothing but that there is one.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "commands.h"
#include "handler/handlers.h"
#include "print.h"

#define WORDS_MAX 4000
#define TEXT_MAX 4096 /* of one string in the document */

struct handlers_opts {
	const char *handlers;
	bool check;
};

static const struct handlers_opts handlers_defaults = {.handlers = NULL};

#define AT(field) offsetof(struct handlers_opts, field)

/* clang-format off */
static const struct jr_option handlers_options[] = {
	{ .name = "handlers", .arg = "DIR", .help = "the handlers directory (~/.config/jobrun/handlers, else /etc/jobrun/handlers)",
	    .type = JR_OPT_STRING, .offset = AT(handlers), .env = "JOBRUN_HANDLERS" },
	{ .name = "check", .help = "exit 1 when a file there is not used though it looks as if it should be",
	    .type = JR_OPT_FLAG, .offset = AT(check) },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "TYPE", JR_CELL_TEXT },
	{ "KIND", JR_CELL_TEXT },
	{ "SETTINGS", JR_CELL_TEXT },
	{ "FROM", JR_CELL_CUT },
};
/* clang-format on */

/* Scheme, host and port. Caller frees. */
static char *
origin_of(const char *url)
{
	const char *host = strstr(url, "://");

	host = host != NULL ? host + 3 : url;
	return jr_xmemdup0(url, (size_t)(host - url) + strcspn(host, "/?\\"));
}

static void
say(struct jr_buf *words, const char *name, const char *value)
{
	(void)jr_buf_addf(
	    words, "%s%s%s%s", words->len > 0 ? ", " : "", name, name[0] != '\0' && value[0] != '\0' ? " " : "", value);
}

static void
say_duration(struct jr_buf *words, const char *name, int64_t ms)
{
	char *text;

	if (ms < 0)
		return;
	text = jr_format_duration(ms);
	say(words, name, text);
	free(text);
}

static void
say_int(struct jr_buf *words, const char *name, int64_t number)
{
	char text[24];

	if (number < 0)
		return;
	(void)snprintf(text, sizeof(text), "%" PRId64, number);
	say(words, name, text);
}

/* As it would be written: 512M. */
static void
say_size(struct jr_buf *words, const char *name, int64_t bytes)
{
	static const char *const units[] = {"", "K", "M", "G"};
	char text[24];
	size_t i = 0;

	if (bytes < 0)
		return;
	while (i < JR_COUNT(units) - 1 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(text, sizeof(text), "%" PRId64 "%s", bytes, units[i]);
	say(words, name, text);
}

static void
say_codes(struct jr_buf *words, const char *name, bool is_set, const struct jr_codes *codes)
{
	struct jr_buf list;

	if (!is_set)
		return;
	jr_buf_init(&list, WORDS_MAX);
	for (size_t i = 0; i < codes->count; i++)
		(void)jr_buf_addf(&list, "%s%s", i > 0 ? " " : "", codes->items[i]);
	say(words, name, codes->count > 0 ? list.data : "never");
	jr_buf_release(&list);
}

/* Up to the "=" or ":" of each. */
static void
say_names(struct jr_buf *words, const char *name, char *const *items, const char *end)
{
	struct jr_buf list;

	if (items == NULL || items[0] == NULL)
		return;
	jr_buf_init(&list, WORDS_MAX);
	for (size_t i = 0; items[i] != NULL; i++)
		(void)jr_buf_addf(&list, "%s%.*s", i > 0 ? " " : "", (int)strcspn(items[i], end), items[i]);
	say(words, name, list.data);
	jr_buf_release(&list);
}

static void
say_http(struct jr_buf *words, const struct jr_http_target *http)
{
	char *origin = origin_of(http->url);

	say(words, http->method, origin);
	free(origin);
	if (http->secret_count > 0)
		say(words, "signed", http->secret_count > 1 ? "twice" : "");
	say_names(words, "headers", http->headers, ":");
	if (http->timeout_ms != JR_HTTP_TIMEOUT_MS && http->timeout_ms != JR_HTTP_NO_TIMEOUT)
		say_duration(words, "answer within", http->timeout_ms);
	if (!http->allow_private)
		say(words, "no private address", "");
	if (http->proxy != NULL)
		say(words, "proxy", http->proxy);
}

/* In a few words. Caller frees; NULL: nothing is set. */
static char *
settings_words(const struct jr_settings *settings)
{
	const struct jr_limits *limits = &settings->limits;
	struct jr_buf words;
	char *text;

	jr_buf_init(&words, WORDS_MAX);
	if (settings->http != NULL)
		say_http(&words, settings->http);
	if (settings->argv != NULL)
		say(&words, "", settings->argv[0]);
	if (settings->timeout_ms == 0)
		say(&words, "no timeout", "");
	else
		say_duration(&words, "timeout", settings->timeout_ms);
	say_duration(&words, "grace", settings->grace_ms);
	if (settings->batch > 0)
		say_int(&words, "batch", settings->batch);
	if (settings->user != NULL)
		say(&words, "user", settings->user);
	if (settings->no_new_privs_said)
		say(&words, "no_new_privs", limits->no_new_privs ? "true" : "false");
	if (settings->cwd != NULL)
		say(&words, "cwd", settings->cwd);
	if (limits->has_nice)
		(void)jr_buf_addf(&words, "%snice %d", words.len > 0 ? ", " : "", limits->nice);
	say_duration(&words, "cpu", limits->cpu_s < 0 ? -1 : limits->cpu_s * 1000);
	say_size(&words, "memory", limits->memory);
	say_int(&words, "files", limits->files);
	say_int(&words, "processes", limits->processes);
	say_names(&words, "env", settings->env, "=");
	say_codes(&words, "give up", settings->rules.give_up_set, &settings->rules.give_up);
	say_codes(&words, "later", settings->rules.later_set, &settings->rules.later);
	text = words.len > 0 ? jr_buf_detach(&words) : NULL;
	jr_buf_release(&words);
	return text;
}

/* The file, and its settings if they are in another. Caller frees; NULL: built-in. */
static char *
from_words(const struct jr_handler *handler)
{
	const char *settings = handler->settings_path;

	if (handler->path == NULL)
		return NULL;
	if (settings == NULL || strcmp(settings, handler->path) == 0)
		return jr_xstrdup(handler->path);
	return jr_xasprintf("%s, %s", handler->path, strrchr(settings, '/') + 1);
}

static void
print_table(const struct jr_handlers *handlers)
{
	size_t count = handlers->count;
	char **words = jr_xcalloc(count * 2 + 1, sizeof(*words));
	const char **cells = jr_xcalloc(count * JR_COUNT(columns) + 1, sizeof(*cells));

	for (size_t i = 0; i < count; i++) {
		const struct jr_handler *handler = &handlers->items[i];
		const char **row = &cells[i * JR_COUNT(columns)];

		words[i * 2] = settings_words(&handler->settings);
		words[i * 2 + 1] = from_words(handler);
		row[0] = handler->job_type;
		row[1] = handler->kind->name;
		row[2] = words[i * 2];
		row[3] = words[i * 2 + 1];
	}
	jr_print_rows(cells, count, columns, JR_COUNT(columns));
	for (size_t i = 0; i < count * 2; i++)
		free(words[i]);
	free(words);
	free(cells);
}

/* Takes `value`. */
static void
set(json_t *object, const char *name, json_t *value)
{
	if (value == NULL || json_object_set_new(object, name, value) != 0)
		abort(); /* no memory: as mem.h does */
}

/* jansson takes valid UTF-8 only, and names of files may be anything. */
static json_t *
clean(const char *text, size_t len)
{
	char *bytes = jr_text_clean(text, len, TEXT_MAX);
	json_t *string = json_string(bytes);

	free(bytes);
	return string;
}

static void
set_text(json_t *object, const char *name, const char *text)
{
	if (text != NULL)
		set(object, name, clean(text, strlen(text)));
}

static void
set_int(json_t *object, const char *name, int64_t number)
{
	if (number >= 0)
		set(object, name, json_integer(number));
}

/* Takes `value`. */
static void
append(json_t *array, json_t *value)
{
	if (value == NULL || json_array_append_new(array, value) != 0)
		abort();
}

/* A list of the items, each up to the first of the bytes of `end`. */
static json_t *
list_of(char *const *items, size_t count, const char *end)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		append(list, clean(items[i], strcspn(items[i], end)));
	return list;
}

static size_t
count_of(char *const *items)
{
	size_t count = 0;

	while (items != NULL && items[count] != NULL)
		count++;
	return count;
}

/* 204 or "200-299". */
static json_t *
expect_of(const struct jr_http_target *http)
{
	json_t *list = json_array();

	for (size_t i = 0; i < http->expect_count; i++) {
		const struct jr_status_range *range = &http->expect[i];

		append(list, range->from == range->to ? json_integer(range->from)
						      : json_sprintf("%d-%d", range->from, range->to));
	}
	return list;
}

static json_t *
http_of(const struct jr_http_target *http)
{
	json_t *object = json_object();
	char *origin = origin_of(http->url);

	set_text(object, "origin", origin);
	set_text(object, "method", http->method);
	set(object, "headers", list_of(http->headers, count_of(http->headers), ":"));
	set_int(object, "secrets", (int64_t)http->secret_count);
	if (http->timeout_ms != JR_HTTP_NO_TIMEOUT)
		set_int(object, "timeout_ms", http->timeout_ms);
	set_int(object, "connect_timeout_ms", http->connect_timeout_ms);
	set(object, "expect", expect_of(http));
	set(object, "allow_private", json_boolean(http->allow_private));
	set_text(object, "proxy", http->proxy);
	set_text(object, "ca_file", http->ca_file);
	free(origin);
	return object;
}

static json_t *
settings_of(const struct jr_settings *settings)
{
	const struct jr_rules *rules = &settings->rules;
	const struct jr_limits *limits = &settings->limits;
	json_t *object = json_object();

	set_int(object, "timeout_ms", settings->timeout_ms);
	set_int(object, "grace_ms", settings->grace_ms);
	if (rules->give_up_set)
		set(object, "give_up", list_of(rules->give_up.items, rules->give_up.count, ""));
	if (rules->later_set)
		set(object, "later", list_of(rules->later.items, rules->later.count, ""));
	if (settings->argv != NULL)
		set_text(object, "program", settings->argv[0]);
	if (settings->env != NULL)
		set(object, "env", list_of(settings->env, count_of(settings->env), "="));
	set_text(object, "cwd", settings->cwd);
	set_text(object, "user", settings->user);
	if (settings->user != NULL || settings->no_new_privs_said)
		set(object, "no_new_privs", json_boolean(limits->no_new_privs));
	if (limits->has_nice)
		set(object, "nice", json_integer(limits->nice));
	set_int(object, "cpu_s", limits->cpu_s);
	set_int(object, "memory", limits->memory);
	set_int(object, "files", limits->files);
	set_int(object, "processes", limits->processes);
	if (settings->batch > 0)
		set_int(object, "batch", settings->batch);
	if (settings->http != NULL)
		set(object, "http", http_of(settings->http));
	return object;
}

static json_t *
handler_of(const struct jr_handler *handler)
{
	json_t *object = json_object();

	set_text(object, "job_type", handler->job_type);
	set_text(object, "kind", handler->kind->name);
	set_text(object, "path", handler->path);
	set_text(object, "settings_path", handler->settings_path);
	set(object, "settings", settings_of(&handler->settings));
	return object;
}

/* `nothing`: why there is nothing to run here, NULL if there is something; it is one more problem. */
static void
print_document(const struct jr_handlers *handlers, const char *nothing)
{
	json_t *root = json_object(), *items = json_array();
	json_t *problems = list_of(handlers->problems, handlers->problem_count, "");

	for (size_t i = 0; i < handlers->count; i++)
		append(items, handler_of(&handlers->items[i]));
	if (nothing != NULL)
		append(problems, clean(nothing, strlen(nothing)));
	set_text(root, "directory", handlers->directory);
	set(root, "handlers", items);
	set(root, "problems", problems);
	jr_print_value(root, JSON_COMPACT);
	json_decref(root);
}

/* Why there is nothing to run here; NULL if there is something, or problems say it. */
static const char *
problem_of_all(const struct jr_handlers *handlers, struct jr_err *why)
{
	return jr_handlers_check(handlers, why) || handlers->problem_count > 0 ? NULL : why->msg;
}

static int
handlers_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct handlers_opts *opts = values;
	char *directory = jr_handlers_directory(opts->handlers);
	struct jr_err why = {.code = JR_E_CONFIG};
	struct jr_handlers handlers;
	const char *nothing;
	bool done = jr_handlers_read(&handlers, directory, err);
	int status;

	(void)argc;
	(void)argv;
	free(directory);
	if (!done)
		return (int)err->code;
	nothing = problem_of_all(&handlers, &why);
	status = opts->check && (nothing != NULL || handlers.problem_count > 0) ? JR_E_NEWS : 0;
	if (app->json) {
		print_document(&handlers, nothing);
	} else {
		print_table(&handlers);
		for (size_t i = 0; i < handlers.problem_count; i++)
			jr_print_line(stdout, "! ", handlers.problems[i]);
		if (nothing != NULL)
			jr_print_line(stdout, "! ", nothing);
	}
	jr_handlers_release(&handlers);
	return status;
}

const struct jr_cmd jr_cmd_handlers = {
    .name = "handlers",
    .group = JR_GROUP_SETUP,
    .summary = "what this host can do, with what settings, and what is wrong",
    .usage = "[OPTION...]",
    .details = "Needs no database. A line that begins with ! is a file that is not used, and why.\n",
    .options = handlers_options,
    .defaults = &handlers_defaults,
    .size = sizeof(handlers_defaults),
    .run = handlers_run,
};
