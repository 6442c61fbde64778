/*
 * settings_place: find line and column of a member in the text of a NAME.json. Pure.
 *
 * jansson does not keep the places of members. So the text of the document is searched again when a member is refused.
 * The text is valid JSON then, which keeps the search simple. What must hold: the search never leaves the text. A key
 * with escapes is not found; the place is then that of the object that contains it.
 */
#include "handler/settings_parts.h"

#include <string.h>

#define BLANKS " \t\r\n"

/* Where a member's name (or an element) begins, and where its value begins. */
struct place {
	const char *at, *value;
};

static const char *
skip_blanks(const char *at)
{
	return at + strspn(at, BLANKS);
}

/* The end of the string that begins at `at`. */
static const char *
string_end(const char *at)
{
	for (at++; *at != '"' && *at != '\0'; at++) {
		if (*at == '\\' && at[1] != '\0')
			at++;
	}
	return *at == '"' ? at + 1 : at;
}

/* The end of the value that begins at `at`. */
static const char *
value_end(const char *at)
{
	size_t depth = 0;

	do {
		at = skip_blanks(at);
		if (*at == '"') {
			at = string_end(at);
		} else if (*at != '\0' && strchr("{[}],:", *at) != NULL) {
			if (*at == '{' || *at == '[')
				depth++;
			else if (depth > 0 && (*at == '}' || *at == ']'))
				depth--;
			at++;
		} else {
			at += strcspn(at, BLANKS "{[}],:\"");
		}
	} while (depth > 0 && *at != '\0');
	return at;
}

/* The value of the member whose name begins at `at`; NULL if there is none. */
static const char *
member_value(const char *at)
{
	if (*at != '"')
		return NULL;
	at = skip_blanks(string_end(at));
	return *at == ':' ? skip_blanks(at + 1) : NULL;
}

static bool
is_named(const char *at, const char *key)
{
	size_t len = strlen(key);

	return at[0] == '"' && strncmp(at + 1, key, len) == 0 && at[1 + len] == '"';
}

/* Find the step in the object or list that begins at `at`. */
static bool
find_in(const char *at, const struct jr_step *step, struct place *place)
{
	size_t index = 0;

	if (*at != (step->key != NULL ? '{' : '['))
		return false;
	at = skip_blanks(at + 1);
	while (*at != '\0' && *at != '}' && *at != ']') {
		const char *value = step->key != NULL ? member_value(at) : at;

		if (value == NULL)
			return false;
		if (step->key != NULL ? is_named(at, step->key) : index == step->index) {
			*place = (struct place){at, value};
			return true;
		}
		at = skip_blanks(value_end(value));
		if (*at == ',')
			at = skip_blanks(at + 1);
		index++;
	}
	return false;
}

/* The place of the step, or of the innermost step above it that can be found. */
static struct place
find(const char *text, const struct jr_step *step)
{
	const char *begin = skip_blanks(text);
	struct place place = {begin, begin};

	if (step == NULL)
		return place;
	place = find(text, step->up);
	(void)find_in(place.value, step, &place);
	return place;
}

void
jr_step_place(const char *text, const struct jr_step *step, size_t *line, size_t *column)
{
	const char *at = find(text, step).at;

	*line = 1;
	*column = 1;
	for (; text < at; text++) {
		if (*text == '\n') {
			*line += 1;
			*column = 1;
		} else if (((unsigned char)*text & 0xC0) != 0x80) {
			*column += 1;
		}
	}
}

const char *
jr_step_name(const struct jr_step *step)
{
	while (step != NULL && step->key == NULL)
		step = step->up;
	return step != NULL ? step->key : "the file";
}
