/*
 * check: a plugin for Nagios, Icinga, Checkmk and the like, as the monitoring plugin guidelines want it: one line of
 * text and numbers on stdout, a line for each measure, and exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. Every
 * error is UNKNOWN, on stdout, since that is all that those programs show.
 *
 * The whole command has --timeout: connecting and the one statement share it.
 */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "check.h"
#include "commands.h"
#include "known.h"
#include "print.h"
#include "ranges.h"
#include "sql_text.h"

enum state {
	STATE_OK,
	STATE_WARNING,
	STATE_CRITICAL,
	STATE_UNKNOWN
};

static const char *const state_words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

/* In the order of check.sql. "": no range. */
enum {
	RUNNER_AGE,
	OLDEST_DUE,
	DEAD,
	SLOT_LATE,
	EXPIRED_LEASES,
	PAUSED,
	MEASURES
};

static const struct kind {
	const char *label, *warning, *critical;
	bool seconds;
} kinds[MEASURES] = {
    [RUNNER_AGE] = {"runner_age", "3m", "5m", true},
    [OLDEST_DUE] = {"oldest_due", "5m", "15m", true},
    [DEAD] = {"dead", "0", "9", false},
    [SLOT_LATE] = {"slot_late", "2m", "10m", true},
    [EXPIRED_LEASES] = {"expired_leases", "0", "4", false},
    [PAUSED] = {"paused", "", "", false},
};

/* A range that was given, or not. */
struct limit {
	struct jr_range range;
	bool given;
};

struct measure {
	struct limit limits[STATE_CRITICAL]; /* of warning, of critical */
	const char *about;                   /* borrowed; NULL: nobody */
	int64_t value;
	bool known;
	enum state state;
};

struct check_opts {
	struct jr_words limits[STATE_CRITICAL];
	const char *unreachable;
	int64_t timeout_ms;
};

static const struct check_opts check_defaults = {.unreachable = "unknown", .timeout_ms = 10000};

#define AT(field) offsetof(struct check_opts, field)

/* LABEL=RANGE: the measure of that label gets the range; an empty one takes it away. */
static bool
read_limit(const char *what, const char *text, size_t which, struct measure *measures, struct jr_err *err)
{
	const char *labels[MEASURES], *equals = strchr(text, '=');
	char *label = equals == NULL ? NULL : jr_xasprintf("%.*s", (int)(equals - text), text);
	bool ok = false;
	size_t i = 0;

	for (size_t k = 0; k < MEASURES; k++)
		labels[k] = kinds[k].label;
	while (label != NULL && i < MEASURES && strcmp(label, labels[i]) != 0)
		i++;
	if (label == NULL)
		jr_fail(err, JR_E_USAGE, "%s: \"%s\" is not LABEL=RANGE, as in oldest_due=10m", what, text);
	else if (i == MEASURES)
		jr_fail_unknown(err, "label", label, labels, MEASURES,
		    "runner_age, oldest_due, dead, slot_late, expired_leases, paused");
	else {
		struct limit *limit = &measures[i].limits[which];

		limit->given = equals[1] != '\0';
		ok = !limit->given || jr_range_parse(text, equals + 1, kinds[i].seconds, &limit->range, err);
	}
	free(label);
	return ok;
}

static bool
read_limits(const struct check_opts *opts, struct measure *measures, struct jr_err *err)
{
	static const char *const names[STATE_CRITICAL] = {"-w", "-c"};

	for (size_t which = 0; which < STATE_CRITICAL; which++) {
		for (size_t i = 0; i < MEASURES; i++) {
			const char *usual = which == 0 ? kinds[i].warning : kinds[i].critical;
			struct limit *limit = &measures[i].limits[which];

			limit->given = *usual != '\0';
			if (limit->given && !jr_range_parse(names[which], usual, kinds[i].seconds, &limit->range, err))
				return false;
		}
		for (size_t i = 0; i < opts->limits[which].count; i++) {
			if (!read_limit(names[which], opts->limits[which].items[i], which, measures, err))
				return false;
		}
	}
	return true;
}

/* A runner that was never seen is as bad as one that was seen too long ago, if there is a limit at all. */
static enum state
judge(const struct measure *m)
{
	for (enum state state = STATE_CRITICAL; state > STATE_OK; state--) {
		const struct limit *limit = &m->limits[state - 1];

		if (limit->given && (!m->known || jr_range_alerts(&limit->range, m->value)))
			return state;
	}
	return STATE_OK;
}

static char *
limit_text(const struct limit *limit)
{
	return limit->given ? jr_range_text(&limit->range) : jr_xstrdup("");
}

/* "oldest due run, of mail: 14m", without anything that a monitoring system gives a meaning to. Caller frees. */
static char *
words_of(const struct measure *measures, size_t i)
{
	const struct measure *m = &measures[i];
	static const struct {
		const char *one, *many;
	} counted[MEASURES] = {[DEAD] = {"dead in the last hour", "dead in the last hour"},
	    [EXPIRED_LEASES] = {"expired lease", "expired leases"},
	    [PAUSED] = {"paused", "paused"}};
	char *took = kinds[i].seconds ? jr_format_duration(m->value * 1000) : jr_xasprintf("%" PRId64, m->value);
	const char *about = m->about == NULL ? "nobody" : m->about;
	char *text;

	if (i == RUNNER_AGE)
		text = m->known ? jr_xasprintf("last runner seen %s ago on %s", took, about)
				: jr_xstrdup("no runner has been seen yet");
	else if (i == OLDEST_DUE)
		text = m->about != NULL
			   ? jr_xasprintf("oldest due run waits for %s (%s)", took, about)
			   : jr_xasprintf("nothing waits%s", measures[PAUSED].value > 0 ? " that is not paused" : "");
	else if (i == SLOT_LATE)
		text = m->about == NULL ? jr_xstrdup("no slot is late")
					: jr_xasprintf("a slot of %s is %s late", about, took);
	else if (m->value == 0)
		text = i == PAUSED ? jr_xstrdup("nothing is paused") : jr_xasprintf("no %s", counted[i].many);
	else if (m->value == 1)
		text = jr_xasprintf("1 %s (%s)", counted[i].one, about);
	else if (i == PAUSED)
		text = jr_xasprintf("%s %s (%s and others)", took, counted[i].many, about);
	else /* several names: none has more than half */
		text = jr_xasprintf(
		    strchr(about, ',') == NULL ? "%s %s (mostly %s)" : "%s %s (%s)", took, counted[i].many, about);
	free(took);
	for (char *c = text; *c != '\0'; c++)
		*c = *c == '|' ? '/' : *c;
	return text;
}

/* "oldest_due=840s;300;900;0"; U: there is no value. */
static void
add_number(struct jr_buf *out, size_t i, const struct measure *m)
{
	char *warning = limit_text(&m->limits[0]), *critical = limit_text(&m->limits[1]);

	if (m->known)
		jr_buf_addf(out, " %s=%" PRId64 "%s;%s;%s;0", kinds[i].label, m->value, kinds[i].seconds ? "s" : "",
		    warning, critical);
	else
		jr_buf_addf(out, " %s=U", kinds[i].label);
	free(warning);
	free(critical);
}

/* What is not OK, the worst first; or if all is well, what most people want to know. */
static void
add_verdict(struct jr_buf *out, enum state state, const struct measure *measures)
{
	const char *between = ": ";

	jr_buf_addf(out, "JOBRUN %s", state_words[state]);
	for (enum state s = state; s == state || s > STATE_OK; s--) {
		for (size_t i = 0; i < MEASURES; i++) {
			char *words;

			if (measures[i].state != s || (s == STATE_OK && i > DEAD))
				continue;
			words = words_of(measures, i);
			jr_buf_addf(out, "%s%s", between, words);
			between = "; ";
			free(words);
		}
		if (s == STATE_OK)
			break;
	}
}

/* One line with all numbers, then a line for each measure. */
static void
print_text(enum state state, const struct measure *measures)
{
	struct jr_buf out;

	jr_buf_init(&out, 65536);
	add_verdict(&out, state, measures);
	jr_buf_adds(&out, " |");
	for (size_t i = 0; i < MEASURES; i++)
		add_number(&out, i, &measures[i]);
	jr_print_line(stdout, "", out.data);
	for (size_t i = 0; i < MEASURES; i++) {
		char *words = words_of(measures, i),
		     *line = jr_xasprintf("[%s] %s", state_words[measures[i].state], words);

		jr_print_line(stdout, "", line);
		free(words);
		free(line);
	}
	jr_buf_release(&out);
}

static json_t *
limit_document(const struct limit *limit)
{
	char *text = limit_text(limit);
	json_t *document = limit->given ? json_string(text) : json_null();

	free(text);
	return document;
}

static void
print_json(enum state state, const struct measure *measures)
{
	json_t *list = json_array(), *document;

	for (size_t i = 0; i < MEASURES; i++) {
		const struct measure *m = &measures[i];
		char *words = words_of(measures, i);

		json_array_append_new(
		    list, json_pack("{s:s, s:s, s:o, s:s?, s:o, s:o, s:s?, s:s}", "label", kinds[i].label, "state",
			      state_words[m->state], "value", m->known ? json_integer(m->value) : json_null(), "unit",
			      kinds[i].seconds ? "s" : NULL, "warning", limit_document(&m->limits[0]), "critical",
			      limit_document(&m->limits[1]), "about", m->about, "text", words));
		free(words);
	}
	document =
	    json_pack("{s:s, s:i, s:o}", "state", state_words[state], "exit_status", (int)state, "measures", list);
	jr_print_value(document);
	json_decref(document);
}

static bool
take(const PGresult *result, struct measure *measures, struct jr_err *err)
{
	if (PQntuples(result) != MEASURES)
		return jr_fail(
		    err, JR_E_BUG, "the database answered with %d measures instead of %d", PQntuples(result), MEASURES);
	for (int i = 0; i < MEASURES; i++) {
		measures[i].known = !PQgetisnull(result, i, 1);
		measures[i].value = jr_pg_int(result, i, 1, 0);
		measures[i].about = jr_pg_text(result, i, 2);
		measures[i].state = judge(&measures[i]);
	}
	return true;
}

static enum state
worst_of(const struct measure *measures)
{
	enum state worst = STATE_OK;

	for (size_t i = 0; i < MEASURES; i++)
		worst = measures[i].state > worst ? measures[i].state : worst;
	return worst;
}

_Static_assert(JR_CHECK_LINES == MEASURES, "a line for each");

bool
jr_check_lines(const PGresult *result, struct jr_check_line lines[JR_CHECK_LINES], struct jr_err *err)
{
	struct measure measures[MEASURES] = {0};

	if (!read_limits(&check_defaults, measures, err) || !take(result, measures, err))
		return false;
	for (size_t i = 0; i < MEASURES; i++)
		lines[i] = (struct jr_check_line){.state = (int)measures[i].state, .text = words_of(measures, i)};
	return true;
}

/* The state when the database does not answer. */
static enum state
unreachable(const struct check_opts *opts)
{
	return strcmp(opts->unreachable, "critical") == 0  ? STATE_CRITICAL
	       : strcmp(opts->unreachable, "warning") == 0 ? STATE_WARNING
							   : STATE_UNKNOWN;
}

/* A line, or a document, that says why nothing could be judged. Caller frees. */
static char *
failure_text(const struct jr_app *app, enum state state, const char *why)
{
	char *text, *document;
	json_t *value;

	if (!app->json) {
		text = jr_xasprintf("JOBRUN %s: %s", state_words[state], why);
		for (char *c = text; *c != '\0'; c++)
			*c = *c == '|' ? '/' : *c;
		document = jr_text_visible(text, false);
		free(text);
		return document;
	}
	text = jr_text_clean(why, strlen(why), strlen(why) * 3);
	value = json_pack("{s:i, s:s, s:i, s:[], s:s}", "version", 1, "state", state_words[state], "exit_status",
	    (int)state, "measures", "error", text);
	document = json_dumps(value, JSON_COMPACT);
	json_decref(value);
	free(text);
	return document;
}

/* When --timeout is over: written by a signal handler, so all is prepared. */
static struct {
	char text[512];
	size_t len;
	int status;
} late;

static void
give_up(int signal)
{
	(void)signal;
	(void)!write(STDOUT_FILENO, late.text, late.len);
	_exit(late.status);
}

static void
begin_timeout(const struct jr_app *app, const struct check_opts *opts)
{
	const struct itimerval timer = {
	    .it_value = {.tv_sec = opts->timeout_ms / 1000, .tv_usec = opts->timeout_ms % 1000 * 1000}};
	struct sigaction action = {.sa_handler = give_up};
	char *took = jr_format_duration(opts->timeout_ms);
	char *why = jr_xasprintf("no answer from the database within %s", took);
	char *text = failure_text(app, unreachable(opts), why);

	late.len = (size_t)snprintf(late.text, sizeof(late.text), "%s\n", text);
	late.status = (int)unreachable(opts);
	free(took);
	free(why);
	free(text);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void
end_timeout(void)
{
	const struct itimerval off = {.it_value = {0}};

	setitimer(ITIMER_REAL, &off, NULL);
}

/* A type that nobody knows has nothing that could be wrong, so a typing error would be OK for ever. */
static bool
all_known(const PGresult *types, char **argv, struct jr_err *err)
{
	for (int row = 0; row < PQntuples(types); row++) {
		char *text, *all;

		if (PQgetisnull(types, row, 0))
			continue;
		text = jr_xasprintf("nothing is known of job type %s", argv[row]);
		all = jr_known_words(text, argv[row], PQgetvalue(types, row, 0));
		jr_fail(err, JR_E_NEWS, "%s", all);
		free(text);
		free(all);
		return false;
	}
	return true;
}

/* Only if all is well. A role of kind read may not ask this in the schema of the version before; that is no matter. */
static bool
check_names(struct jr_db *db, const char *types, char **argv, const struct check_opts *opts, struct jr_err *err)
{
	struct jr_err unused;
	PGresult *result = NULL;
	bool ok;

	if (types != NULL)
		result = jr_db_query(db, jr_sql_check_types, 1, &types, opts->timeout_ms, &unused);
	ok = result == NULL || all_known(result, argv, err);
	PQclear(result);
	return ok;
}

/* *result: what the measures borrow their texts from; the caller's. */
static bool
ask(const struct jr_app *app, const struct check_opts *opts, int argc, char **argv, struct measure *measures,
    PGresult **result, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect_within(app, opts->timeout_ms / 2, err);
	char *types = jr_pg_array_or_null((const char *const *)argv, (size_t)argc);
	const char *values[] = {types};
	bool ok;

	*result = db == NULL ? NULL : jr_db_query(db, jr_sql_check, JR_COUNT(values), values, opts->timeout_ms, err);
	ok = *result != NULL && take(*result, measures, err) &&
	     (worst_of(measures) != STATE_OK || check_names(db, types, argv, opts, err));
	jr_db_close(db);
	free(types);
	return ok;
}

static int
check_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct measure measures[MEASURES] = {0};
	PGresult *result;
	int status = 0;
	bool ok;

	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return (int)err->code;
	}
	if (!read_limits(values, measures, err))
		return (int)err->code;
	begin_timeout(app, values);
	ok = ask(app, values, argc, argv, measures, &result, err);
	end_timeout();
	if (!ok)
		status = (int)err->code;
	else {
		status = (int)worst_of(measures);
		(app->json ? print_json : print_text)(worst_of(measures), measures);
	}
	PQclear(result);
	return status;
}

static int
check_fail(const struct jr_app *app, const void *values, const struct jr_err *err)
{
	enum state state = err->code == JR_E_TEMP ? unreachable(values) : STATE_UNKNOWN;
	char *text = failure_text(app, state, err->msg);

	puts(text);
	free(text);
	return (int)state;
}

/* clang-format off */
static const struct jr_option check_options[] = {
	{ .name = "warning", .letter = 'w', .arg = "LABEL=RANGE", .help = "alert outside of RANGE; may be repeated; no RANGE: no alert",
	    .type = JR_OPT_WORDS, .offset = AT(limits[0]) },
	{ .name = "critical", .letter = 'c', .arg = "LABEL=RANGE", .help = "the same for CRITICAL", .type = JR_OPT_WORDS,
	    .offset = AT(limits[1]) },
	{ .name = "unreachable", .arg = "STATE", .help = "if the database does not answer: unknown, warning or critical (unknown)",
	    .type = JR_OPT_STRING, .offset = AT(unreachable), .choices = "unknown warning critical" },
	{ .name = "timeout", .arg = "D", .help = "for everything together (10s)", .type = JR_OPT_DURATION, .offset = AT(timeout_ms),
	    .min = 100, .max = 3600000 },
	JR_OPTIONS_END,
};
/* clang-format on */

const struct jr_cmd jr_cmd_check = {
    .name = "check",
    .group = JR_GROUP_WATCH,
    .summary = "check whether all is well; for Nagios and its kin",
    .usage = "[OPTION...] [TYPE...]",
    .details =
	"Exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. Labels, and the ranges that are usual for them:\n"
	"  runner_age      3m 5m   seconds since a runner was seen\n"
	"  oldest_due      5m 15m  how long the oldest due run waits that nobody holds, and no pause holds back\n"
	"  dead            0 9     runs that went dead in the last hour\n"
	"  slot_late       2m 10m  how late the next slot of a definition is\n"
	"  expired_leases  0 4     runs whose lease ended two minutes ago or earlier, and that no runner has taken\n"
	"  paused          - -     pauses\n"
	"A RANGE is as in the monitoring plugin guidelines: 10 (alert above 10), 10: (below 10), 10:20, @10:20\n"
	"(inside). Seconds may be written as 5m. With TYPEs, only their runs, definitions and pauses count.\n",
    .options = check_options,
    .defaults = &check_defaults,
    .size = sizeof(check_defaults),
    .max_args = -1,
    .kind = "read",
    .run = check_run,
    .fail = check_fail,
};
