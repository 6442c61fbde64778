/*
 * migrate: bring the schema to this program's version, or say what would be done. The only command that changes it.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "commands.h"
#include "pg/migrate.h"
#include "pg/need.h"
#include "print.h"
#include "waits.h"

struct migrate_opts {
	bool status, print, dry_run, adopt, cancel_waiting;
	int64_t lock_timeout_ms;
};

#define STEPS_TEXT_MAX 65536
#define ADOPT_MS 600000

static const struct migrate_opts migrate_defaults = {.lock_timeout_ms = 2000};

#define AT(field) offsetof(struct migrate_opts, field)

/* clang-format off */
static const struct jr_option migrate_options[] = {
	{ .name = "status", .help = "list what is applied and what is pending; exit status 1 if something is pending",
	    .type = JR_OPT_FLAG, .offset = AT(status) },
	{ .name = "print", .help = "print the SQL and do nothing; needs no database", .type = JR_OPT_FLAG, .offset = AT(print) },
	{ .name = "dry-run", .letter = 'n', .help = "say what would be done", .type = JR_OPT_FLAG, .offset = AT(dry_run) },
	{ .name = "adopt", .help = "this database is a copy or was moved: accept it as the right one", .type = JR_OPT_FLAG,
	    .offset = AT(adopt) },
	{ .name = "cancel-waiting", .help = "with --adopt: the original goes on working, so cancel what waits here",
	    .type = JR_OPT_FLAG, .offset = AT(cancel_waiting) },
	{ .name = "lock-timeout", .arg = "D", .help = "wait D for a lock, up to five times, then say who holds it (2s)", .type = JR_OPT_DURATION,
	    .offset = AT(lock_timeout_ms), .min = 1, .max = 3600000 },
	JR_OPTIONS_END,
};
/* clang-format on */

/* The steps of the current try: the finished ones as text, and the one under way. */
struct steps {
	struct jr_buf ended;
	char *name;
	int64_t start_ms;
};

static void
print_sql(void)
{
	for (size_t i = 0; i < jr_migration_count; i++)
		printf("-- %04d %s\n%s\n", jr_migrations[i].version, jr_migrations[i].name, jr_migrations[i].sql);
	printf("-- functions %d\n", jr_functions_number);
	for (size_t i = 0; i < jr_function_count; i++)
		printf("%s\n", jr_functions[i].sql);
}

static void
print_line(const char *number, const char *name, const char *at)
{
	printf("%4s  %-20s  %s%s\n", number, name, at == NULL ? "pending" : "applied ", at == NULL ? "" : at);
}

/* The status as text. */
static void
print_lines(const struct jr_migrate *migrate)
{
	char number[16];

	for (size_t i = 0; i < jr_migration_count; i++) {
		snprintf(number, sizeof(number), "%04d", jr_migrations[i].version);
		print_line(number, jr_migrations[i].name, jr_migrate_applied_at(migrate, jr_migrations[i].version));
	}
	snprintf(number, sizeof(number), "%d", jr_functions_number);
	print_line(number, "functions", jr_migrate_functions_at(migrate));
}

/* The status as JSON. */
static void
print_document(const struct jr_migrate *migrate)
{
	const char *at = jr_migrate_functions_at(migrate);
	json_t *list = json_array(), *functions, *doc;

	functions = json_pack("{si si ss? sb}", "number", jr_migrate_functions(migrate), "newest", jr_functions_number,
	    "applied_at", at, "applied", at != NULL);
	for (size_t i = 0; i < jr_migration_count; i++) {
		const struct jr_migration *m = &jr_migrations[i];

		at = jr_migrate_applied_at(migrate, m->version);
		json_array_append_new(list, json_pack("{si ss ss? sb}", "schema_version", m->version, "name", m->name,
						"applied_at", at, "applied", at != NULL));
	}
	doc = json_pack("{si si so so}", "schema_version", jr_migrate_version(migrate), "newest", jr_need_newest(),
	    "migrations", list, "functions", functions);
	jr_print_value(doc);
	json_decref(doc);
}

static void
print_status(const struct jr_app *app, const struct jr_migrate *migrate)
{
	if (app->json)
		print_document(migrate);
	else
		print_lines(migrate);
}

/* A migration may take long, so show its name on a terminal until it has ended. */
static void
show_step(const char *name)
{
	if (!jr_print_is_terminal(stderr))
		return;
	fputs("\r\033[K", stderr);
	if (name != NULL)
		fprintf(stderr, "  applying %s ...", name);
	fflush(stderr);
}

static void
end_step(struct steps *steps)
{
	int64_t ms = jr_clock_now_ms() - steps->start_ms;

	if (steps->name == NULL)
		return;
	(void)jr_buf_addf(&steps->ended, "  %-40s %6lld ms\n", steps->name, (long long)ms);
	free(steps->name);
	steps->name = NULL;
	show_step(NULL);
}

/* NULL: a new try begins, and what was applied before is rolled back. */
static void
on_step(void *ctx, const char *name)
{
	struct steps *steps = ctx;

	end_step(steps);
	if (name == NULL) {
		jr_buf_clear(&steps->ended);
		return;
	}
	steps->name = jr_xstrdup(name);
	steps->start_ms = jr_clock_now_ms();
	show_step(name);
}

static void
print_warnings(const struct jr_migrate *migrate)
{
	char *text = jr_xstrdup(jr_migrate_warnings(migrate)), *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		jr_print_line(stderr, "jobrun: ", line);
	free(text);
}

/* "8 -> 9", or "9" if both are the same. */
static void
print_numbers(const char *before, int from, int to)
{
	printf("%s%d", before, from);
	if (from != to)
		printf(" -> %d", to);
}

static void
print_change(const struct jr_migrate *migrate)
{
	print_numbers("schema jobrun: ", jr_migrate_version(migrate), jr_need_newest());
	print_numbers(", functions ", jr_migrate_functions(migrate), jr_functions_number);
	if (jr_migrate_missing(migrate) > 0)
		printf(" (%" PRId64 " missing)", jr_migrate_missing(migrate));
	else if (jr_migrate_wrong_rights(migrate) > 0)
		fputs(" (rights are not as granted)", stdout);
	putchar('\n');
	fflush(stdout);
}

static void
print_pending(const struct jr_migrate *migrate)
{
	for (size_t i = 0; i < jr_migration_count; i++) {
		if (jr_migrate_applied_at(migrate, jr_migrations[i].version) == NULL)
			printf("  would apply migration %04d %s\n", jr_migrations[i].version, jr_migrations[i].name);
	}
	printf("  would apply functions %d\n", jr_functions_number);
}

static bool
apply(struct jr_migrate *migrate, struct steps *steps, bool quiet, struct jr_err *err)
{
	bool done, ok = jr_migrate_apply(migrate, &done, err);

	end_step(steps);
	if (!ok)
		return false;
	print_warnings(migrate);
	if (!quiet)
		fputs(done ? steps->ended.data : "  done by another jobrun\n", stdout);
	return true;
}

static bool
bring_up(const struct jr_app *app, const struct migrate_opts *opts, struct jr_migrate *migrate, struct steps *steps,
    struct jr_err *err)
{
	bool pending = jr_migrate_is_pending(migrate);

	if (!app->json && pending)
		print_change(migrate);
	else if (!app->json && (jr_print_is_terminal(stdout) || opts->dry_run))
		printf("schema jobrun: %d, functions %d, nothing to do\n", jr_migrate_version(migrate),
		    jr_migrate_functions(migrate));
	if (pending && opts->dry_run && !app->json)
		print_pending(migrate);
	if (pending && !opts->dry_run && !apply(migrate, steps, app->json, err))
		return false;
	if (app->json && !opts->adopt)
		print_status(app, migrate);
	return true;
}

static bool
migrate(const struct jr_app *app, const struct migrate_opts *opts, struct jr_migrate *work, struct steps *steps,
    struct jr_err *err)
{
	if (!jr_migrate_look(work, err))
		return false;
	if (!opts->status)
		return bring_up(app, opts, work, steps, err);
	print_status(app, work);
	return true;
}

static void
tell_adoption(const struct migrate_opts *opts, const PGresult *answer)
{
	const char *would = opts->dry_run ? "would be " : "";

	if (!jr_pg_bool(answer, 0, 0)) {
		if (opts->dry_run || opts->cancel_waiting || jr_print_is_terminal(stdout))
			puts("this database is no copy, nothing to adopt");
		return;
	}
	printf("%sadopted: jobrun runs the work of this database from now on\n", would);
	if (opts->cancel_waiting) {
		int64_t cancelled = jr_pg_int(answer, 0, 1, 0), asked = jr_pg_int(answer, 0, 2, 0);

		printf("%scancelled: %" PRId64 " waiting run%s; %sasked to end: %" PRId64 " running run%s\n", would,
		    cancelled, jr_text_plural(cancelled), would, asked, jr_text_plural(asked));
	}
}

/* Adopt this database; with -n roll back. */
static bool
adopt(const struct jr_app *app, const struct migrate_opts *opts, struct jr_err *err)
{
	const char *values[] = {opts->cancel_waiting ? "t" : "f"};
	const struct jr_statement statements[] = {
	    {jr_sql_migrate_adopt, JR_COUNT(values), values}, {jr_sql_rollback, 0, NULL}, {jr_sql_begin, 0, NULL}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ok =
	    db != NULL && jr_db_run(db, statements, opts->dry_run ? JR_COUNT(statements) : 1, results, ADOPT_MS, err);

	jr_db_close(db);
	if (ok && app->json)
		jr_print_document(PQgetvalue(results[0], 0, 3));
	else if (ok)
		tell_adoption(opts, results[0]);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return ok;
}

static bool
check(const struct migrate_opts *opts, struct jr_err *err)
{
	if (opts->cancel_waiting && !opts->adopt)
		return jr_fail(err, JR_E_USAGE, "--cancel-waiting is for --adopt");
	if (opts->adopt && (opts->status || opts->print))
		return jr_fail(err, JR_E_USAGE, "--adopt excludes --status and --print");
	return true;
}

static int
migrate_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct migrate_opts *opts = values;
	struct steps steps = {.name = NULL};
	const struct jr_db_waits waits = jr_waits_of(app);
	struct jr_migrate *work = NULL;
	struct jr_db *db;
	int status;

	(void)argc;
	(void)argv;
	if (!check(opts, err))
		return (int)err->code;
	if (opts->print) {
		print_sql();
		return 0;
	}
	jr_buf_init(&steps.ended, STEPS_TEXT_MAX);
	db = jr_db_open(jr_db_conninfo(app->dbname, NULL), JR_CMD_PATIENCE_MS, &waits, err);
	if (db == NULL)
		jr_waits_advise(app, err);
	else
		work = jr_migrate_new(db, opts->lock_timeout_ms, on_step, &steps, err);
	if (work == NULL || !migrate(app, opts, work, &steps, err))
		status = (int)err->code;
	else
		status = jr_migrate_is_pending(work) ? JR_E_NEWS : 0;
	if (status == JR_E_NEWS && !opts->status) /* a dry run with pending migrations: they come before --adopt */
		status = 0;
	else if (status == 0 && opts->adopt && !adopt(app, opts, err))
		status = (int)err->code;
	jr_migrate_free(work);
	jr_buf_release(&steps.ended);
	return status;
}

const struct jr_cmd jr_cmd_migrate = {
    .name = "migrate",
    .group = JR_GROUP_SETUP,
    .summary = "make the tables, or bring them to this version",
    .usage = "[OPTION...]",
    .details =
	"Everything is one transaction. Several calls at once are safe; the others wait, at most five times\n"
	"--lock-timeout. No other command changes the schema. Silent if there is nothing to do and stdout is no\n"
	"terminal. Use --adopt when run, exec and status say that this database was copied or moved here (restored\n"
	"from a dump, for example); add --cancel-waiting if the original goes on working.\n",
    .options = migrate_options,
    .defaults = &migrate_defaults,
    .size = sizeof(migrate_defaults),
    .kind = "admin",
    .run = migrate_run,
};
