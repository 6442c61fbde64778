/*
 * report_types: a row for each job type: its week as a strip, what has ended, what is left, and how long it takes. See
 * report.h.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/pg_error.h"

#define TYPES_MAX 50
#define UP 28   /* of a strip: what was done */
#define DOWN 12 /* and below it the share that failed */

/* What ended in an hour. */
struct hour {
	int64_t ok, bad;
};

/* "HOUR:SUCCEEDED:FAILED ..." as report_work.sql writes it. */
static void
read_hours(const char *text, struct hour hours[JR_REPORT_HOURS])
{
	char *end;

	while (text != NULL && *text != '\0') {
		int64_t nr = strtoll(text, &end, 10), ok, bad;

		if (end == text || *end != ':')
			return;
		ok = strtoll(end + 1, &end, 10);
		if (*end != ':')
			return;
		bad = strtoll(end + 1, &end, 10);
		if (nr >= 0 && nr < JR_REPORT_HOURS)
			hours[nr] = (struct hour){ok, bad};
		text = *end == ' ' ? end + 1 : end;
	}
}

/* How high the bar of an hour is: what was done, against the most in an hour. */
static int
height_of(const struct hour *hour, int64_t most)
{
	int height = most == 0 ? 0 : (int)((double)hour->ok * UP / (double)most + 0.5);

	return hour->ok > 0 && height < 1 ? 1 : height;
}

/* How deep it is: the share that failed. */
static int
depth_of(const struct hour *hour)
{
	int64_t all = hour->ok + hour->bad;
	int depth = all == 0 ? 0 : (int)((double)hour->bad * DOWN / (double)all + 0.5);

	return hour->bad > 0 && depth < 2 ? 2 : depth;
}

/* One outline of all hours, upwards or downwards: hours of the same size are one step. */
static void
add_outline(struct jr_report *report, const char *kind, const int *sizes, int from, bool down)
{
	jr_buf_addf(report->out, "<path class=\"%s\" d=\"M0 %d", kind, from);
	for (int i = 0; i < JR_REPORT_HOURS;) {
		int first = i;

		while (i < JR_REPORT_HOURS && sizes[i] == sizes[first])
			i++;
		jr_buf_addf(report->out, "V%dh%d", down ? from + sizes[first] : from - sizes[first], i - first);
	}
	jr_buf_addf(report->out, "V%dz\"/>", from);
}

static void
add_strip(struct jr_report *report, int row)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	struct hour hours[JR_REPORT_HOURS] = {{0, 0}};
	int heights[JR_REPORT_HOURS], depths[JR_REPORT_HOURS];
	int64_t most = 0;

	read_hours(jr_pg_text(work, row, JR_WORK_HOURS), hours);
	for (int i = 0; i < JR_REPORT_HOURS; i++)
		most = hours[i].ok > most ? hours[i].ok : most;
	for (int i = 0; i < JR_REPORT_HOURS; i++) {
		heights[i] = height_of(&hours[i], most);
		depths[i] = depth_of(&hours[i]);
	}
	jr_buf_addf(report->out,
	    "<td class=\"week\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\"><title>",
	    JR_REPORT_HOURS, UP + 1 + DOWN);
	jr_buf_adds(report->out, "Seven days by hour: at most ");
	jr_html_count(report->out, most, false);
	jr_buf_addf(report->out, " done in one hour</title><path class=\"grid\" d=\"M0 %dh%d\"/>", UP, JR_REPORT_HOURS);
	add_outline(report, "ok", heights, UP, false);
	add_outline(report, "dead", depths, UP + 1, true);
	jr_buf_adds(report->out, "</svg></td>");
}

/* A cell with a number; `kind` is its colour unless it is 0. */
static void
add_number(struct jr_report *report, const char *label, const char *kind, int64_t n, bool more)
{
	jr_buf_addf(report->out, "<td class=\"n %s\" data-l=\"%s\">", n == 0 ? "zero" : kind, label);
	jr_html_count(report->out, n, more);
	jr_buf_adds(report->out, "</td>");
}

/* Where a time lies between 1 ms and 1 d, in percent. */
static double
place_of(int64_t ms)
{
	return 100 * jr_report_within(0, jr_report_power(ms) / jr_report_ticks[JR_REPORT_TICKS - 1].power, 1);
}

/* "512 ms 4.1 s", and from where to where that is on a scale that all types share. */
static void
add_range(struct jr_report *report, int row, const char *label, int first)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int64_t low = jr_pg_int(work, row, first, 0), high = jr_pg_int(work, row, first + 1, 0);

	jr_buf_addf(report->out, "<td class=\"range\" data-l=\"%s\">", label);
	if (PQgetisnull(work, row, first))
		jr_buf_adds(report->out, "<span class=\"zero\">\u2013</span>");
	else {
		jr_html_about(report->out, low);
		jr_buf_adds(report->out, " <b>");
		jr_html_about(report->out, high);
		jr_buf_addf(report->out, "</b><span class=\"scale\"><i style=\"left:%.0f%%;width:%.0f%%\"></i></span>",
		    place_of(low) - 2, place_of(high) - place_of(low) + 2);
	}
	jr_buf_adds(report->out, "</td>");
}

/* Below its name: when it last went well, what is due, when it comes again. */
static void
add_moments(struct jr_report *report, int row)
{
	static const struct {
		int column;
		const char *before, *after;
	} moments[] = {
	    {JR_WORK_OLDEST, "due for ", ""}, {JR_WORK_LAST_OK, "done ", " ago"}, {JR_WORK_NEXT, "next in ", ""}};
	const PGresult *work = report->parts[JR_REPORT_WORK];
	const char *between = "";

	jr_buf_adds(report->out, "<small>");
	for (size_t i = 0; i < JR_COUNT(moments); i++) {
		int64_t ms = jr_pg_int(work, row, moments[i].column, -1);

		if (ms < 0)
			continue;
		jr_buf_addf(report->out, "%s%s", between, moments[i].before);
		jr_html_roughly(report->out, ms);
		jr_buf_adds(report->out, moments[i].after);
		between = " \u00b7 ";
	}
	jr_buf_adds(report->out, "</small>");
}

static void
add_type(struct jr_report *report, int row)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	bool waits_more = *PQgetvalue(work, row, JR_WORK_WAITS_MORE) == 't';
	int64_t waiting = jr_pg_int(work, row, JR_WORK_QUEUED, 0) + jr_pg_int(work, row, JR_WORK_RETRYING, 0);

	jr_buf_adds(report->out, "<tr><th scope=\"row\">");
	jr_html_value(report->out, jr_pg_text(work, row, JR_WORK_TYPE), 64);
	add_moments(report, row);
	jr_buf_adds(report->out, "</th>");
	add_strip(report, row);
	add_number(report, "Done", "", jr_pg_int(work, row, JR_WORK_OK, 0), false);
	add_number(report, "Failed", "", jr_pg_int(work, row, JR_WORK_FAILED, 0), false);
	add_number(report, "Dead", "dead", jr_pg_int(work, row, JR_WORK_DEAD, 0), false);
	add_number(report, "Waiting", "", waiting, waits_more);
	add_number(report, "Running", "", jr_pg_int(work, row, JR_WORK_RUNNING, 0), false);
	add_range(report, row, "Waited", JR_WORK_WAIT50);
	add_range(report, row, "Ran", JR_WORK_RUN50);
	jr_buf_adds(report->out, "</tr>\n");
}

static int
by_name(const void *a, const void *b)
{
	const char *const *left = a, *const *right = b;

	return strcmp(left[0], right[0]);
}

/* The rows of the busiest types, in the order of their names. */
static void
add_rows(struct jr_report *report, int first, int count)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	struct {
		const char *name;
		int row;
	} types[TYPES_MAX] = {{NULL, 0}};

	for (int i = 0; i < count; i++) {
		types[i].name = PQgetvalue(work, first + i, JR_WORK_TYPE);
		types[i].row = first + i;
	}
	qsort(types, (size_t)count, sizeof(types[0]), by_name);
	for (int i = 0; i < count; i++)
		add_type(report, types[i].row);
}

void
jr_report_types(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int first = 0, rows = PQntuples(work);

	while (first < rows && jr_report_is_hour(work, first))
		first++;
	jr_report_section(report, "types", "Job types");
	if (first == rows)
		jr_buf_adds(report->out, "<p class=\"empty\">There is none yet.</p>\n</section>\n");
	else {
		jr_buf_adds(report->out,
		    "<table class=\"types\"><caption>Done, failed and dead in seven days; what waits and runs now. Waited and ran: half of "
		    "the runs stayed below the first time, <b>95&nbsp;%</b> below the second; the bar shows both from 1&nbsp;ms to 1&nbsp;day.</caption>\n"
		    "<thead><tr><th scope=\"col\">Type</th><th scope=\"col\" class=\"week\">Seven days <i>below: the share that "
		    "failed</i></th><th scope=\"col\">Done</th><th scope=\"col\">Failed</th><th scope=\"col\">Dead</th>"
		    "<th scope=\"col\">Waiting</th><th scope=\"col\">Running</th><th scope=\"col\">Waited</th><th "
		    "scope=\"col\">Ran</th></tr></thead>\n<tbody>\n");
		add_rows(report, first, rows - first < TYPES_MAX ? rows - first : TYPES_MAX);
		jr_buf_adds(report->out, "</tbody></table>\n");
		jr_report_more(report, rows - first - TYPES_MAX, "jobrun stats --since 7d");
		jr_buf_adds(report->out, "</section>\n");
	}
}
