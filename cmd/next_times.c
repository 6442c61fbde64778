/*
 * next_times: see next_times.h. From two months on, distances are in months or years, which are easier to read.
 */
#include "next_times.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "pg/pg_error.h"
#include "print.h"

/* Columns of next.sql; those from F_EITHER on are the same in each row. */
enum {
	F_LOCAL,
	F_ZONE,
	F_AGE,
	F_NOMINAL,
	F_DOCUMENT,
	F_EITHER,
	F_ENABLED,
	F_UNTIL,
	F_REASON,
	F_SCHEDULE,
	F_TIME_ZONE,
	F_HEAD,
	F_LOST
};

_Static_assert(F_DOCUMENT == JR_NEXT_TIMES_DOCUMENT && F_HEAD == JR_NEXT_TIMES_HEAD, "as the header says");

#define DAY_MS (INT64_C(86400) * 1000)
#define YEAR_DAYS 365.2425
#define MONTHS_FROM 60 /* days */
#define YEARS_FROM 730

/* "in 5h 3m", "in 4 months", "3 years ago". Caller frees. */
static char *
format_distance(int64_t age_ms)
{
	int64_t days = (age_ms < 0 ? -age_ms : age_ms) / DAY_MS;
	const char *unit = days < YEARS_FROM ? "months" : "years";
	double length = days < YEARS_FROM ? YEAR_DAYS / 12 : YEAR_DAYS;

	if (days < MONTHS_FROM)
		return jr_format_age(age_ms);
	return jr_xasprintf(
	    "%s%.0f %s%s", age_ms < 0 ? "in " : "", (double)days / length, unit, age_ms < 0 ? "" : " ago");
}

bool
jr_next_times_has_times(const PGresult *result)
{
	return PQntuples(result) > 0 && !PQgetisnull(result, 0, F_LOCAL);
}

bool
jr_next_times_has_schedule(const PGresult *result)
{
	return PQntuples(result) > 0 && !PQgetisnull(result, 0, F_SCHEDULE);
}

const char *
jr_next_times_lost(const PGresult *result)
{
	return PQntuples(result) > 0 ? jr_pg_text(result, 0, F_LOST) : NULL;
}

void
jr_next_times_print(FILE *out, const char *indent, const PGresult *result)
{
	for (int row = 0; jr_next_times_has_times(result) && row < PQntuples(result); row++) {
		const char *nominal = jr_pg_text(result, row, F_NOMINAL);
		char *distance = format_distance(jr_pg_int(result, row, F_AGE, 0));

		fprintf(out, "%s%s %s (%s%s%s%s)\n", indent, PQgetvalue(result, row, F_LOCAL),
		    PQgetvalue(result, row, F_ZONE), distance, nominal == NULL ? "" : "; there is no ",
		    nominal == NULL ? "" : nominal, nominal == NULL ? "" : " that day");
		free(distance);
	}
}

static void
hint_pause(FILE *out, const char *before, const char *name, const PGresult *result)
{
	const char *reason = jr_pg_text(result, 0, F_REASON);
	int64_t until = jr_pg_int(result, 0, F_UNTIL, 0);
	char *at = until == 0 ? jr_xstrdup("resumed") : jr_format_local_time(until);
	char *why = reason == NULL ? NULL : jr_text_visible(reason, false);

	fprintf(out, "%s%s is paused until %s%s%s%s: it starts nothing before; 'jobrun resume --definition %s'\n",
	    before, name, at, why == NULL ? "" : " (", why == NULL ? "" : why, why == NULL ? "" : ")", name);
	free(at);
	free(why);
}

void
jr_next_times_hint(FILE *out, const char *before, const char *name, const PGresult *result)
{
	if (!jr_next_times_has_times(result))
		return;
	if (jr_pg_bool(result, 0, F_EITHER))
		fprintf(out,
		    "%sday of month and weekday are both given: it fires on either day, not only where they meet\n",
		    before);
	if (!jr_pg_bool(result, 0, F_ENABLED))
		fprintf(out, "%s%s is disabled: it starts nothing; 'jobrun define %s --enable'\n", before, name, name);
	else if (!PQgetisnull(result, 0, F_UNTIL))
		hint_pause(out, before, name, result);
}

void
jr_next_times_tell(FILE *out, const char *name, const PGresult *result)
{
	const char *lost = jr_next_times_lost(result);

	if (lost != NULL || jr_next_times_has_times(result))
		fputs("next\n", out);
	if (lost != NULL)
		jr_print_line(out, "  ", lost);
	jr_next_times_print(out, "  ", result);
	jr_next_times_hint(out, "note: ", name, result);
}
