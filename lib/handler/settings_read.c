/*
 * settings_read: read members by their tables; readers of common types.
 *
 * What must hold: every refusal goes through jr_refuse, so that it begins with file, line and column; and no refusal
 * prints a value that may be a secret (a string is shown only if it is a duration, a size, a code or a name).
 */
#include "handler/settings_parts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000
#define MEMBERS_MAX 32

bool
jr_refuse(const struct jr_reading *r, const struct jr_step *step, const char *fmt, ...)
{
	char text[sizeof(r->err->msg)];
	size_t line, column;
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	jr_step_place(r->text, step, &line, &column);
	return jr_fail(r->err, JR_E_CONFIG, "%s:%zu:%zu: %s", r->file, line, column, text);
}

const char *
jr_type_word(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a number with a point";
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	case JSON_NULL:
		break;
	}
	return "null";
}

bool
jr_refuse_type(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected)
{
	return jr_refuse(r, step, "%s: expected %s, not %s", jr_step_name(step), expected, jr_type_word(value));
}

static const struct jr_member *
find_member(const struct jr_member *members, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(members[i].name, name) == 0)
			return &members[i];
	}
	return NULL;
}

/* Is it a member of the top level that every kind of handler may have? */
static bool
is_general(const struct jr_reading *r, const char *name)
{
	const struct jr_member *member = find_member(r->members, r->member_count, name);

	return member != NULL && member->with == JR_WITH_ANY;
}

static bool
fits(const struct jr_member *member, unsigned kind)
{
	return kind == 0 || (member->with & kind) != 0;
}

static bool
refuse_unknown(const struct jr_reading *r, const struct jr_step *step, const struct jr_member *members, size_t count)
{
	const char *names[MEMBERS_MAX] = {NULL};
	const char *nearest;
	size_t used = 0;
	struct jr_buf list;

	if (step->up != NULL && is_general(r, step->key))
		return jr_refuse(r, step, "\"%s\" belongs beside \"%s\", not in it", step->key, jr_step_name(step->up));
	for (size_t i = 0; i < count && used < JR_COUNT(names); i++) {
		if (fits(&members[i], r->kind))
			names[used++] = members[i].name;
	}
	nearest = jr_text_nearest(step->key, names, used);
	if (nearest != NULL)
		return jr_refuse(r, step, "unknown member \"%.100s\"; did you mean \"%s\"?", step->key, nearest);
	jr_buf_init(&list, NAMES_MAX);
	for (size_t i = 0; i < used; i++)
		(void)jr_buf_addf(&list, "%s%s", i == 0 ? "" : ", ", names[i]);
	(void)jr_refuse(r, step, "unknown member \"%.100s\"; the known ones are %s", step->key, list.data);
	jr_buf_release(&list);
	return false;
}

static const char *
handler_words(unsigned with)
{
	switch (with) {
	case JR_WITH_EXEC:
		return "an exec handler";
	case JR_WITH_SQL:
		return "a sql handler";
	default:
		return "an http handler";
	}
}

bool
jr_members_check(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count)
{
	for (void *i = json_object_iter(jr_unconst(object)); i != NULL;
	     i = json_object_iter_next(jr_unconst(object), i)) {
		const struct jr_step step = {.up = up, .key = json_object_iter_key(i)};
		const struct jr_member *member = find_member(members, count, step.key);

		if (member == NULL)
			return refuse_unknown(r, &step, members, count);
		if (!fits(member, r->kind))
			return jr_refuse(r, &step, "\"%s\" goes with %s, this is %s", member->name,
			    handler_words(member->with), handler_words(r->kind));
	}
	return true;
}

bool
jr_members_read(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count, void *target)
{
	for (void *i = json_object_iter(jr_unconst(object)); i != NULL;
	     i = json_object_iter_next(jr_unconst(object), i)) {
		const struct jr_step step = {.up = up, .key = json_object_iter_key(i)};
		const struct jr_member *member = find_member(members, count, step.key);

		if (member != NULL && !member->read(r, &step, json_object_iter_value(i), member, target))
			return false;
	}
	return true;
}

const char *
jr_read_text(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected)
{
	if (!json_is_string(value)) {
		(void)jr_refuse_type(r, step, value, expected);
		return NULL;
	}
	if (json_string_length(value) == 0) {
		(void)jr_refuse(r, step, "%s: expected %s, not \"\"", jr_step_name(step), expected);
		return NULL;
	}
	return json_string_value(value);
}

bool
jr_read_list(const struct jr_reading *r, const struct jr_step *step, const json_t *value, bool may_be_empty)
{
	if (!json_is_array(value))
		return jr_refuse_type(r, step, value, "a list");
	if (json_array_size(value) == 0 && !may_be_empty)
		return jr_refuse(r, step, "%s: the list is empty", jr_step_name(step));
	if (json_array_size(value) > JR_SETTINGS_LIST_MAX)
		return jr_refuse(r, step, "%s: more than %d elements", jr_step_name(step), JR_SETTINGS_LIST_MAX);
	return true;
}

char *
jr_settings_path(const char *directory, const char *path)
{
	return path[0] == '/' ? jr_xstrdup(path) : jr_xasprintf("%s/%s", directory, path);
}

bool
jr_read_duration(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	void *field = (char *)target + member->offset;
	struct jr_err err;
	int64_t ms;

	if (json_is_integer(value))
		return jr_refuse(r, step,
		    "%s: %" JSON_INTEGER_FORMAT " has no unit; write \"%" JSON_INTEGER_FORMAT
		    "s\" or \"%" JSON_INTEGER_FORMAT "m\"",
		    step->key, json_integer_value(value), json_integer_value(value), json_integer_value(value));
	if (!json_is_string(value))
		return jr_refuse_type(r, step, value, "a duration like \"10m\"");
	if (!jr_parse_duration(step->key, json_string_value(value), &ms, &err))
		return jr_refuse(r, step, "%s", err.msg);
	if (ms < member->min)
		return jr_refuse(r, step, "%s: \"%s\" is too short, at least %" PRId64 "ms", step->key,
		    json_string_value(value), member->min);
	*(int64_t *)field = ms;
	return true;
}

bool
jr_read_int(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	void *field = (char *)target + member->offset;

	if (!json_is_integer(value))
		return jr_refuse_type(r, step, value, "a whole number");
	if (json_integer_value(value) < member->min || json_integer_value(value) > member->max)
		return jr_refuse(r, step,
		    "%s: %" JSON_INTEGER_FORMAT " is out of range, expected %" PRId64 " to %" PRId64, step->key,
		    json_integer_value(value), member->min, member->max);
	*(int64_t *)field = json_integer_value(value);
	return true;
}

bool
jr_read_bool(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	void *field = (char *)target + member->offset;

	if (!json_is_boolean(value))
		return jr_refuse_type(r, step, value, "true or false");
	*(bool *)field = json_is_true(value);
	return true;
}

bool
jr_read_path(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	void *field = (char *)target + member->offset;
	const char *path = jr_read_text(r, step, value, "a path");

	if (path == NULL)
		return false;
	*(char **)field = jr_settings_path(r->directory, path);
	return true;
}
