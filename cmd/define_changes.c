/*
 * define_changes: turn the options of `jobrun define` into the object that jobrun.define() takes.
 *
 * The object has a member only if its option was given, so that all other columns stay as they are.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "define.h"

#define PRIORITY_MAX 1000

static bool
is_none(const char *text)
{
	return strcmp(text, "none") == 0;
}

bool
jr_define_check_name(const char *what, const char *text, struct jr_err *err)
{
	return is_none(text) || jr_parse_job_type(what, text, err);
}

bool
jr_define_check_queue(const char *what, const char *text, struct jr_err *err)
{
	return is_none(text) || jr_parse_queue(what, text, err);
}

bool
jr_define_check_priority(const char *what, const char *text, struct jr_err *err)
{
	int64_t unused;

	return is_none(text) || jr_parse_int(what, text, -PRIORITY_MAX, PRIORITY_MAX, &unused, err);
}

bool
jr_define_check_attempts(const char *what, const char *text, struct jr_err *err)
{
	int64_t unused;

	return is_none(text) || jr_parse_int(what, text, 1, INT32_MAX, &unused, err);
}

bool
jr_define_check_duration(const char *what, const char *text, struct jr_err *err)
{
	int64_t unused;

	return is_none(text) || jr_parse_duration(what, text, &unused, err);
}

/* Split "BASE[,CAP]": returns the base; *cap is the cap or NULL. Caller frees both. */
static char *
split_backoff(const char *text, char **cap)
{
	size_t len = strcspn(text, ",");

	*cap = text[len] == ',' ? jr_xstrdup(text + len + 1) : NULL;
	return jr_xmemdup0(text, len);
}

bool
jr_define_check_backoff(const char *what, const char *text, struct jr_err *err)
{
	char *cap, *base = split_backoff(text, &cap);
	int64_t base_ms = 0, cap_ms = JR_DURATION_MAX_MS;
	bool ok = (is_none(base) || jr_parse_duration(what, base, &base_ms, err)) &&
		  (cap == NULL || is_none(cap) || jr_parse_duration(what, cap, &cap_ms, err));

	if (ok && cap_ms < base_ms)
		ok = jr_fail(err, JR_E_USAGE, "%s: the cap of \"%.100s\" is less than its base", what, text);
	free(base);
	free(cap);
	return ok;
}

enum shape {
	TEXT,
	NUMBER,
	DURATION
};

/* As an interval in hours, minutes and seconds: old servers cannot read large numbers of milliseconds. */
static json_t *
duration_value(const char *text)
{
	struct jr_err unused;
	int64_t ms = 0;
	char *interval;
	json_t *value;

	if (!jr_parse_duration("", text, &ms, &unused))
		return json_null();
	interval = jr_xasprintf("%" PRId64 ":%02" PRId64 ":%02" PRId64 ".%03" PRId64, ms / 3600000, ms / 60000 % 60,
	    ms / 1000 % 60, ms % 1000);
	value = json_string(interval);
	free(interval);
	return value;
}

/* `text` has been checked. NULL: it is not UTF-8. */
static json_t *
value_of(enum shape shape, const char *text)
{
	if (is_none(text))
		return json_null();
	if (shape == DURATION)
		return duration_value(text);
	return shape == NUMBER ? json_integer(strtoll(text, NULL, 10)) : json_string(text);
}

/* false: the text is not UTF-8. */
static bool
set(json_t *changes, const char *member, enum shape shape, const char *text)
{
	return text == NULL || json_object_set_new(changes, member, value_of(shape, text)) == 0;
}

static void
set_backoff(json_t *changes, const char *text)
{
	char *cap, *base;

	if (text == NULL)
		return;
	base = split_backoff(text, &cap);
	if (cap == NULL && is_none(base)) /* "none" alone resets both */
		cap = jr_xstrdup(base);
	(void)set(changes, "backoff_base", DURATION, base);
	(void)set(changes, "backoff_cap", DURATION, cap);
	free(base);
	free(cap);
}

static bool
set_all(json_t *changes, const struct jr_define_opts *opts, struct jr_err *err)
{
	const struct {
		const char *option, *member, *text;
		enum shape shape;
	} all[] = {
	    {"type", "job_type", opts->type, TEXT},
	    {"schedule", "schedule", opts->schedule, TEXT},
	    {"time-zone", "time_zone", opts->time_zone, TEXT},
	    {"queue", "queue", opts->queue, TEXT},
	    {"priority", "priority", opts->priority, NUMBER},
	    {"max-attempts", "max_attempts", opts->max_attempts, NUMBER},
	    {"timeout", "timeout", opts->timeout, DURATION},
	    {"lock", "concurrency_key", opts->lock, TEXT},
	    {"on-dead", "on_dead", opts->on_dead, TEXT},
	    {"catch-up", "catch_up", opts->catch_up, TEXT},
	    {"catch-up-grace", "catch_up_grace", opts->catch_up_grace, DURATION},
	    {"overlap", "overlap", opts->overlap, TEXT},
	    {"description", "description", opts->description, TEXT},
	    {"restart", "anchor_at", opts->restart ? "now" : NULL, TEXT},
	};

	for (size_t i = 0; i < JR_COUNT(all); i++) {
		if (!set(changes, all[i].member, all[i].shape, all[i].text))
			return jr_fail(err, JR_E_DATA, "--%s: it is not UTF-8", all[i].option);
	}
	set_backoff(changes, opts->backoff);
	if (opts->enable || opts->disable)
		json_object_set_new(changes, "enabled", json_boolean(opts->enable));
	return true;
}

char *
jr_define_changes(const struct jr_define_opts *opts, struct jr_err *err)
{
	json_t *changes = json_object();
	char *text = NULL;

	if (set_all(changes, opts, err))
		text = json_dumps(changes, JSON_COMPACT);
	json_decref(changes);
	return text;
}
