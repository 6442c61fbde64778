/*
 * report: the parts of the page that `jobrun report` writes. Each file report_*.c writes some sections; cmd_report.c
 * puts them together.
 *
 * All statements of a report are answered in one transaction, so that all sections show the same moment. Each list has
 * a limit, and its section says how many more there are.
 */
#ifndef JR_REPORT_H
#define JR_REPORT_H

#include <libpq-fe.h>

#include "check.h"
#include "html.h"

#define JR_REPORT_HOURS 168

/* In the order in which they are asked. */
enum jr_report_part {
	JR_REPORT_HEAD,
	JR_REPORT_CHECK,
	JR_REPORT_PROBLEMS,
	JR_REPORT_DAYS,
	JR_REPORT_WORK,
	JR_REPORT_DEAD,
	JR_REPORT_RUNNING,
	JR_REPORT_SLOTS,
	JR_REPORT_RUNNERS,
	JR_REPORT_PARTS
};

/* The columns of report_head.sql. */
enum jr_report_head {
	JR_HEAD_DATABASE,
	JR_HEAD_SERVER,
	JR_HEAD_SCHEMA,
	JR_HEAD_DAY,
	JR_HEAD_TIME,
	JR_HEAD_OFFSET,
	JR_HEAD_SEEN,
	JR_HEAD_HOST,
	JR_HEAD_OPEN,
	JR_HEAD_HOLE,
	JR_HEAD_TEXTS,
	JR_HEAD_USED,
	JR_HEAD_NOW
};

/* The columns of report_work.sql. */
enum jr_report_work {
	JR_WORK_KIND,
	JR_WORK_TYPE,
	JR_WORK_HOUR,
	JR_WORK_OK,
	JR_WORK_FAILED,
	JR_WORK_DEAD,
	JR_WORK_CANCELLED,
	JR_WORK_WAIT50,
	JR_WORK_WAIT95,
	JR_WORK_WAIT99,
	JR_WORK_RUN50,
	JR_WORK_RUN95,
	JR_WORK_RUN99,
	JR_WORK_HOURS,
	JR_WORK_QUEUED,
	JR_WORK_RETRYING,
	JR_WORK_RUNNING,
	JR_WORK_DEAD_NOW,
	JR_WORK_WAITS_MORE,
	JR_WORK_DEAD_MORE,
	JR_WORK_OLDEST,
	JR_WORK_LAST_OK,
	JR_WORK_NEXT
};

struct jr_report {
	struct jr_buf *out;
	const char *zone;
	PGresult *parts[JR_REPORT_PARTS];
	struct jr_check_line checks[JR_CHECK_LINES];
};

/* Steps of an axis of times, from 1 ms to 1 day, on which each doubling has the same length. */
struct jr_report_tick {
	int64_t ms;
	double power; /* of two */
	const char *name;
};
#define JR_REPORT_TICKS 9
extern const struct jr_report_tick jr_report_ticks[JR_REPORT_TICKS];

/* Where on this axis the bound of a bucket lies, as a power of two. */
double jr_report_power(int64_t ms) JR_MUST;

/* `value`, but not below low nor above high. */
double jr_report_within(double low, double value, double high) JR_MUST;

/* A row of report_work.sql is that of an hour, else that of a type. */
bool jr_report_is_hour(const PGresult *work, int row) JR_MUST;

/* "<section><h2 id=ID>TITLE</h2>": the section has the name of its heading. End it with "</section>". */
void jr_report_section(struct jr_report *report, const char *id, const char *title);

/* The first words of the title of the page: the verdict. */
const char *jr_report_verdict(const struct jr_report *report) JR_MUST;

/* "and 12 more" with the command that lists them; nothing if `n` is not above 0. */
void jr_report_more(struct jr_report *report, int64_t n, const char *command);

void jr_report_head(struct jr_report *report);
void jr_report_tiles(struct jr_report *report);
void jr_report_hours(struct jr_report *report);
void jr_report_types(struct jr_report *report);
void jr_report_dead(struct jr_report *report);
void jr_report_running(struct jr_report *report);
void jr_report_slots(struct jr_report *report);
void jr_report_runners(struct jr_report *report);

#endif
