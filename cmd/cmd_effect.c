/*
 * effect: run a command unless it has been done before, under a key that the database remembers.
 *
 * There are three steps: ask whether to run, run, mark as done. No connection is held while the command runs. After a
 * crash between the last two steps the command runs again: at least once. With --at-most-once the first step writes the
 * mark, so after such a crash the command does not run again, and the third step adds how the command ended. What must
 * hold then: we never take another caller's mark for our own. Our mark has a random word, so if an answer is lost, the
 * same question gets the same answer.
 *
 * Inside a handler (JOBRUN_RUN_ID, JOBRUN_CLAIM) the claim must still be the running one before the command starts. The
 * mark at the end is written whatever became of the claim, since the effect has happened. In a handler of `jobrun try`
 * nothing is written.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "commands.h"
#include "effect_child.h"
#include "print.h"
#include "sql_text.h"

#define PAUSE_MS 200

struct effect_opts {
	bool at_most_once;
};

static const struct effect_opts effect_defaults = {.at_most_once = false};

/* clang-format off */
static const struct jr_option effect_options[] = {
	{ .name = "at-most-once", .help = "mark KEY first, then run CMD: it never runs twice, and after a crash perhaps never", .type = JR_OPT_FLAG,
	    .offset = offsetof(struct effect_opts, at_most_once) },
	JR_OPTIONS_END,
};
/* clang-format on */

struct effect {
	const struct jr_app *app;
	const char *key;
	char **command;
	const char *run_id, *claim; /* NULL: not inside a handler */
	char run_text[24], claim_text[24];
	char word[40]; /* the random word in our mark, with --at-most-once */
	bool at_most_once;
	bool tried; /* inside `jobrun try`: write nothing */
};

enum word {
	GO,
	DONE,
	OPEN,
	BEGUN,
	FENCED
};

/* The answer of effect_begin, effect_claim and effect_look. */
struct answer {
	enum word word;
	int64_t status, age_ms; /* if DONE */
};

static bool
check_arguments(int argc, char **argv, struct jr_err *err)
{
	if (argc < 3 || strcmp(argv[1], "--") != 0)
		return jr_fail(err, JR_E_USAGE,
		    "the command goes behind \"--\", and before it KEY alone: jobrun effect %s -- mail -s hello ada",
		    argc == 0 || strcmp(argv[0], "--") == 0 ? "KEY" : argv[0]);
	return jr_parse_key("KEY", argv[0], err);
}

/* Read a number from the environment of a handler. *text stays NULL if it is not set, or 0 as in `jobrun try`. */
static bool
read_number(const char *name, char storage[24], const char **text, bool *is_zero, struct jr_err *err)
{
	const char *value = getenv(name);
	int64_t number;

	*is_zero = value != NULL && strcmp(value, "0") == 0;
	if (value == NULL || *value == '\0' || *is_zero)
		return true;
	if (!jr_parse_int(name, value, 1, INT64_MAX, &number, err))
		return false;
	*text = jr_print_int(storage, number);
	return true;
}

static bool
read_claim(struct effect *effect, struct jr_err *err)
{
	bool no_run, no_claim, is_run;

	if (!read_number("JOBRUN_RUN_ID", effect->run_text, &effect->run_id, &no_run, err) ||
	    !read_number("JOBRUN_CLAIM", effect->claim_text, &effect->claim, &no_claim, err))
		return false;
	effect->tried = no_run && no_claim;
	if ((effect->run_id == NULL) == (effect->claim == NULL) && no_run == no_claim)
		return true;
	is_run = effect->run_id != NULL || (effect->claim == NULL && no_run);
	return jr_fail(err, JR_E_USAGE, "%s is set and %s is not: in a handler both are set, elsewhere neither",
	    is_run ? "JOBRUN_RUN_ID" : "JOBRUN_CLAIM", is_run ? "JOBRUN_CLAIM" : "JOBRUN_RUN_ID");
}

static bool
make_word(struct effect *effect, struct jr_err *err)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return jr_fail(err, JR_E_TEMP, "could not get random bytes");
	snprintf(effect->word, sizeof(effect->word), "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	return true;
}

/* NULL: *err says why, and *connected whether there was a connection. */
static PGresult *
ask_once(const struct effect *effect, const struct jr_statement *statement, bool *connected, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(effect->app, err);
	PGresult *result = NULL;

	*connected = db != NULL;
	if (db != NULL)
		result = jr_db_query(db, statement->sql, statement->count, statement->values, JR_CMD_TIMEOUT_MS, err);
	jr_db_close(db);
	return result;
}

/*
 * Run one statement on a new connection. If the connection is lost, repeat it for up to JR_CMD_PATIENCE_MS; each
 * connect may take as long again. Every statement here may be repeated. *doubt is set when an answer was lost. *err is
 * not touched on success.
 */
static PGresult *
ask(const struct effect *effect, const struct jr_statement *statement, bool *doubt, struct jr_err *err)
{
	int64_t until = jr_clock_after(jr_clock_now_ms(), JR_CMD_PATIENCE_MS);
	struct jr_err last;
	bool connected;
	PGresult *result = ask_once(effect, statement, &connected, &last);

	while (result == NULL) {
		*doubt = *doubt || jr_db_is_in_doubt(&last);
		if (!connected || last.code != JR_E_TEMP || jr_clock_now_ms() >= until) {
			*err = last;
			return NULL;
		}
		poll(NULL, 0, PAUSE_MS);
		result = ask_once(effect, statement, &connected, &last);
	}
	return result;
}

static enum word
read_word(const char *text)
{
	static const struct {
		const char *text;
		enum word word;
	} words[] = {{"go", GO}, {"done", DONE}, {"open", OPEN}, {"begun", BEGUN}};

	for (size_t i = 0; i < JR_COUNT(words); i++) {
		if (strcmp(text, words[i].text) == 0)
			return words[i].word;
	}
	return FENCED;
}

/* Say why the command was not run. */
static bool
fail_unasked(const struct effect *effect, bool doubt, struct jr_err *err)
{
	struct jr_err why = *err;

	if (strcmp(why.sqlstate, "55P03") == 0)
		return jr_fail(err, why.code,
		    "%s was not run: a transaction that has called jobrun.effect('%s') is still open",
		    effect->command[0], effect->key);
	if (doubt && effect->at_most_once && !effect->tried)
		return jr_fail(err, why.code,
		    "%s was not run, and it is not known whether effect %s is marked; if it is, the command never runs: %s",
		    effect->command[0], effect->key, why.msg);
	return jr_fail(err, why.code, "%s was not run: %s", effect->command[0], why.msg);
}

static bool
begin(struct effect *effect, struct answer *answer, struct jr_err *err)
{
	const char *values[] = {effect->key, effect->run_id, effect->claim, effect->word};
	const struct jr_statement at_least = {jr_sql_effect_begin, 3, values};
	const struct jr_statement at_most = {jr_sql_effect_claim, 4, values};
	const struct jr_statement look = {jr_sql_effect_look, 1, values};
	bool doubt = false;
	PGresult *result;

	if (effect->at_most_once && !make_word(effect, err))
		return false;
	result = ask(effect, effect->tried ? &look : effect->at_most_once ? &at_most : &at_least, &doubt, err);
	if (result == NULL)
		return fail_unasked(effect, doubt, err);
	answer->word = read_word(PQgetvalue(result, 0, 0));
	answer->status = jr_pg_int(result, 0, 1, 0);
	answer->age_ms = jr_pg_int(result, 0, 2, 0);
	PQclear(result);
	if (effect->tried && !effect->at_most_once && answer->word == BEGUN)
		answer->word = GO;
	return true;
}

/* Always 0, since the effect has happened; if it could not be marked, *err says so. */
static int
mark(const struct effect *effect, struct jr_err *err)
{
	const char *values[] = {effect->key, effect->run_id, effect->claim};
	const struct jr_statement statement = {jr_sql_effect_done, JR_COUNT(values), values};
	struct jr_err why;
	bool unused = false;
	PGresult *result = ask(effect, &statement, &unused, &why);

	if (result == NULL)
		jr_fail(err, why.code, "effect %s has happened and is not marked, so it may happen again: %s",
		    effect->key, why.msg);
	PQclear(result);
	return 0;
}

/* The command was not started, so remove the mark of --at-most-once. */
static void
take_back(const struct effect *effect, struct jr_err *err)
{
	const char *values[] = {effect->key, effect->word};
	const struct jr_statement statement = {jr_sql_effect_undo, JR_COUNT(values), values};
	struct jr_err why, first = *err;
	bool unused = false;
	PGresult *result = ask(effect, &statement, &unused, &why);

	if (result == NULL)
		jr_fail(err, first.code, "%s; effect %s stays marked: %s", first.msg, effect->key, why.msg);
	PQclear(result);
}

/* Add CMD's exit status to the mark, for later calls. If that fails, *err says so. */
static void
remember(const struct effect *effect, int status, struct jr_err *err)
{
	char text[24];
	const char *values[] = {effect->key, effect->word, jr_print_int(text, status)};
	const struct jr_statement statement = {jr_sql_effect_end, JR_COUNT(values), values};
	struct jr_err why;
	bool unused = false;
	PGresult *result = ask(effect, &statement, &unused, &why);

	if (result == NULL)
		jr_fail(err, why.code, "effect %s has ended with exit status %d, and that is not marked: %s",
		    effect->key, status, why.msg);
	PQclear(result);
}

static int
go(const struct effect *effect, struct jr_err *err)
{
	bool started;
	int status = jr_effect_child_run(effect->command, &started, err);

	if (effect->tried) {
		char *key = jr_text_visible(effect->key, false);

		fprintf(stderr, "jobrun try: %s is not marked\n", key);
		free(key);
	} else if (!started && effect->at_most_once) {
		take_back(effect, err);
	} else if (effect->at_most_once) {
		remember(effect, status, err);
	} else if (status == 0) {
		status = mark(effect, err);
	}
	return status;
}

/* The command was done before: return its status again, and say so on a terminal or with -v. */
static int
skip(const struct effect *effect, const struct answer *answer)
{
	char *key, *age;

	if (effect->app->verbose > 0 || jr_print_is_terminal(stderr)) {
		key = jr_text_visible(effect->key, false);
		age = jr_format_age(answer->age_ms);
		if (answer->status == 0)
			fprintf(stderr, "%s: done before, %s%s\n", key, strcmp(age, "now") == 0 ? "just " : "", age);
		else
			fprintf(
			    stderr, "%s: ended before with exit status %" PRId64 ", %s\n", key, answer->status, age);
		free(age);
		free(key);
	}
	return (int)answer->status;
}

static int
effect_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct effect_opts *opts = values;
	struct effect effect = {.app = app, .key = argv[0], .at_most_once = opts->at_most_once};
	struct answer answer = {.word = FENCED};

	if (!check_arguments(argc, argv, err) || !read_claim(&effect, err))
		return (int)err->code;
	effect.command = argv + 2;
	if (!begin(&effect, &answer, err))
		return (int)err->code;
	switch (answer.word) {
	case GO:
		return go(&effect, err);
	case DONE:
		return skip(&effect, &answer);
	case OPEN:
		jr_fail(err, JR_E_NEWS, "%s was not run: effect %s was begun before and may not have ended",
		    effect.command[0], effect.key);
		return 0;
	case BEGUN:
		jr_fail(err, JR_E_NEWS,
		    "%s was not run: effect %s was begun without --at-most-once and may have happened",
		    effect.command[0], effect.key);
		return 0;
	case FENCED:
		break;
	}
	jr_fail(err, JR_E_TEMP, "%s was not run: claim %s of run %s is not the running one any more", effect.command[0],
	    effect.claim, effect.run_id);
	return (int)err->code;
}

const struct jr_cmd jr_cmd_effect = {
    .name = "effect",
    .group = JR_GROUP_SCRIPTS,
    .summary = "run a command unless it was done before",
    .usage = "[OPTION...] KEY -- CMD [ARG...]",
    .details = "Runs CMD unless KEY is marked, and marks KEY when CMD has exited with 0. jobrun.effect(KEY) in SQL\n"
	       "sets the same mark. If CMD is done but KEY could not be marked (a crash, no database), CMD runs\n"
	       "again next time: at least once.\n"
	       "\n"
	       "With --at-most-once KEY is marked before CMD runs. CMD's exit status is added to the mark; later\n"
	       "calls return it and do not run CMD. If it is not known (a crash), they say so.\n"
	       "\n"
	       "The exit status is CMD's; 0 if it was done before, or may have been; 128+N if signal N killed it;\n"
	       "127 if there is no such command, 126 if it cannot be executed. 75: CMD was not run, since the\n"
	       "database cannot be reached or, in a handler, its claim is not the running one any more. In a handler\n"
	       "of jobrun try nothing is marked. With -v, or on a terminal, a line says that CMD was done before.\n",
    .options = effect_options,
    .defaults = &effect_defaults,
    .size = sizeof(effect_defaults),
    .min_args = 1,
    .max_args = -1,
    .takes_command = true,
    .kind = "enqueue",
    .run = effect_run,
};
