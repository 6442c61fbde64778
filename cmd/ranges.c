/* ranges: see ranges.h. */
#include "ranges.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"

/* One end of a range: a number, or of seconds a duration of whole seconds. */
static bool
read_end(const char *what, const char *text, bool seconds, int64_t *out, struct jr_err *err)
{
	bool number = strspn(text, "-0123456789") == strlen(text);
	int64_t ms = 0;

	if (number || !seconds)
		return jr_parse_int(what, text, -INT64_C(1000000000000), INT64_C(1000000000000), out, err);
	if (!jr_parse_duration(what, text, &ms, err))
		return false;
	if (ms % 1000 != 0)
		return jr_fail(err, JR_E_USAGE, "%s: \"%s\" has parts of a second; write whole seconds", what, text);
	*out = ms / 1000;
	return true;
}

/* `ends` is START:END, or END, without the @; it is cut at the colon. */
static bool
read_ends(const char *what, char *ends, bool seconds, struct jr_range *range, struct jr_err *err)
{
	char *colon = strchr(ends, ':');
	const char *end = colon == NULL ? ends : colon + 1;

	if (colon != NULL) {
		*colon = '\0';
		if (strcmp(ends, "~") == 0)
			range->low = INT64_MIN;
		else if (*ends != '\0' && !read_end(what, ends, seconds, &range->low, err))
			return false;
	}
	if (colon != NULL && *end == '\0')
		return true;
	return read_end(what, end, seconds, &range->high, err);
}

bool
jr_range_parse(const char *what, const char *text, bool seconds, struct jr_range *range, struct jr_err *err)
{
	struct jr_range read = {.high = INT64_MAX, .inside = *text == '@'};
	char *ends = jr_xstrdup(text + read.inside);
	bool ok = read_ends(what, ends, seconds, &read, err);

	free(ends);
	if (ok && read.low > read.high)
		return jr_fail(
		    err, JR_E_USAGE, "%s: \"%s\": a range goes from the lower to the higher number", what, text);
	if (ok)
		*range = read;
	return ok;
}

bool
jr_range_alerts(const struct jr_range *range, int64_t value)
{
	bool is_in = value >= range->low && value <= range->high;

	return is_in == range->inside;
}

char *
jr_range_text(const struct jr_range *range)
{
	char *low = range->low == 0           ? jr_xstrdup("")
		    : range->low == INT64_MIN ? jr_xstrdup("~:")
					      : jr_xasprintf("%" PRId64 ":", range->low);
	char *high = range->high == INT64_MAX ? jr_xstrdup("") : jr_xasprintf("%" PRId64, range->high);
	char *text =
	    jr_xasprintf("%s%s%s", range->inside ? "@" : "", range->low == 0 && *high == '\0' ? "0:" : low, high);

	free(low);
	free(high);
	return text;
}
