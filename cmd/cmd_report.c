/*
 * report: one page that shows how it is and how it was, for people who would rather look. It is one file without
 * scripts and without links, so that cron can write it and any web server, or none, can serve it.
 *
 * All that the page shows is read in one transaction and one round trip: job_stats, the hours that are not summed yet,
 * and lists with a limit. Texts of handlers and clients are hostile: see html.h.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "commands.h"
#include "replace_file.h"
#include "report.h"
#include "sql_text.h"
#include "zone.h"

#define PAGE_MAX ((size_t)1 << 20)
#define COUNTED_MOST "2000" /* waiting and dead runs of a type are counted up to here */

struct report_opts {
	const char *output, *time_zone;
};

static const struct report_opts report_defaults;

/* clang-format off */
static const struct jr_option report_options[] = {
	{ .name = "output", .letter = 'o', .arg = "FILE", .help = "replace FILE by the page (standard output)", .type = JR_OPT_STRING,
	    .offset = offsetof(struct report_opts, output), .not_empty = true },
	{ .name = "time-zone", .arg = "ZONE", .help = "of all times on the page (that of this host)", .type = JR_OPT_STRING,
	    .offset = offsetof(struct report_opts, time_zone) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* The first lines say to a browser that nothing is to be loaded or executed, before anything foreign comes. */
static void
add_top(struct jr_report *report)
{
	struct jr_buf *out = report->out;

	jr_buf_adds(out,
	    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
	    "<meta name=\"robots\" content=\"noindex\">\n<title>");
	jr_html_text(out, jr_report_verdict(report), 100);
	jr_buf_adds(out, " \u2013 ");
	jr_html_text(out, PQgetvalue(report->parts[JR_REPORT_HEAD], 0, JR_HEAD_DATABASE), 64);
	jr_buf_adds(out, " \u2013 jobrun</title>\n<style>\n");
	jr_buf_adds(out, jr_css_report);
	jr_buf_adds(out, "</style>\n</head>\n<body>\n");
}

/* What the numbers mean, and what is missing in them. */
static void
add_notes(struct jr_report *report)
{
	const PGresult *head = report->parts[JR_REPORT_HEAD];
	struct jr_buf *out = report->out;

	jr_buf_adds(out,
	    "<p>Times are known by their power of two: \u201cbelow 4.1&nbsp;s\u201d is 2.048 to 4.096 seconds. "
	    "Waiting and dead runs are counted up to " COUNTED_MOST " of each type. What ended before ");
	jr_html_text(out, PQgetvalue(head, 0, JR_HEAD_OPEN), 40);
	jr_buf_adds(out, " comes from the sums of full hours, what ended since then was counted for this page.");
	if (!PQgetisnull(head, 0, JR_HEAD_HOLE)) {
		jr_buf_adds(out, " <strong>What ended from ");
		jr_html_text(out, PQgetvalue(head, 0, JR_HEAD_HOLE), 40);
		jr_buf_adds(out, " to ");
		jr_html_text(out, PQgetvalue(head, 0, JR_HEAD_OPEN), 40);
		jr_buf_adds(out, " is missing: it is not summed yet. Housekeeping does that once an hour.</strong>");
	}
	jr_buf_adds(out, "</p>\n");
}

static void
add_end(struct jr_report *report, bool used)
{
	const PGresult *head = report->parts[JR_REPORT_HEAD];
	struct jr_buf *out = report->out;

	jr_buf_adds(out, "</main>\n<footer>\n");
	if (used)
		add_notes(report);
	jr_buf_adds(out, "<p>This page does not change by itself. Written by jobrun " JR_VERSION " from PostgreSQL ");
	jr_html_text(out, PQgetvalue(head, 0, JR_HEAD_SERVER), 40);
	jr_buf_adds(out, ", schema ");
	jr_html_text(out, PQgetvalue(head, 0, JR_HEAD_SCHEMA), 40);
	jr_buf_adds(out, ".</p>\n</footer>\n</body>\n</html>\n");
}

/* Where nothing has run yet, empty sections would say nothing. */
static void
add_page(struct jr_report *report)
{
	static void (*const sections[])(struct jr_report *) = {jr_report_tiles, jr_report_hours, jr_report_types,
	    jr_report_dead, jr_report_running, jr_report_slots, jr_report_runners};
	bool used = *PQgetvalue(report->parts[JR_REPORT_HEAD], 0, JR_HEAD_USED) == 't';

	add_top(report);
	jr_report_head(report);
	for (size_t i = 0; i < JR_COUNT(sections); i++) {
		if (used || (sections[i] == jr_report_slots && PQntuples(report->parts[JR_REPORT_SLOTS]) > 0))
			sections[i](report);
	}
	add_end(report, used);
}

/*
 * The transaction that jr_db_run begins sees a new moment with each statement, so it is ended, and one begun that does
 * not. Its parameters go with it.
 */
static bool
ask(struct jr_db *db, struct jr_report *report, struct jr_err *err)
{
	static const char *const parameters[] = {"1000", "30000", "off"}, *const counted[] = {COUNTED_MOST},
				 *const twenty[] = {"20"};
	const char *zone[] = {report->zone, "20"}, *slots[] = {report->zone, "30"}, *none[] = {NULL};
	const struct jr_statement statements[] = {{jr_sql_rollback, 0, NULL}, {jr_sql_report_begin, 0, NULL},
	    {jr_sql_parameters, JR_COUNT(parameters), parameters}, {jr_sql_report_plans, 0, NULL},
	    {jr_sql_report_head, 1, zone}, {jr_sql_check, 1, none}, {jr_sql_status_problems, 1, none},
	    {jr_sql_report_days, 1, zone}, {jr_sql_report_work, 1, counted}, {jr_sql_report_dead, 2, zone},
	    {jr_sql_report_running, 1, twenty}, {jr_sql_report_slots, 2, slots}, {jr_sql_report_runners, 2, zone}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	const size_t before = JR_COUNT(statements) - JR_REPORT_PARTS;
	bool ok = jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err);

	for (size_t i = 0; i < before; i++)
		PQclear(results[i]);
	for (size_t i = 0; i < JR_REPORT_PARTS; i++)
		report->parts[i] = results[before + i];
	return ok;
}

static void
release(struct jr_report *report)
{
	for (size_t i = 0; i < JR_REPORT_PARTS; i++)
		PQclear(report->parts[i]);
	for (size_t i = 0; i < JR_CHECK_LINES; i++)
		free(report->checks[i].text);
}

static bool
write_page(const struct report_opts *opts, const struct jr_buf *page, struct jr_err *err)
{
	if (page->overflow)
		return jr_fail(err, JR_E_BUG, "the page would have more than %zu bytes", PAGE_MAX);
	if (opts->output != NULL)
		return jr_replace_file(opts->output, page->data, page->len, 0600, err);
	fwrite(page->data, 1, page->len, stdout);
	return true;
}

static int
report_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct report_opts *opts = values;
	char *zone = opts->time_zone == NULL ? jr_zone_of_host() : jr_xstrdup(opts->time_zone);
	struct jr_buf page;
	struct jr_report report = {.out = &page, .zone = zone};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ok = db != NULL && jr_zone_check(db, opts->time_zone, err) && ask(db, &report, err) &&
		  jr_check_lines(report.parts[JR_REPORT_CHECK], report.checks, err);

	(void)argc;
	(void)argv;
	jr_db_close(db);
	if (!ok)
		jr_zone_blame(err);
	jr_buf_init(&page, PAGE_MAX);
	if (ok) {
		add_page(&report);
		ok = write_page(opts, &page, err);
	}
	jr_buf_release(&page);
	release(&report);
	free(zone);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_report = {
    .name = "report",
    .group = JR_GROUP_WATCH,
    .summary = "write one HTML page about now and the last seven days",
    .usage = "[OPTION...]",
    .details =
	"The page is one file without scripts and without links to anything outside. With -o, FILE is written beside\n"
	"its old version and renamed; a new one gets mode 0600, an old one keeps its mode. The page has what the\n"
	"role may read, the last lines of output of dead runs among it: grant it read, and they are left out.\n",
    .options = report_options,
    .defaults = &report_defaults,
    .size = sizeof(report_defaults),
    .kind = "read",
    .run = report_run,
};
