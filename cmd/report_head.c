/*
 * report_head: the verdict, what needs a look, and the tiles. See report.h.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pg/pg_error.h"

#define PROBLEMS_MAX 10
#define TEXT_MAX 200
#define LATE_MS 120000 /* a slot waits for the next tick until then */

/* In the order of their weight. */
enum verdict {
	VERDICT_NONE,
	VERDICT_OK,
	VERDICT_NOTES,
	VERDICT_WARNING,
	VERDICT_CRITICAL
};

/* Each verdict has words, a shape and a colour, so that none of them is needed to tell it. */
static const struct {
	const char *words, *name, *shape;
} verdicts[] = {
    [VERDICT_NONE] = {"Nothing has run here yet", "none", "<circle cx=\"16\" cy=\"16\" r=\"11\"/>"},
    [VERDICT_OK] = {"All is well", "ok", "<circle cx=\"16\" cy=\"16\" r=\"15\"/><path d=\"M9 16.5l5 5 9.5-10\"/>"},
    [VERDICT_NOTES] = {"Work goes on, and something needs a look", "notes",
	"<circle cx=\"16\" cy=\"16\" r=\"15\"/><path d=\"M16 14.5v9M16 8.5v.1\"/>"},
    [VERDICT_WARNING] = {"Something needs a look", "warning",
	"<path class=\"shape\" d=\"M16 2L31 29H1z\"/><path d=\"M16 11.5v9M16 25v.1\"/>"},
    [VERDICT_CRITICAL] = {"Somebody has to act", "critical",
	"<path class=\"shape\" d=\"M10 1h12l9 9v12l-9 9H10l-9-9V10z\"/><path d=\"M10.5 10.5l11 11M21.500 10.5l-11 11\"/>"},
};

static enum verdict
verdict_of(const struct jr_report *report)
{
	int worst = 0;

	if (*PQgetvalue(report->parts[JR_REPORT_HEAD], 0, JR_HEAD_USED) != 't')
		return VERDICT_NONE;
	for (size_t i = 0; i < JR_CHECK_LINES; i++)
		worst = report->checks[i].state > worst ? report->checks[i].state : worst;
	if (worst > 0)
		return worst == 1 ? VERDICT_WARNING : VERDICT_CRITICAL;
	return PQntuples(report->parts[JR_REPORT_PROBLEMS]) > 0 ? VERDICT_NOTES : VERDICT_OK;
}

const char *
jr_report_verdict(const struct jr_report *report)
{
	return verdicts[verdict_of(report)].words;
}

void
jr_report_section(struct jr_report *report, const char *id, const char *title)
{
	jr_buf_addf(report->out, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", id, id, title);
}

void
jr_report_more(struct jr_report *report, int64_t n, const char *command)
{
	if (n <= 0)
		return;
	jr_buf_adds(report->out, "<p class=\"more\">\u2026 and ");
	jr_html_count(report->out, n, false);
	jr_buf_adds(report->out, " more");
	if (command != NULL) {
		jr_buf_adds(report->out, ": ");
		jr_html_command(report->out, command);
	}
	jr_buf_adds(report->out, "</p>\n");
}

/* What check says of this, the worst first; nothing if all of it is fine. */
static void
add_checks(struct jr_report *report)
{
	static const char *const words[] = {"", "warning", "critical"};

	jr_buf_adds(report->out, "<ul class=\"checks\">\n");
	for (int state = 2; state > 0; state--) {
		for (size_t i = 0; i < JR_CHECK_LINES; i++) {
			if (report->checks[i].state != state)
				continue;
			jr_buf_addf(report->out, "<li class=\"%s\"><strong>%s</strong> ", words[state], words[state]);
			jr_html_value(report->out, report->checks[i].text, TEXT_MAX);
			jr_buf_adds(report->out, "</li>\n");
		}
	}
	jr_buf_adds(report->out, "</ul>\n");
}

/* A moment as programs read it. */
static void
add_datetime(struct jr_report *report, int64_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm utc;
	char text[40] = "";

	if (gmtime_r(&seconds, &utc) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
		jr_buf_addf(report->out, " datetime=\"%s\"", text);
}

/* "Written Monday, 23 November 2026, 10:32:13 (Europe/Berlin, UTC+01:00)." */
static void
add_written(struct jr_report *report)
{
	const PGresult *head = report->parts[JR_REPORT_HEAD];
	struct jr_buf *out = report->out;

	jr_buf_adds(out, "<p class=\"written\">Written <time");
	add_datetime(report, jr_pg_int(head, 0, JR_HEAD_NOW, 0));
	jr_buf_adds(out, ">");
	jr_html_text(out, jr_pg_text(head, 0, JR_HEAD_DAY), TEXT_MAX);
	jr_buf_adds(out, ", <b>");
	jr_html_text(out, jr_pg_text(head, 0, JR_HEAD_TIME), TEXT_MAX);
	jr_buf_adds(out, "</b></time>, ");
	jr_html_text(out, report->zone, TEXT_MAX);
	jr_buf_adds(out, " (UTC");
	jr_html_text(out, jr_pg_text(head, 0, JR_HEAD_OFFSET), TEXT_MAX);
	jr_buf_adds(out, "). ");
	if (jr_pg_text(head, 0, JR_HEAD_HOST) == NULL)
		jr_buf_adds(out, "No runner has been seen yet.");
	else {
		int64_t ago = jr_pg_int(head, 0, JR_HEAD_SEEN, 0);

		jr_buf_adds(out, "The last runner was seen ");
		if (ago < 60000)
			jr_buf_adds(out, "less than a minute");
		else
			jr_html_roughly(out, ago);
		jr_buf_adds(out, " before that, on ");
		jr_html_value(out, jr_pg_text(head, 0, JR_HEAD_HOST), 64);
		jr_buf_adds(out, ".");
	}
	jr_buf_adds(out, "</p>\n");
}

/* For who has just set it up. */
static void
add_first_steps(struct jr_report *report)
{
	jr_buf_adds(report->out,
	    "<ol class=\"first\">\n<li>Put a handler into the handlers directory of a host; <code class=\"cmd\">jobrun handlers</code> says where that is.</li>\n"
	    "<li>Give it work: <code class=\"cmd\">jobrun enqueue hello</code></li>\n"
	    "<li>Run it: <code class=\"cmd\">jobrun --once -v</code>; then let cron do so once a minute.</li>\n</ol>\n");
}

/* By whom, how long, and why. */
static void
add_pause(struct jr_report *report, int row)
{
	enum {
		UNTIL = 1,
		TEXT = 5,
		REASON = 7,
		BY
	};
	const PGresult *problems = report->parts[JR_REPORT_PROBLEMS];
	int64_t now = jr_pg_int(report->parts[JR_REPORT_HEAD], 0, JR_HEAD_NOW, 0);
	const char *text = jr_pg_text(problems, row, TEXT);

	if (jr_pg_text(problems, row, BY) != NULL) {
		jr_buf_adds(report->out, " by ");
		jr_html_value(report->out, jr_pg_text(problems, row, BY), 64);
	}
	if (text != NULL && strcmp(text, "paused") == 0) {
		if (PQgetisnull(problems, row, UNTIL))
			jr_buf_adds(report->out, " until it is resumed");
		else {
			jr_buf_adds(report->out, " for another ");
			jr_html_took(report->out, jr_pg_int(problems, row, UNTIL, 0) - now);
		}
	}
	if (jr_pg_text(problems, row, REASON) != NULL) {
		jr_buf_adds(report->out, ": ");
		jr_html_value(report->out, jr_pg_text(problems, row, REASON), TEXT_MAX);
	}
}

static void
add_problems(struct jr_report *report)
{
	enum {
		ABOUT = 4,
		TEXT,
		ADVICE
	};
	const PGresult *problems = report->parts[JR_REPORT_PROBLEMS];
	int count = PQntuples(problems);

	if (count == 0)
		return;
	jr_report_section(report, "look", "Needs a look");
	jr_buf_adds(report->out, "<ul class=\"look\">\n");
	for (int row = 0; row < count && row < PROBLEMS_MAX; row++) {
		jr_buf_adds(report->out, "<li><p><strong>");
		jr_html_value(report->out, jr_pg_text(problems, row, ABOUT), TEXT_MAX);
		jr_buf_adds(report->out, "</strong> ");
		jr_html_value(report->out, jr_pg_text(problems, row, TEXT), TEXT_MAX);
		add_pause(report, row);
		jr_buf_adds(report->out, "</p><p class=\"cmds\">");
		jr_html_command(report->out, jr_pg_text(problems, row, ADVICE));
		jr_buf_adds(report->out, "</p></li>\n");
	}
	jr_buf_adds(report->out, "</ul>\n");
	jr_report_more(report, count - PROBLEMS_MAX, "jobrun status");
	jr_buf_adds(report->out, "</section>\n");
}

void
jr_report_head(struct jr_report *report)
{
	const PGresult *head = report->parts[JR_REPORT_HEAD];
	enum verdict verdict = verdict_of(report);

	jr_buf_addf(
	    report->out, "<header class=\"%s\">\n<p class=\"brand\">jobrun <span>database ", verdicts[verdict].name);
	jr_html_value(report->out, jr_pg_text(head, 0, JR_HEAD_DATABASE), 64);
	jr_buf_addf(report->out,
	    "</span></p>\n<h1><svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\">%s</svg>%s</h1>\n",
	    verdicts[verdict].shape, verdicts[verdict].words);
	if (verdict >= VERDICT_WARNING)
		add_checks(report);
	add_written(report);
	if (verdict == VERDICT_NONE)
		add_first_steps(report);
	jr_buf_adds(report->out, "</header>\n<main>\n");
	add_problems(report);
}

/* The sum of a column over the rows of hours from `first` on, or over those of types. */
static int64_t
sum_of(const PGresult *work, bool hours, int first, int last, int column)
{
	int64_t sum = 0;

	for (int row = 0; row < PQntuples(work); row++) {
		int64_t hour = jr_pg_int(work, row, JR_WORK_HOUR, -1);

		if (hours ? hour >= first && hour <= last : hour < 0)
			sum += jr_pg_int(work, row, column, 0);
	}
	return sum;
}

/* Is a column true in any row? */
static bool
any_of(const PGresult *work, int column)
{
	for (int row = 0; row < PQntuples(work); row++) {
		if (*PQgetvalue(work, row, column) == 't')
			return true;
	}
	return false;
}

/* The row with the largest (or smallest) value of a column; -1: all are null. */
static int
extreme_of(const PGresult *work, int column, bool largest)
{
	int found = -1;

	for (int row = 0; row < PQntuples(work); row++) {
		int64_t value = jr_pg_int(work, row, column, 0);
		int64_t best = found < 0 ? 0 : jr_pg_int(work, found, column, 0);

		if (!PQgetisnull(work, row, column) && (found < 0 || (largest ? value > best : value < best)))
			found = row;
	}
	return found;
}

static void
tile_begin(struct jr_report *report, const char *name, const char *kind, int64_t n, bool more)
{
	jr_buf_addf(report->out, "<div class=\"%s\"><dt>%s</dt><dd class=\"n\">", n > 0 ? kind : "zero", name);
	jr_html_count(report->out, n, more);
	jr_buf_adds(report->out, "</dd><dd>");
}

static void
tile_end(struct jr_report *report)
{
	jr_buf_adds(report->out, "</dd></div>\n");
}

/* What ended in the last 24 hours, beside the 24 before. */
static void
add_done_tiles(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	int last = JR_REPORT_HOURS - 1;

	tile_begin(report, "Done in 24 h", "ok", sum_of(work, true, last - 23, last, JR_WORK_OK), false);
	jr_html_count(report->out, sum_of(work, true, last - 47, last - 24, JR_WORK_OK), false);
	jr_buf_adds(report->out, " the day before");
	tile_end(report);
	tile_begin(report, "Dead in 24 h", "dead", sum_of(work, true, last - 23, last, JR_WORK_DEAD), false);
	jr_html_count(report->out, sum_of(work, false, 0, 0, JR_WORK_DEAD_NOW), any_of(work, JR_WORK_DEAD_MORE));
	jr_buf_adds(report->out, " kept");
	tile_end(report);
}

static void
add_waiting_tiles(struct jr_report *report)
{
	const PGresult *work = report->parts[JR_REPORT_WORK];
	bool more = any_of(work, JR_WORK_WAITS_MORE);
	int oldest = extreme_of(work, JR_WORK_OLDEST, true);

	tile_begin(report, "Waiting", "waiting", sum_of(work, false, 0, 0, JR_WORK_QUEUED), more);
	if (oldest < 0)
		jr_buf_adds(report->out, "none is due");
	else {
		jr_buf_adds(report->out, "one is due for ");
		jr_html_roughly(report->out, jr_pg_int(work, oldest, JR_WORK_OLDEST, 0));
	}
	tile_end(report);
	tile_begin(report, "Retrying", "retrying", sum_of(work, false, 0, 0, JR_WORK_RETRYING), more);
	jr_buf_adds(report->out, "wait for another attempt");
	tile_end(report);
}

static void
add_running_tiles(struct jr_report *report)
{
	enum {
		RAN_MS = 4
	};
	const PGresult *running = report->parts[JR_REPORT_RUNNING], *work = report->parts[JR_REPORT_WORK];
	int next = extreme_of(work, JR_WORK_NEXT, false);

	tile_begin(report, "Running", "running", sum_of(work, false, 0, 0, JR_WORK_RUNNING), false);
	if (PQntuples(running) > 0) {
		jr_buf_adds(report->out, "longest for ");
		jr_html_roughly(report->out, jr_pg_int(running, 0, RAN_MS, 0));
	} else
		jr_buf_adds(report->out, "nothing runs");
	tile_end(report);
	jr_buf_adds(report->out, "<div class=\"next\"><dt>Next slot</dt><dd class=\"n\">");
	if (next < 0)
		jr_buf_adds(report->out, "\u2013</dd><dd>no schedule");
	else {
		int64_t ms = jr_pg_int(work, next, JR_WORK_NEXT, 0);

		if (ms > 0 || ms <= -LATE_MS)
			jr_html_roughly(report->out, ms < 0 ? -ms : ms);
		jr_buf_adds(report->out, ms > 0 ? "</dd><dd>" : ms > -LATE_MS ? "now</dd><dd>" : " late</dd><dd>");
		jr_html_value(report->out, jr_pg_text(work, next, JR_WORK_TYPE), 64);
	}
	tile_end(report);
}

void
jr_report_tiles(struct jr_report *report)
{
	jr_report_section(report, "now", "Now");
	jr_buf_adds(report->out, "<dl class=\"tiles\">\n");
	add_waiting_tiles(report);
	add_running_tiles(report);
	add_done_tiles(report);
	jr_buf_adds(report->out, "</dl>\n</section>\n");
}
