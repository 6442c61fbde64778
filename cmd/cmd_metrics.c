/*
 * metrics: numbers for Prometheus, in its text format, on stdout or in a file for the textfile collector of
 * node_exporter.
 *
 * The database says which metrics and labels there are (function jobrun.metrics). Here are their types and help, the
 * escapes of the format, and the bounds of the histograms. Samples have no times of their own: the textfile collector
 * leaves out a file that has any.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "commands.h"
#include "print.h"
#include "replace_file.h"
#include "sql_text.h"

#define TEXT_MAX_BYTES ((size_t)64 << 20)
#define COUNTED_MAX "10000"

/* Columns of metrics.sql. */
enum {
	METRIC,
	FIRST_LABEL,
	VALUE = FIRST_LABEL + 6,
	BUCKETS,
	DOCUMENT,
	DATABASE
};

struct metrics_opts {
	const char *output;
	bool exact;
};

static const struct metrics_opts metrics_defaults = {.output = NULL};

#define AT(field) offsetof(struct metrics_opts, field)

/* clang-format off */
static const struct jr_option metrics_options[] = {
	{ .name = "output", .letter = 'o', .arg = "FILE", .help = "replace FILE as a whole instead of writing to stdout; FILE ends in .prom",
	    .type = JR_OPT_STRING, .offset = AT(output), .not_empty = true },
	{ .name = "exact", .help = "count all waiting and dead runs; among millions it takes seconds", .type = JR_OPT_FLAG,
	    .offset = AT(exact) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* In the order in which they are printed; names without "jobrun_". */
static const struct family {
	const char *name, *type, *help;
} families[] = {
    {"runs", "gauge",
	"Runs that wait (queued, retrying), run, or are dead and kept. Of each job type and queue at most "
	"jobrun_runs_counted_max waiting ones are counted, and as many dead ones of all."},
    {"runs_counted_max", "gauge", "Where jobrun_runs stops counting waiting runs of a job type and queue; 0: nowhere."},
    {"oldest_due_seconds", "gauge",
	"How long the oldest run has been due that nobody holds and no pause holds back; 0: there is none."},
    {"runs_finished_total", "counter",
	"Runs that have ended. A run that was cancelled while it waited counts up to two hours later."},
    {"attempts_total", "counter",
	"Attempts that have ended. failed, lost (the lease ran out), later and released: another attempt followed. dead: it "
	"was the last one, for whatever reason."},
    {"attempt_duration_seconds", "histogram", "How long attempts took, whatever their outcome."},
    {"run_wait_seconds", "histogram", "How long runs that have ended had been due when their last attempt began."},
    {"expired_leases", "gauge", "Running runs whose lease is over, and that no runner has taken over."},
    {"slot_late_seconds", "gauge", "How late the latest slot of any schedule is."},
    {"queue_running_limit", "gauge", "How many runs of the queue may run at once. Only queues with such a limit."},
    {"claims_total", "counter",
	"Claims that runners have sent. A runner tells of its claims when it ends; one that died has told nothing."},
    {"claim_seconds_total", "counter",
	"How long claims took until their answers came, with the outcomes that were written in the same transaction."},
    {"claims_queue_locked_total", "counter",
	"Claims that left out a queue because another session had locked it, or a run with the same unique key."},
    {"lock_waits", "gauge", "Sessions of this database that wait for a lock, of jobrun or of others, at this moment."},
    {"last_runner_seen_timestamp_seconds", "gauge", "When any runner was seen last; 0: never."},
    {"runner_last_seen_timestamp_seconds", "gauge", "When a runner of the host was seen last."},
    {"runner_held_runs", "gauge", "Runs that are held on the host."},
    {"paused", "gauge", "1: paused. Kinds: all, host, queue, type, definition."},
    {"metrics_left_out", "gauge", "What is missing here because there is too much of it."},
    {"written_timestamp_seconds", "gauge", "When these numbers were read, by the clock of the database."},
};

/* Every other power of two of the 32 that the database knows: 8 ms to 9 h. Bucket k counts times below 2^k ms. */
enum {
	KNOWN_BUCKETS = 32,
	FIRST_BOUND = 3,
	LAST_BOUND = 25,
	BOUND_STEP = 2
};

/* A label's value, escaped as the format wants it, and UTF-8 whatever the database holds. */
static void
add_escaped(struct jr_buf *out, const char *value)
{
	char *clean = jr_text_clean(value, strlen(value), strlen(value) * 3);

	for (const char *c = clean; *c != '\0'; c++) {
		if (*c == '\n')
			jr_buf_adds(out, "\\n");
		else if (*c == '\\' || *c == '"')
			jr_buf_addf(out, "\\%c", *c);
		else
			jr_buf_addc(out, *c);
	}
	free(clean);
}

/* "{database=", so that the files of two databases on one host do not have the same series. */
static void
add_database(struct jr_buf *out, const PGresult *result)
{
	jr_buf_adds(out, "{database=\"");
	add_escaped(out, PQgetvalue(result, 0, DATABASE));
	jr_buf_addc(out, '"');
}

/* NAME{LABELS}; `bound`: the value of the label le, or NULL. */
static void
add_name(struct jr_buf *out, const PGresult *result, int row, const char *suffix, const char *bound)
{
	jr_buf_addf(out, "jobrun_%s%s", PQgetvalue(result, row, METRIC), suffix);
	add_database(out, result);
	for (int column = FIRST_LABEL; column < VALUE && !PQgetisnull(result, row, column); column += 2) {
		jr_buf_addf(out, ",%s=\"", PQgetvalue(result, row, column));
		add_escaped(out, PQgetvalue(result, row, column + 1));
		jr_buf_addc(out, '"');
	}
	if (bound != NULL)
		jr_buf_addf(out, ",le=\"%s\"", bound);
	jr_buf_adds(out, "} ");
}

/* Cumulative counts, of which the last one is that of all. */
static void
add_histogram(struct jr_buf *out, const PGresult *result, int row)
{
	const char *counts = PQgetvalue(result, row, BUCKETS);
	int64_t so_far = 0;

	for (int k = 1; k <= KNOWN_BUCKETS; k++) {
		char *end;

		so_far += strtoll(counts, &end, 10);
		counts = end;
		if (k >= FIRST_BOUND && k <= LAST_BOUND && (k - FIRST_BOUND) % BOUND_STEP == 0) {
			char bound[32];

			snprintf(bound, sizeof(bound), "%.3f", (double)(INT64_C(1) << k) / 1000);
			add_name(out, result, row, "_bucket", bound);
			jr_buf_addf(out, "%" PRId64 "\n", so_far);
		}
	}
	add_name(out, result, row, "_bucket", "+Inf");
	jr_buf_addf(out, "%" PRId64 "\n", so_far);
	add_name(out, result, row, "_sum", NULL);
	jr_buf_addf(out, "%s\n", PQgetvalue(result, row, VALUE));
	add_name(out, result, row, "_count", NULL);
	jr_buf_addf(out, "%" PRId64 "\n", so_far);
}

/* The samples of one metric. Returns how many rows it has. */
static int
add_family(struct jr_buf *out, const PGresult *result, const struct family *family)
{
	int rows = 0;

	for (int row = 0; row < PQntuples(result); row++) {
		if (strcmp(PQgetvalue(result, row, METRIC), family->name) != 0)
			continue;
		if (rows++ == 0)
			jr_buf_addf(out, "# HELP jobrun_%s %s\n# TYPE jobrun_%s %s\n", family->name, family->help,
			    family->name, family->type);
		if (!PQgetisnull(result, row, BUCKETS))
			add_histogram(out, result, row);
		else {
			add_name(out, result, row, "", NULL);
			jr_buf_addf(out, "%s\n", PQgetvalue(result, row, VALUE));
		}
	}
	return rows;
}

static bool
make_text(struct jr_buf *out, const PGresult *result, struct jr_err *err)
{
	int rows = 0;

	jr_buf_adds(out, "# HELP jobrun_build_info The program that wrote this.\n# TYPE jobrun_build_info gauge\n"
			 "jobrun_build_info");
	add_database(out, result);
	jr_buf_adds(out, ",version=\"" JR_VERSION "\"} 1\n");
	for (size_t i = 0; i < JR_COUNT(families); i++)
		rows += add_family(out, result, &families[i]);
	if (rows != PQntuples(result) || out->overflow)
		return jr_fail(err, JR_E_BUG, "%d of %d rows of metrics could be printed", rows, PQntuples(result));
	return true;
}

static bool
tell(const struct jr_app *app, const struct metrics_opts *opts, const PGresult *result, struct jr_err *err)
{
	struct jr_buf out;
	bool ok;

	if (app->json) {
		jr_print_list("metrics", result, DOCUMENT);
		return true;
	}
	jr_buf_init(&out, TEXT_MAX_BYTES);
	ok = make_text(&out, result, err);
	if (ok && opts->output != NULL)
		ok = jr_replace_file(opts->output, out.data, out.len, 0644, err);
	else if (ok)
		fwrite(out.data, 1, out.len, stdout);
	jr_buf_release(&out);
	return ok;
}

static int
metrics_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct metrics_opts *opts = values;
	const char *most[] = {opts->exact ? NULL : COUNTED_MAX};
	struct jr_db *db;
	PGresult *result = NULL;
	bool ok;

	(void)argc;
	(void)argv;
	if (app->json && opts->output != NULL) {
		jr_fail(err, JR_E_USAGE, "-o and --json exclude each other");
		return (int)err->code;
	}
	db = jr_cmd_connect(app, err);
	if (db != NULL)
		result = jr_db_query(db, jr_sql_metrics, JR_COUNT(most), most, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	ok = result != NULL && tell(app, opts, result, err);
	PQclear(result);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_metrics = {
    .name = "metrics",
    .group = JR_GROUP_WATCH,
    .summary = "print numbers for Prometheus",
    .usage = "[-o FILE] [--exact]",
    .details =
	"A line of cron for the textfile collector of node_exporter, on one host:\n"
	"  * * * * *  jobrun metrics -o /var/lib/prometheus/node-exporter/jobrun.prom\n"
	"When the database does not answer, the exit status is 75 and FILE stays as it was, so that its age tells.\n",
    .options = metrics_options,
    .defaults = &metrics_defaults,
    .size = sizeof(metrics_defaults),
    .kind = "read",
    .run = metrics_run,
};
