/*
 * report_times: the slots of the next day, and when runners were there in the last one. See report.h.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pg/pg_error.h"

#define DAY_MINUTES 1440
#define SLOTS_SHOWN 24 /* of a definition; if there are more, it is a band */
#define NAME_CHARACTERS 64

/* The columns of report_slots.sql. */
enum {
	SLOT_NAME,
	SLOT_TYPE,
	SLOT_SCHEDULE,
	SLOT_ZONE,
	SLOT_PAUSED,
	SLOT_NEXT,
	SLOT_MINUTES,
	SLOT_COUNT
};

/* "now", "+6 h" ... above a day that begins or ends now. */
static void
add_hours(struct jr_report *report, bool ahead)
{
	jr_buf_adds(report->out, "<div class=\"track scale\" aria-hidden=\"true\"><span></span><div>");
	for (int i = 0; i <= 4; i++) {
		const char *edge = i == 0 ? "left:0" : "right:0";

		if (i == (ahead ? 0 : 4))
			jr_buf_addf(report->out, "<i style=\"%s\">now</i>", edge);
		else if (i == 0 || i == 4)
			jr_buf_addf(report->out, "<i style=\"%s\">%s24 h</i>", edge, ahead ? "+" : "\u2212");
		else
			jr_buf_addf(report->out, "<i class=\"mid\" style=\"left:%d%%\">%s%d h</i>", i * 25,
			    ahead ? "+" : "\u2212", ahead ? i * 6 : 24 - i * 6);
	}
	jr_buf_adds(report->out, "</div></div>\n");
}

static void
track_begin(struct jr_report *report, const char *name, const char *kind)
{
	jr_buf_adds(report->out, "<li class=\"track\"><span class=\"name\">");
	jr_html_value(report->out, name, NAME_CHARACTERS);
	jr_buf_addf(report->out,
	    "</span><div><svg class=\"%s\" viewBox=\"0 0 %d 20\" preserveAspectRatio=\"none\" role=\"img\"><title>",
	    kind, DAY_MINUTES);
}

static void
add_quarters(struct jr_report *report)
{
	jr_buf_adds(report->out, "</title><path class=\"grid\" d=\"M360 0v20M720 0v20M1080 0v20\"/>");
}

/* A mark for each slot, or a band from the first one on. */
static void
add_marks(struct jr_report *report, const char *minutes)
{
	size_t count = 0;
	int64_t first = strtoll(minutes, NULL, 10);
	char *end;

	for (const char *c = minutes; *c != '\0'; c++)
		count += *c == ' ';
	jr_buf_adds(report->out, "<path class=\"slots\" d=\"");
	if (count >= SLOTS_SHOWN)
		jr_buf_addf(report->out, "M%" PRId64 " 6H%dv8H%" PRId64 "z", first, DAY_MINUTES, first);
	for (const char *c = minutes; count < SLOTS_SHOWN && *c != '\0'; c = *end == ' ' ? end + 1 : end) {
		int64_t minute = strtoll(c, &end, 10);

		if (end == c)
			break;
		jr_buf_addf(report->out, "M%" PRId64 " 3h5v14h-5z", minute);
	}
	jr_buf_adds(report->out, "\"/>");
}

static void
add_definition(struct jr_report *report, int row)
{
	const PGresult *slots = report->parts[JR_REPORT_SLOTS];
	bool paused = *PQgetvalue(slots, row, SLOT_PAUSED) == 't';

	track_begin(report, jr_pg_text(slots, row, SLOT_NAME), "day");
	jr_buf_adds(report->out, "Next at ");
	jr_html_text(report->out, jr_pg_text(slots, row, SLOT_NEXT), NAME_CHARACTERS);
	add_quarters(report);
	add_marks(report, PQgetvalue(slots, row, SLOT_MINUTES));
	jr_buf_addf(report->out, "</svg></div><p>%s<b>", paused ? "<strong>paused</strong> " : "");
	jr_html_text(report->out, jr_pg_text(slots, row, SLOT_NEXT), NAME_CHARACTERS);
	jr_buf_adds(report->out, "</b> <code>");
	jr_html_text(report->out, jr_pg_text(slots, row, SLOT_SCHEDULE), 40);
	jr_buf_adds(report->out, "</code>");
	if (strcmp(PQgetvalue(slots, row, SLOT_ZONE), report->zone) != 0) {
		jr_buf_adds(report->out, " <small>");
		jr_html_text(report->out, jr_pg_text(slots, row, SLOT_ZONE), 40);
		jr_buf_adds(report->out, "</small>");
	}
	jr_buf_adds(report->out, "</p></li>\n");
}

void
jr_report_slots(struct jr_report *report)
{
	const PGresult *slots = report->parts[JR_REPORT_SLOTS];
	int rows = PQntuples(slots);

	jr_report_section(report, "next", "The next 24 hours");
	if (rows == 0)
		jr_buf_adds(report->out, "<p class=\"empty\">No definition has a slot in them.</p>\n");
	else {
		add_hours(report, true);
		jr_buf_adds(report->out, "<ul class=\"tracks\">\n");
		for (int row = 0; row < rows; row++)
			add_definition(report, row);
		jr_buf_adds(report->out, "</ul>\n");
		jr_report_more(report, jr_pg_int(slots, 0, SLOT_COUNT, 0) - rows, "jobrun define --list");
	}
	jr_buf_adds(report->out, "</section>\n");
}

/* The columns of report_runners.sql. */
enum {
	HOST_NAME,
	HOST_RUNNERS,
	HOST_USUAL,
	HOST_SEEN,
	HOST_PAUSED,
	HOST_STRETCHES,
	HOST_GAPS,
	HOST_GAPS_TEXT,
	HOST_COUNT,
	HOST_UNKNOWN
};

/* Is the time since the host was last seen a gap, too? By the rule of report_runners.sql. */
static bool
is_away(const PGresult *runners, int row)
{
	return jr_pg_int(runners, row, HOST_SEEN, 0) / 60000 > 2 * jr_pg_int(runners, row, HOST_USUAL, 1) + 2;
}

/* Draws all stretches, or all gaps between them. A gap is at least 4 wide, so that it can be seen. */
static void
add_stretches(struct jr_report *report, int row, bool gaps)
{
	const PGresult *runners = report->parts[JR_REPORT_RUNNERS];
	int64_t before = -1;
	char *end;

	jr_buf_addf(report->out, "<path class=\"%s\" d=\"", gaps ? "gap" : "there");
	for (const char *c = PQgetvalue(runners, row, HOST_STRETCHES); *c != '\0'; c = *end == ' ' ? end + 1 : end) {
		int64_t first = strtoll(c, &end, 10), last = *end == '-' ? strtoll(end + 1, &end, 10) : first;

		if (end == c)
			break;
		if (!gaps)
			jr_buf_addf(report->out, "M%" PRId64 " 4H%" PRId64 "v12H%" PRId64 "z", first, last + 1, first);
		else if (before >= 0)
			jr_buf_addf(report->out, "M%" PRId64 " 1H%" PRId64 "v18H%" PRId64 "z", before + 1,
			    first - before < 6 ? before + 6 : first, before + 1);
		before = last;
	}
	if (gaps && before >= 0 && is_away(runners, row))
		jr_buf_addf(report->out, "M%" PRId64 " 1H%dv18H%" PRId64 "z", before + 1, DAY_MINUTES, before + 1);
	jr_buf_adds(report->out, "\"/>");
}

/* "2 gaps: 03:12 to 03:40, 18:02 to 18:09". A title has no tags in it. */
static void
add_gaps(struct jr_report *report, int row, bool in_title)
{
	const PGresult *runners = report->parts[JR_REPORT_RUNNERS];
	int64_t gaps = jr_pg_int(runners, row, HOST_GAPS, 0);

	if (is_away(runners, row)) {
		jr_buf_adds(report->out, in_title ? "not seen for " : "<strong class=\"bad\">not seen for ");
		jr_html_roughly(report->out, jr_pg_int(runners, row, HOST_SEEN, 0));
		jr_buf_adds(report->out, in_title ? "" : "</strong>");
	}
	if (gaps > 0) {
		jr_buf_addf(report->out, "%s%s%" PRId64 " gap%s: ", is_away(runners, row) ? ", before that " : "",
		    gaps > 3 ? "the last of " : "", gaps, jr_text_plural(gaps));
		jr_html_text(report->out, jr_pg_text(runners, row, HOST_GAPS_TEXT), 200);
	} else if (!is_away(runners, row))
		jr_buf_adds(report->out, "no gap");
}

static void
add_host(struct jr_report *report, int row)
{
	const PGresult *runners = report->parts[JR_REPORT_RUNNERS];
	int64_t usual = jr_pg_int(runners, row, HOST_USUAL, 1);

	track_begin(report, jr_pg_text(runners, row, HOST_NAME), "day");
	jr_html_count(report->out, jr_pg_int(runners, row, HOST_RUNNERS, 0), false);
	jr_buf_adds(report->out, " runners in 24 hours; ");
	add_gaps(report, row, true);
	add_quarters(report);
	add_stretches(report, row, false);
	add_stretches(report, row, true);
	jr_buf_adds(report->out, "</svg></div><p>");
	if (*PQgetvalue(runners, row, HOST_PAUSED) == 't')
		jr_buf_adds(report->out, "<strong>paused</strong> ");
	if (usual == 1)
		jr_buf_adds(report->out, "every minute, ");
	else
		jr_buf_addf(report->out, "every %" PRId64 " minutes, ", usual);
	add_gaps(report, row, false);
	jr_buf_adds(report->out, "</p></li>\n");
}

void
jr_report_runners(struct jr_report *report)
{
	const PGresult *runners = report->parts[JR_REPORT_RUNNERS];
	int rows = PQntuples(runners);

	jr_report_section(report, "runners", "Runners in the last 24 hours");
	if (rows == 0)
		jr_buf_adds(report->out, "<p class=\"empty\">None was seen. Is the crontab line in place?</p>\n");
	else {
		add_hours(report, false);
		jr_buf_adds(report->out, "<ul class=\"tracks\">\n");
		for (int row = 0; row < rows; row++)
			add_host(report, row);
		jr_buf_adds(report->out, "</ul>\n");
		jr_report_more(report, jr_pg_int(runners, 0, HOST_COUNT, 0) - rows, NULL);
		if (jr_pg_int(runners, 0, HOST_UNKNOWN, 0) > 0)
			jr_buf_addf(report->out,
			    "<p class=\"more\">There were so many runners that the first %" PRId64
			    " minutes of this day are not shown.</p>\n",
			    jr_pg_int(runners, 0, HOST_UNKNOWN, 0));
	}
	jr_buf_adds(report->out, "</section>\n");
}
