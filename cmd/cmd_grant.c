/*
 * grant: which database role may do what with jobrun, by kind. Grants are kept in a table, and each migration grants
 * them again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "print.h"
#include "sql_text.h"

struct grant_opts {
	struct jr_words types, queues;
	int64_t max_open;
	bool revoke, dry_run;
};

static const struct grant_opts grant_defaults = {.revoke = false};

#define CHANGE_COUNT 4 /* the statements of a dry run */

#define AT(field) offsetof(struct grant_opts, field)

/* clang-format off */
static const struct jr_option grant_options[] = {
	{ .name = "type", .letter = 't', .arg = "TYPE", .help = "enqueue: only these job types (all)", .type = JR_OPT_WORDS,
	    .offset = AT(types), .check = jr_parse_job_type },
	{ .name = "queue", .letter = 'q', .arg = "QUEUE", .help = "enqueue: only into these queues (all)", .type = JR_OPT_WORDS,
	    .offset = AT(queues), .check = jr_parse_queue },
	{ .name = "max-open", .arg = "N", .help = "enqueue: at most N unfinished runs of the role at a time (any number)",
	    .type = JR_OPT_INT, .offset = AT(max_open), .min = 1, .max = INT32_MAX },
	{ .name = "revoke", .help = "take the grant away", .type = JR_OPT_FLAG, .offset = AT(revoke) },
	{ .name = "dry-run", .letter = 'n', .help = "check it, change nothing", .type = JR_OPT_FLAG, .offset = AT(dry_run) },
	JR_OPTIONS_END,
};

static const struct jr_column columns[] = {
	{ "KIND", JR_CELL_TEXT },
	{ "ROLE", JR_CELL_TEXT },
	{ "TYPES", JR_CELL_TEXT },
	{ "QUEUES", JR_CELL_TEXT },
	{ "MAX OPEN", JR_CELL_NUMBER },
	{ "SINCE", JR_CELL_AGE },
	{ "PROBLEM", JR_CELL_TEXT },
};
/* clang-format on */

static const char *const kinds[] = {"enqueue", "read", "run", "admin"};

static const char *
word_of(int argument, size_t i)
{
	return argument == 0 && i < JR_COUNT(kinds) ? kinds[i] : NULL;
}

static bool
check_kind(const char *text, struct jr_err *err)
{
	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		if (strcmp(kinds[i], text) == 0)
			return true;
	}
	return jr_fail_unknown(err, "kind", text, kinds, JR_COUNT(kinds), "enqueue, read, run or admin");
}

static bool
is_limited(const struct grant_opts *opts)
{
	return opts->types.count > 0 || opts->queues.count > 0 || opts->max_open > 0;
}

static bool
check(const struct grant_opts *opts, int argc, char **argv, struct jr_err *err)
{
	bool asked = opts->revoke || opts->dry_run || is_limited(opts);

	if (argc == 1 || (argc == 0 && asked))
		return jr_fail(err, JR_E_USAGE, "%s is missing; usage: jobrun grant KIND ROLE [OPTION...]",
		    argc == 1 ? "ROLE" : "KIND");
	if (argc == 0)
		return true;
	if (!check_kind(argv[0], err))
		return false;
	if (is_limited(opts) && opts->revoke)
		return jr_fail(err, JR_E_USAGE,
		    "--type, --queue and --max-open do not go with --revoke; to change them, grant again");
	if (is_limited(opts) && strcmp(argv[0], "enqueue") != 0)
		return jr_fail(err, JR_E_USAGE, "--type, --queue and --max-open are for kind enqueue alone");
	if (*argv[1] == '\0')
		return jr_fail(err, JR_E_USAGE, "ROLE is empty");
	return true;
}

/* Grant or revoke (results[0]), then read the list (results[1]). With -n roll back. */
static bool
change(struct jr_db *db, const struct grant_opts *opts, char **argv, PGresult **results, struct jr_err *err)
{
	char *types = jr_pg_array_or_null((const char *const *)opts->types.items, opts->types.count);
	char *queues = jr_pg_array_or_null((const char *const *)opts->queues.items, opts->queues.count);
	char most[24];
	const char *values[] = {
	    argv[0], argv[1], types, queues, opts->max_open > 0 ? jr_print_int(most, opts->max_open) : NULL};
	const struct jr_statement statements[CHANGE_COUNT] = {
	    {opts->revoke ? jr_sql_grant_drop : jr_sql_grant_add, opts->revoke ? 2 : JR_COUNT(values), values},
	    {jr_sql_grants, 0, NULL}, {jr_sql_rollback, 0, NULL}, {jr_sql_begin, 0, NULL}};
	bool ok = jr_db_run(db, statements, opts->dry_run ? CHANGE_COUNT : 2, results, JR_CMD_TIMEOUT_MS, err);

	free(types);
	free(queues);
	return ok;
}

static void
add_words(struct jr_buf *line, const char *before, const struct jr_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		(void)jr_buf_addf(line, "%s%s", i == 0 ? before : ", ", words->items[i]);
}

/* Of a role that was renamed only the old name is known here. */
static void
add_revoked(struct jr_buf *line, const struct grant_opts *opts, char **argv, const PGresult *answer)
{
	if (!jr_pg_bool(answer, 0, 0))
		jr_buf_addf(line, "%s did not have %s", argv[1], argv[0]);
	else if (!jr_pg_bool(answer, 0, 1))
		jr_buf_addf(line, "%s had no grant: all its rights in schema jobrun %s revoked", argv[1],
		    opts->dry_run ? "would be" : "are");
	else
		jr_buf_addf(line, "%s: %srevoked from %s", argv[0], opts->dry_run ? "would be " : "", argv[1]);
	if (!jr_pg_bool(answer, 0, 2))
		jr_buf_adds(line,
		    "; there is no such role: if it was renamed, it keeps its rights, and 'jobrun doctor grants' "
		    "finds it");
}

static void
tell(const struct grant_opts *opts, char **argv, const PGresult *answer)
{
	struct jr_buf line;

	jr_buf_init(&line, SIZE_MAX / 4);
	if (opts->revoke)
		add_revoked(&line, opts, argv, answer);
	else
		jr_buf_addf(&line, "%s: %sgranted to %s", argv[0], opts->dry_run ? "would be " : "", argv[1]);
	add_words(&line, ", for ", &opts->types);
	add_words(&line, ", into ", &opts->queues);
	if (opts->max_open > 0)
		jr_buf_addf(&line, ", at most %lld open", (long long)opts->max_open);
	if (!opts->revoke && jr_pg_text(answer, 0, 1) != NULL)
		jr_buf_addf(&line, " (before: %s)", jr_pg_text(answer, 0, 1));
	jr_print_line(stdout, "", line.data);
	jr_buf_release(&line);
}

static int
grant_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct grant_opts *opts = values;
	PGresult *results[CHANGE_COUNT] = {NULL};
	struct jr_db *db = NULL;
	bool ok = false;

	if (check(opts, argc, argv, err))
		db = jr_cmd_connect(app, err);
	if (db != NULL && argc > 0)
		ok = change(db, opts, argv, results, err);
	else if (db != NULL) {
		results[1] = jr_db_query(db, jr_sql_grants, 0, NULL, JR_CMD_TIMEOUT_MS, err);
		ok = results[1] != NULL;
	}
	jr_db_close(db);
	if (ok && app->json)
		jr_print_list("grants", results[1], JR_COUNT(columns));
	else if (ok && argc > 0)
		tell(opts, argv, results[0]);
	else if (ok && (PQntuples(results[1]) > 0 || jr_print_is_terminal(stdout)))
		jr_print_table(results[1], columns, JR_COUNT(columns));
	for (size_t i = 0; i < CHANGE_COUNT; i++)
		PQclear(results[i]);
	return ok ? 0 : (int)err->code;
}

static bool
grant_changes(const void *values, int argc)
{
	(void)values;
	return argc > 0;
}

const struct jr_cmd jr_cmd_grant = {
    .name = "grant",
    .group = JR_GROUP_SETUP,
    .summary = "let a database role enqueue, read, run or administer",
    .usage = "[KIND ROLE [OPTION...]]",
    .details =
	"Without arguments: list all grants. The kinds:\n"
	"  enqueue  queue runs in its own transactions, wait for and cancel its own runs, mark effects\n"
	"  read     status, list, show: everything but payloads, results, errors and output\n"
	"  run      what a runner needs; includes read and enqueue\n"
	"  admin    also retry, cancel, pause, limits, definitions and grants\n"
	"The role must exist (CREATE ROLE). Each migration grants everything again. To grant enqueue again replaces\n"
	"its job types, queues and limit. Only the owner of the schema can migrate.\n",
    .options = grant_options,
    .defaults = &grant_defaults,
    .size = sizeof(grant_defaults),
    .max_args = 2,
    .kind = "read",
    .needs_admin = grant_changes,
    .word = word_of,
    .run = grant_run,
};
