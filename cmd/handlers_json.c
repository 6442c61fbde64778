/*
 * handlers_json: see handlers_json.h. Members are called as in NAME.json, with the unit behind the name where a string
 * became a number. What is not set is left out.
 */
#include "handlers_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define TEXT_MAX 4096

char *
jr_origin_of(const char *url)
{
	const char *host = strstr(url, "://");

	host = host != NULL ? host + 3 : url;
	return jr_xmemdup0(url, (size_t)(host - url) + strcspn(host, "/?\\"));
}

/* jansson takes valid UTF-8 only, and names of files may be anything. Takes `value`. */
static void
set(json_t *object, const char *name, json_t *value)
{
	if (value == NULL || json_object_set_new(object, name, value) != 0)
		abort(); /* no memory: as mem.h does */
}

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

static void
append(json_t *array, json_t *value)
{
	if (value == NULL || json_array_append_new(array, value) != 0)
		abort();
}

/* A list of each up to one of the bytes of `end`. */
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
	char *origin = jr_origin_of(http->url);

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

void
jr_handlers_print_json(const struct jr_handlers *handlers, const char *nothing)
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
	(void)json_dumpf(root, stdout, JSON_COMPACT); /* main looks at stdout in the end */
	puts("");
	json_decref(root);
}
