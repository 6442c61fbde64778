/*
 * report_runs: what is dead, with the command that runs it again, and what runs. See report.h.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pg/pg_error.h"

#define LINE_MAX_CHARACTERS 300
#define NAME_CHARACTERS 64

/* The columns of report_dead.sql. */
enum {
	DEAD_TYPE,
	DEAD_CODE,
	DEAD_RUNS,
	DEAD_ID,
	DEAD_AGE,
	DEAD_AT,
	DEAD_ATTEMPTS,
	DEAD_HOST,
	DEAD_ERROR,
	DEAD_OUTPUT,
	DEAD_GROUPS,
	DEAD_MORE
};

/* The last line that it printed, and if that says something else, the error. */
static void
add_last_words(struct jr_report *report, int row)
{
	const PGresult *dead = report->parts[JR_REPORT_DEAD];
	const char *output = jr_pg_text(dead, row, DEAD_OUTPUT), *error = jr_pg_text(dead, row, DEAD_ERROR);
	char *line = jr_text_last_line(output == NULL ? "" : output, 4000);

	if (*line != '\0') {
		jr_buf_adds(report->out, "<p class=\"said\">");
		jr_html_value(report->out, line, LINE_MAX_CHARACTERS);
		jr_buf_adds(report->out, "</p>");
	} else if (error != NULL) {
		jr_buf_adds(report->out, "<p class=\"said\">");
		jr_html_value(report->out, error, LINE_MAX_CHARACTERS);
		jr_buf_adds(report->out, "</p>");
	} else
		jr_buf_addf(report->out, "<p class=\"said none\">%s</p>",
		    *PQgetvalue(report->parts[JR_REPORT_HEAD], 0, JR_HEAD_TEXTS) == 't'
			? "it printed nothing"
			: "this role may not read what it printed");
	free(line);
}

/* Is this a word that means itself to a shell? */
static bool
is_plain(const char *text)
{
	return text != NULL && *text != '\0' && *text != '-' &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-")] == '\0';
}

/* Of one run, and of all that died of the same. Never one that would retry others, too. */
static void
add_commands(struct jr_report *report, int row)
{
	const PGresult *dead = report->parts[JR_REPORT_DEAD];
	const char *type = PQgetvalue(dead, row, DEAD_TYPE), *code = jr_pg_text(dead, row, DEAD_CODE);
	char *show = jr_xasprintf("jobrun show %s", PQgetvalue(dead, row, DEAD_ID));
	char *retry = jr_pg_int(dead, row, DEAD_RUNS, 1) == 1
			  ? jr_xasprintf("jobrun retry %s", PQgetvalue(dead, row, DEAD_ID))
		      : is_plain(code) ? jr_xasprintf("jobrun retry --type %s --error code:%s", type, code)
				       : jr_xasprintf("jobrun list --status dead --type %s", type);

	jr_buf_adds(report->out, "<p class=\"cmds\">");
	jr_html_command(report->out, show);
	jr_buf_adds(report->out, " ");
	jr_html_command(report->out, retry);
	jr_buf_adds(report->out, "</p>");
	free(show);
	free(retry);
}

static void
add_dead(struct jr_report *report, int row)
{
	const PGresult *dead = report->parts[JR_REPORT_DEAD];
	int64_t runs = jr_pg_int(dead, row, DEAD_RUNS, 1);

	jr_buf_adds(report->out, "<li><p class=\"who\"><strong>");
	jr_html_value(report->out, jr_pg_text(dead, row, DEAD_TYPE), NAME_CHARACTERS);
	jr_buf_adds(report->out, "</strong> <span class=\"code\">");
	jr_html_value(report->out, jr_pg_text(dead, row, DEAD_CODE), NAME_CHARACTERS);
	jr_buf_adds(report->out, "</span> ");
	if (runs > 1) {
		jr_buf_adds(report->out, "<span class=\"times\">\u00d7&#8201;");
		jr_html_count(report->out, runs, false);
		jr_buf_adds(report->out, "</span> ");
	}
	jr_buf_addf(report->out, "<span class=\"when\">%srun %" PRId64 ", ", runs > 1 ? "last: " : "",
	    jr_pg_int(dead, row, DEAD_ID, 0));
	jr_html_text(report->out, jr_pg_text(dead, row, DEAD_AT), NAME_CHARACTERS);
	if (jr_pg_text(dead, row, DEAD_HOST) != NULL) {
		jr_buf_adds(report->out, " on ");
		jr_html_value(report->out, jr_pg_text(dead, row, DEAD_HOST), NAME_CHARACTERS);
	}
	jr_buf_adds(report->out, "</span></p>");
	add_last_words(report, row);
	add_commands(report, row);
	jr_buf_adds(report->out, "</li>\n");
}

void
jr_report_dead(struct jr_report *report)
{
	const PGresult *dead = report->parts[JR_REPORT_DEAD];
	int rows = PQntuples(dead);

	jr_report_section(report, "dead", "Dead runs");
	if (rows == 0)
		jr_buf_adds(report->out, "<p class=\"empty\">None.</p>\n");
	else {
		jr_buf_adds(report->out, "<ul class=\"dead\">\n");
		for (int row = 0; row < rows; row++)
			add_dead(report, row);
		jr_buf_adds(report->out, "</ul>\n");
		jr_report_more(
		    report, jr_pg_int(dead, 0, DEAD_GROUPS, 0) - rows, "jobrun list --by error --status dead");
		if (*PQgetvalue(dead, 0, DEAD_MORE) == 't')
			jr_buf_adds(
			    report->out, "<p class=\"more\">Only the newest 2,000 dead runs are counted here.</p>\n");
	}
	jr_buf_adds(report->out, "</section>\n");
}

/* The columns of report_running.sql. */
enum {
	RUN_ID,
	RUN_TYPE,
	RUN_QUEUE,
	RUN_HOST,
	RUN_MS,
	RUN_TIMEOUT,
	RUN_ATTEMPT,
	RUN_ATTEMPTS,
	RUN_LEASE,
	RUN_CANCELLED,
	RUN_PROGRESS,
	RUN_SHARE,
	RUN_COUNT
};

static void
add_progress(struct jr_report *report, int row)
{
	const PGresult *running = report->parts[JR_REPORT_RUNNING];
	int64_t share = jr_pg_int(running, row, RUN_SHARE, -1);

	jr_buf_adds(report->out, "<td class=\"progress\" data-l=\"Progress\">");
	if (share >= 0)
		jr_buf_addf(report->out,
		    "<span class=\"bar\" aria-hidden=\"true\"><i style=\"width:%.1f%%\"></i></span> <b>%" PRId64
		    "&nbsp;%%</b> ",
		    (double)share / 10, share / 10);
	if (jr_pg_text(running, row, RUN_PROGRESS) != NULL) {
		jr_buf_adds(report->out, "<span class=\"says\">");
		jr_html_value(report->out, jr_pg_text(running, row, RUN_PROGRESS), 80);
		jr_buf_adds(report->out, "</span>");
	} else if (share < 0)
		jr_buf_adds(report->out, "<span class=\"zero\">\u2013</span>");
	if (jr_pg_int(running, row, RUN_LEASE, 0) < 0)
		jr_buf_adds(report->out, " <strong class=\"bad\">its lease has run out</strong>");
	if (*PQgetvalue(running, row, RUN_CANCELLED) == 't')
		jr_buf_adds(report->out, " <strong>is being cancelled</strong>");
	jr_buf_adds(report->out, "</td>");
}

static void
add_running(struct jr_report *report, int row)
{
	const PGresult *running = report->parts[JR_REPORT_RUNNING];

	jr_buf_addf(report->out, "<tr><th scope=\"row\">%" PRId64 " ", jr_pg_int(running, row, RUN_ID, 0));
	jr_html_value(report->out, jr_pg_text(running, row, RUN_TYPE), NAME_CHARACTERS);
	jr_buf_adds(report->out, "</th><td data-l=\"Host\">");
	jr_html_value(report->out, jr_pg_text(running, row, RUN_HOST), NAME_CHARACTERS);
	jr_buf_addf(report->out,
	    "</td><td class=\"n\" data-l=\"Attempt\">%" PRId64 " of %" PRId64 "</td><td class=\"n\" data-l=\"For\">",
	    jr_pg_int(running, row, RUN_ATTEMPT, 0), jr_pg_int(running, row, RUN_ATTEMPTS, 0));
	jr_html_took(report->out, jr_pg_int(running, row, RUN_MS, 0));
	if (!PQgetisnull(running, row, RUN_TIMEOUT)) {
		jr_buf_adds(report->out, " <small>of ");
		jr_html_took(report->out, jr_pg_int(running, row, RUN_TIMEOUT, 0));
		jr_buf_adds(report->out, "</small>");
	}
	jr_buf_adds(report->out, "</td>");
	add_progress(report, row);
	jr_buf_adds(report->out, "</tr>\n");
}

void
jr_report_running(struct jr_report *report)
{
	const PGresult *running = report->parts[JR_REPORT_RUNNING];
	int rows = PQntuples(running);

	jr_report_section(report, "running", "Running");
	if (rows == 0)
		jr_buf_adds(report->out, "<p class=\"empty\">Nothing runs.</p>\n");
	else {
		jr_buf_adds(report->out,
		    "<table class=\"running\"><thead><tr><th scope=\"col\">Run</th><th scope=\"col\">Host</th>"
		    "<th scope=\"col\">Attempt</th><th scope=\"col\">For</th><th scope=\"col\">Progress</th></tr></thead>\n<tbody>\n");
		for (int row = 0; row < rows; row++)
			add_running(report, row);
		jr_buf_adds(report->out, "</tbody></table>\n");
		jr_report_more(report, jr_pg_int(running, 0, RUN_COUNT, 0) - rows, "jobrun list --status running");
	}
	jr_buf_adds(report->out, "</section>\n");
}
