/*
 * out_line: parse one line of JOBRUN_OUT.
 *
 * jansson checks that it is JSON. Only the names of the members and the duration are taken from the result; the text of
 * the line is sent to the server. What must hold: the server accepts every line that is accepted here, since the line
 * is written together with the outcome of the run. So a line that is too large for PostgreSQL's jsonb or for the table
 * is refused here, and so is one that PostgreSQL would print as a much longer text (jsonb_size.h).
 */
#include "handler/out_parts.h"

#include "base/parse.h"
#include "base/text.h"
#include "handler/jsonb_size.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 200
#define NAME_SHOWN 40
#define SHORTEST (sizeof("{\"result\":1}") - 1)

/* The limits of the table for a value as jsonb, in bytes. */
#define SMALL_MAX 65536   /* progress */
#define LARGE_MAX 1049600 /* checkpoint, result */

/* The limit of what PostgreSQL prints for a line: the next claim of the run gets its checkpoint as text. */
#define PRINTED_MAX (JR_OUT_LINE_MAX + JR_OUT_LINE_SLACK)

static const char *const names[] = {
    [JR_SAYS_PROGRESS] = "progress",
    [JR_SAYS_CHECKPOINT] = "checkpoint",
    [JR_SAYS_RESULT] = "result",
    [JR_SAYS_RETRY_IN] = "retry_in",
};

static bool
read_retry_in(const json_t *value, int64_t *ms, struct jr_err *err)
{
	if (!json_is_string(value))
		return jr_fail(err, JR_E_DATA, "retry_in must be a string such as \"5m\"");
	if (!jr_parse_duration("retry_in", json_string_value(value), ms, err))
		return false;
	if (*ms <= 0)
		return jr_fail(err, JR_E_DATA, "retry_in must be more than 0");
	return true;
}

static bool
refuse_name(const char *name, struct jr_err *err)
{
	const char *nearest;
	char *shown;

	if (err == NULL)
		return false;
	nearest = jr_text_nearest(name, names, JR_COUNT(names));
	shown = jr_text_clean(name, strlen(name), NAME_SHOWN);
	if (nearest != NULL)
		jr_fail(err, JR_E_DATA, "unknown member \"%s\": did you mean \"%s\"?", shown, nearest);
	else
		jr_fail(err, JR_E_DATA, "unknown member \"%s\": known are progress, checkpoint, result and retry_in",
		    shown);
	free(shown);
	return false;
}

static bool
read_members(json_t *root, struct jr_out_line *line, struct jr_err *err)
{
	const char *name;
	json_t *value;
	bool any = false;

	if (!json_is_object(root))
		return jr_fail(err, JR_E_DATA, "not an object such as {\"progress\": {\"done\": 40}}");
	json_object_foreach(root, name, value)
	{
		size_t i = 0;

		while (i < JR_COUNT(names) && strcmp(name, names[i]) != 0)
			i++;
		if (i == JR_COUNT(names))
			return refuse_name(name, err);
		if (i == JR_SAYS_RETRY_IN && !read_retry_in(value, &line->retry_in_ms, err))
			return false;
		line->says[i] = true;
		any = true;
	}
	return any || jr_fail(err, JR_E_DATA, "an empty object: known are progress, checkpoint, result and retry_in");
}

static bool
refuse_printed(const char *what, int max, struct jr_err *err)
{
	return jr_fail(err, JR_E_DATA,
	    "%s is longer than %d bytes as PostgreSQL prints it (1e-9 as 0.000000001, a blank after each comma)", what,
	    max);
}

static bool
check_sizes(const struct jr_jsonb_size *size, size_t len, const struct jr_out_line *line, struct jr_err *err)
{
	if (size->has_huge_number)
		return jr_fail(err, JR_E_DATA, "a number of more than %d digits", JR_JSONB_NUMBER_MAX);
	if (size->printed > PRINTED_MAX)
		return refuse_printed("it", JR_OUT_LINE_MAX, err);
	if (line->says[JR_SAYS_PROGRESS] && len > JR_PROGRESS_MAX)
		return jr_fail(err, JR_E_DATA, "%zu bytes: progress has at most %d", len, JR_PROGRESS_MAX);
	if (line->says[JR_SAYS_PROGRESS] && size->stored > SMALL_MAX)
		return jr_fail(err, JR_E_DATA,
		    "progress has too many values: it would take more than %d bytes in the database", SMALL_MAX);
	if (line->says[JR_SAYS_PROGRESS] && size->printed > SMALL_MAX)
		return refuse_printed("progress", SMALL_MAX, err);
	return true;
}

/* Integers are read as reals, so that large integers are no error. Their digits are kept in the text. */
static json_t *
parse(const char *text, size_t len, struct jr_err *err)
{
	json_error_t why;
	json_t *root;
	char *clean;

	if (memchr(text, '\0', len) != NULL) {
		jr_fail(err, JR_E_DATA, "it has a NUL byte");
		return NULL;
	}
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, err != NULL ? &why : NULL);
	if (root != NULL || err == NULL)
		return root;
	clean = jr_text_clean(why.text, strlen(why.text), WHY_MAX);
	jr_fail(err, JR_E_DATA, "not JSON, at column %d: %s", why.column, clean);
	free(clean);
	return NULL;
}

/* Is it an object that is long enough for a member? Without this, lines of one byte take a second for 4 MiB. */
static bool
may_be_valid(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
		i++;
	return len - i >= SHORTEST && text[i] == '{';
}

bool
jr_out_line_read(const char *text, size_t len, struct jr_out_line *line, struct jr_err *err)
{
	struct jr_jsonb_size size;
	json_t *root;
	bool done;

	*line = (struct jr_out_line){0};
	if (err == NULL && !may_be_valid(text, len))
		return false;
	size = jr_jsonb_measure(text, len);
	/* Before jansson, which can need a hundred times as much memory. */
	if (size.stored > LARGE_MAX)
		return jr_fail(err, JR_E_DATA, "it would take more than %d bytes in the database", LARGE_MAX);
	root = parse(text, len, err);
	if (root == NULL)
		return false;
	done = read_members(root, line, err) && check_sizes(&size, len, line, err);
	json_decref(root);
	return done;
}
