/*
 * report_hours: the last seven days, hour by hour: what ended, how long it waited and how long it ran. See report.h.
 *
 * A plot is as wide as the page: its SVG is stretched, so that there is no text in it; the labels of the axes are HTML.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "pg/pg_error.h"

#define WIDTH (JR_REPORT_HOURS * 10) /* of a plot; an hour is 10 wide */
#define HEIGHT 100

const struct jr_report_tick jr_report_ticks[JR_REPORT_TICKS] = {{1, 0, "1 ms"}, {10, 3.3219, "10 ms"},
    {100, 6.6439, "100 ms"}, {1000, 9.9658, "1 s"}, {10000, 13.2877, "10 s"}, {60000, 15.8727, "1 min"},
    {600000, 19.1946, "10 min"}, {3600000, 21.7796, "1 h"}, {86400000, 26.3645, "1 d"}};

double
jr_report_power(int64_t ms)
{
	int power = 0;

	while (ms > 1) {
		ms /= 2;
		power++;
	}
	return power;
}

double
jr_report_within(double low, double value, double high)
{
	return value < low ? low : value > high ? high : value;
}

bool
jr_report_is_hour(const PGresult *work, int row)
{
	return !PQgetisnull(work, row, JR_WORK_HOUR);
}

/* A round number that is not below n: 10, 15, 20, 30, 50 or 80, with as many zeros as it takes; 1 to 10 as it is. */
static int64_t
round_up(int64_t n)
{
	static const int64_t steps[] = {10, 15, 20, 30, 50, 80};
	int64_t unit = 1;

	if (n < 10)
		return n < 1 ? 1 : n;
	for (; unit < INT64_MAX / 1000; unit *= 10) {
		for (size_t i = 0; i < JR_COUNT(steps); i++) {
			if (steps[i] * unit >= n)
				return steps[i] * unit;
		}
	}
	return n;
}

static int64_t
most_of(const PGresult *work, int column, int other)
{
	int64_t most = 0;

	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		int64_t n = jr_pg_int(work, row, column, 0) + (other < 0 ? 0 : jr_pg_int(work, row, other, 0));

		most = n > most ? n : most;
	}
	return most;
}

static int64_t
sum_of(const PGresult *work, int column)
{
	int64_t sum = 0;

	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++)
		sum += jr_pg_int(work, row, column, 0);
	return sum;
}

/* Begins a plot; its text follows. */
static void
plot_begin(struct jr_report *report, const char *kind)
{
	jr_buf_addf(report->out,
	    "<svg class=\"%s\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\"><title>", kind, WIDTH,
	    HEIGHT);
}

/* Ends the text; draws a line where a day begins. */
static void
plot_days(struct jr_report *report)
{
	const PGresult *days = report->parts[JR_REPORT_DAYS];

	jr_buf_adds(report->out, "</title><path class=\"grid\" d=\"");
	for (int row = 0; row < PQntuples(days); row++) {
		int64_t minute = jr_pg_int(days, row, 2, -1);

		if (minute > 0)
			jr_buf_addf(report->out, "M%" PRId64 " 0v%d", minute / 6, HEIGHT);
	}
	jr_buf_adds(report->out, "\"/>");
}

/* The names of the days, each where its day begins. */
static void
add_days(struct jr_report *report)
{
	const PGresult *days = report->parts[JR_REPORT_DAYS];
	int count = PQntuples(days);

	jr_buf_adds(report->out, "<div class=\"days\" aria-hidden=\"true\">");
	for (int row = 0; row < count; row++) {
		int64_t from = jr_pg_int(days, row, 2, 0),
			to = row + 1 < count ? jr_pg_int(days, row + 1, 2, 0) : 10080;

		from = from < 0 ? 0 : from;
		jr_buf_addf(report->out, "<span%s style=\"left:%.2f%%;width:%.2f%%\">",
		    to - from < 900 ? " class=\"short\"" : "", (double)from / 100.8, (double)(to - from) / 100.8);
		if (to - from >= 480)
			jr_html_text(report->out, jr_pg_text(days, row, 0), 20);
		if (to - from >= 1080) {
			jr_buf_adds(report->out, " <i>");
			jr_html_text(report->out, jr_pg_text(days, row, 1), 20);
			jr_buf_adds(report->out, "</i>");
		}
		jr_buf_adds(report->out, "</span>");
	}
	jr_buf_adds(report->out, "</div>\n");
}

/* Bars of one column. They stand on the other one, or hang below it. */
static void
add_bars(struct jr_report *report, const char *kind, int column, int before, int64_t most, bool hang)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];

	jr_buf_addf(report->out, "<path class=\"%s\" d=\"", kind);
	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		int64_t n = jr_pg_int(work, row, column, 0);
		double begin = before < 0 ? 0 : (double)jr_pg_int(work, row, before, 0) * HEIGHT / (double)most;
		double height = jr_report_within(hang ? 2 : 1, (double)n * HEIGHT / (double)most, HEIGHT);

		if (n > 0)
			jr_buf_addf(report->out, "M%" PRId64 " %.1fv%.1fh8v%.1fz",
			    jr_pg_int(work, row, JR_WORK_HOUR, 0) * 10 + 1, hang ? begin : HEIGHT - begin,
			    hang ? height : -height, hang ? -height : height);
	}
	jr_buf_adds(report->out, "\"/>");
}

/* The numbers at the ends of a scale, and in its middle where that is a whole number. */
static void
add_scale(struct jr_report *report, int64_t most, bool hang)
{
	jr_buf_addf(report->out, "<div class=\"axis\" aria-hidden=\"true\"><span style=\"top:%d%%\">", hang ? 100 : 0);
	jr_html_count(report->out, most, false);
	jr_buf_adds(report->out, "</span>");
	if (!hang && most % 2 == 0) {
		jr_buf_adds(report->out, "<span style=\"top:50%\">");
		jr_html_count(report->out, most / 2, false);
		jr_buf_adds(report->out, "</span>");
	}
	jr_buf_addf(report->out, "%s</div>", hang ? "" : "<span style=\"top:100%\">0</span>");
}

static void
add_ended(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int64_t most = most_of(work, JR_WORK_OK, -1), scale = round_up(most);

	jr_buf_adds(report->out, "<div class=\"frame\">");
	add_scale(report, scale, false);
	plot_begin(report, "plot");
	jr_buf_adds(report->out, "Runs that succeeded in each of the last 168 hours: ");
	jr_html_count(report->out, sum_of(work, JR_WORK_OK), false);
	jr_buf_adds(report->out, " in all, at most ");
	jr_html_count(report->out, most, false);
	jr_buf_adds(report->out, " in one hour.");
	plot_days(report);
	jr_buf_addf(report->out, "<path class=\"grid\" d=\"M0 %dh%d\"/>", HEIGHT / 2, WIDTH);
	add_bars(report, "ok", JR_WORK_OK, -1, scale, false);
	jr_buf_adds(report->out, "</svg></div>\n");
}

static void
add_wrong(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int64_t most = most_of(work, JR_WORK_DEAD, JR_WORK_FAILED), scale = round_up(most);

	if (most == 0)
		return;
	jr_buf_adds(report->out, "<div class=\"frame low\">");
	add_scale(report, scale, true);
	plot_begin(report, "plot");
	jr_buf_adds(report->out, "What went wrong in each of these hours, hanging down: ");
	jr_html_count(report->out, sum_of(work, JR_WORK_DEAD), false);
	jr_buf_adds(report->out, " runs went dead, and ");
	jr_html_count(report->out, sum_of(work, JR_WORK_FAILED), false);
	jr_buf_adds(report->out, " attempts failed and are tried again; at most ");
	jr_html_count(report->out, most, false);
	jr_buf_adds(report->out, " in one hour.");
	plot_days(report);
	add_bars(report, "dead", JR_WORK_DEAD, -1, scale, true);
	add_bars(report, "retrying", JR_WORK_FAILED, JR_WORK_DEAD, scale, true);
	jr_buf_adds(report->out, "</svg></div>\n");
}

/* The ticks of an axis that has all values of a plot between them. */
struct span {
	size_t first, last;
};

static struct span
span_of(const PGresult *work, int low, int high)
{
	int64_t least = INT64_MAX, most = 0;
	struct span span = {0, 1};

	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		if (PQgetisnull(work, row, low))
			continue;
		least = jr_pg_int(work, row, low, 0) < least ? jr_pg_int(work, row, low, 0) : least;
		most = jr_pg_int(work, row, high, 0) > most ? jr_pg_int(work, row, high, 0) : most;
	}
	while (span.first + 2 < JR_REPORT_TICKS && jr_report_ticks[span.first + 1].ms < least && most > 0)
		span.first++;
	span.last = span.first + 1;
	while (span.last + 1 < JR_REPORT_TICKS && jr_report_ticks[span.last].ms < most)
		span.last++;
	return span;
}

static double
height_at(const struct span *span, double power)
{
	double low = jr_report_ticks[span->first].power, high = jr_report_ticks[span->last].power;

	return HEIGHT * (1 - jr_report_within(0, (power - low) / (high - low), 1));
}

static double
height_of(const struct span *span, int64_t ms)
{
	return height_at(span, jr_report_power(ms));
}

static void
add_axis(struct jr_report *report, const struct span *span)
{
	jr_buf_adds(report->out, "<div class=\"axis\" aria-hidden=\"true\">");
	for (size_t i = span->first; i <= span->last; i++)
		jr_buf_addf(report->out, "<span style=\"top:%.1f%%\">%s</span>",
		    height_at(span, jr_report_ticks[i].power), jr_report_ticks[i].name);
	jr_buf_adds(report->out, "</div>");
}

/* From half of the runs to 95 %: a block for each hour. */
static void
add_between(struct jr_report *report, const struct span *span, int low, int high)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];

	jr_buf_adds(report->out, "<path class=\"range\" d=\"");
	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		double top = height_of(span, jr_pg_int(work, row, high, 0));

		if (!PQgetisnull(work, row, low))
			jr_buf_addf(report->out, "M%" PRId64 " %.1fV%.1fh10V%.1fz",
			    jr_pg_int(work, row, JR_WORK_HOUR, 0) * 10, height_of(span, jr_pg_int(work, row, low, 0)),
			    top, height_of(span, jr_pg_int(work, row, low, 0)));
	}
	jr_buf_adds(report->out, "\"/>");
}

/* A line of steps, broken where nothing is known. */
static void
add_steps(struct jr_report *report, const struct span *span, const char *kind, int column)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int64_t expected = -1;

	jr_buf_addf(report->out, "<path class=\"%s\" d=\"", kind);
	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		int64_t hour = jr_pg_int(work, row, JR_WORK_HOUR, 0);
		double y = height_of(span, jr_pg_int(work, row, column, 0));

		if (PQgetisnull(work, row, column))
			continue;
		if (hour == expected)
			jr_buf_addf(report->out, "V%.1fh10", y);
		else
			jr_buf_addf(report->out, "M%" PRId64 " %.1fh10", hour * 10, y);
		expected = hour + 1;
	}
	jr_buf_adds(report->out, "\"/>");
}

/* The newest hour in which anything is known, in words. */
static void
add_last_hour(struct jr_report *report, int low, int high)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int last = -1;

	for (int row = 0; row < PQntuples(work) && jr_report_is_hour(work, row); row++) {
		if (!PQgetisnull(work, row, low))
			last = row;
	}
	if (last < 0)
		return;
	jr_buf_adds(report->out, " In the last hour with runs half of them stayed below ");
	jr_html_about(report->out, jr_pg_int(work, last, low, 0));
	jr_buf_adds(report->out, ", 95&nbsp;% below ");
	jr_html_about(report->out, jr_pg_int(work, last, high, 0));
	jr_buf_adds(report->out, ".");
}

static void
add_times(struct jr_report *report, const char *title, const char *what, int low, int high)
{
	struct span span = span_of(report->parts[JR_REPORT_WORK], low, high);

	jr_buf_addf(report->out,
	    "<figure>\n<figcaption><h3>%s</h3><p class=\"key\"><span class=\"k half\">half of the runs</span> "
	    "<span class=\"k most\">95&nbsp;%%</span></p></figcaption>\n<div class=\"frame\">",
	    title);
	add_axis(report, &span);
	plot_begin(report, "plot times");
	jr_buf_addf(report->out, "%s in each of the last 168 hours, on a logarithmic scale.", what);
	add_last_hour(report, low, high);
	plot_days(report);
	jr_buf_adds(report->out, "<path class=\"grid\" d=\"");
	for (size_t i = span.first + 1; i < span.last; i++)
		jr_buf_addf(report->out, "M0 %.1fh%d", height_at(&span, jr_report_ticks[i].power), WIDTH);
	jr_buf_adds(report->out, "\"/>");
	add_between(report, &span, low, high);
	add_steps(report, &span, "most", high);
	add_steps(report, &span, "half", low);
	jr_buf_adds(report->out, "</svg></div>\n");
	add_days(report);
	jr_buf_adds(report->out, "</figure>\n");
}

/* What ended on each day: the numbers of the first plot. */
static void
add_numbers(struct jr_report *report)
{
	static const int columns[] = {JR_WORK_OK, JR_WORK_FAILED, JR_WORK_DEAD, JR_WORK_CANCELLED};
	const PGresult *work = report->parts[JR_REPORT_WORK], *days = report->parts[JR_REPORT_DAYS];
	int row = 0;

	jr_buf_adds(report->out,
	    "<details><summary>The numbers by day</summary>\n<table class=\"plain\"><thead><tr><th scope=\"col\">Day</th>"
	    "<th scope=\"col\">Done</th><th scope=\"col\">Failed, tried again</th><th scope=\"col\">Dead</th>"
	    "<th scope=\"col\">Cancelled</th></tr></thead>\n<tbody>\n");
	for (int day = 0; day < PQntuples(days); day++) {
		int64_t end = day + 1 < PQntuples(days) ? jr_pg_int(days, day + 1, 2, 0) : INT64_MAX;
		int64_t sums[JR_COUNT(columns)] = {0};

		for (; row < PQntuples(work) && jr_report_is_hour(work, row) &&
		       jr_pg_int(work, row, JR_WORK_HOUR, 0) * 60 < end;
		     row++) {
			for (size_t i = 0; i < JR_COUNT(columns); i++)
				sums[i] += jr_pg_int(work, row, columns[i], 0);
		}
		jr_buf_adds(report->out, "<tr><th scope=\"row\">");
		jr_html_text(report->out, jr_pg_text(days, day, 0), 20);
		jr_buf_adds(report->out, " ");
		jr_html_text(report->out, jr_pg_text(days, day, 1), 20);
		jr_buf_adds(report->out, "</th>");
		for (size_t i = 0; i < JR_COUNT(columns); i++) {
			jr_buf_adds(report->out, "<td>");
			jr_html_count(report->out, sums[i], false);
			jr_buf_adds(report->out, "</td>");
		}
		jr_buf_adds(report->out, "</tr>\n");
	}
	jr_buf_adds(report->out, "</tbody></table></details>\n");
}

void
jr_report_hours(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];

	jr_report_section(report, "week", "The last seven days");
	if (PQntuples(work) == 0 || !jr_report_is_hour(work, 0))
		jr_buf_adds(report->out, "<p class=\"empty\">Nothing has ended in these days.</p>\n");
	else {
		jr_buf_adds(report->out,
		    "<figure>\n<figcaption><h3>What ended, by hour</h3><p class=\"key\"><span class=\"k ok\">done</span> "
		    "<span class=\"k dead\">dead</span> <span class=\"k retrying\">failed, tried again</span></p></figcaption>\n");
		add_ended(report);
		add_wrong(report);
		add_days(report);
		add_numbers(report);
		jr_buf_adds(report->out, "</figure>\n");
		add_times(report, "How long runs waited", "How late runs were started", JR_WORK_WAIT50, JR_WORK_WAIT95);
		add_times(report, "How long they ran", "How long runs and attempts took", JR_WORK_RUN50, JR_WORK_RUN95);
	}
	jr_buf_adds(report->out, "</section>\n");
}
