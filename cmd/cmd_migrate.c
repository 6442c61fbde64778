/*
 * migrate: bring the schema to this program's version, or say what would be done. The only command that changes it.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands.h"
#include "pg/migrate.h"
#include "print.h"

struct migrate_opts {
	bool status, print, dry_run;
	int64_t lock_timeout_ms;
};

static const struct migrate_opts migrate_defaults = {.lock_timeout_ms = 2000};

#define AT(field) offsetof(struct migrate_opts, field)

/* clang-format off */
static const struct jr_option migrate_options[] = {
	{ .name = "status", .help = "what is applied and what is not; exit status 1 if something is not",
	    .type = JR_OPT_FLAG, .offset = AT(status) },
	{ .name = "print", .help = "print the SQL and do nothing; needs no database", .type = JR_OPT_FLAG, .offset = AT(print) },
	{ .name = "dry-run", .letter = 'n', .help = "say what would be done", .type = JR_OPT_FLAG, .offset = AT(dry_run) },
	{ .name = "lock-timeout", .arg = "D", .help = "wait so long for a lock, five times (2s)", .type = JR_OPT_DURATION,
	    .offset = AT(lock_timeout_ms), .min = 1, .max = 3600000 },
	JR_OPTIONS_END,
};
/* clang-format on */

static void
print_sql(void)
{
	for (size_t i = 0; i < jr_migration_count; i++)
		printf("-- %04d %s\n%s\n", jr_migrations[i].version, jr_migrations[i].name, jr_migrations[i].sql);
}

/* The same facts for people and for programs. */
static void
print_status(const struct jr_app *app, const struct jr_migrate *migrate)
{
	json_t *list = json_array(), *doc;

	for (size_t i = 0; i < jr_migration_count; i++) {
		const struct jr_migration *m = &jr_migrations[i];
		const char *at = jr_migrate_applied_at(migrate, m->version);

		json_array_append_new(list, json_pack("{si ss ss? sb}", "version", m->version, "name", m->name,
						"applied_at", at, "applied", at != NULL));
		if (!app->json)
			printf("%04d  %-20s  %s%s\n", m->version, m->name, at == NULL ? "pending" : "applied ",
			    at == NULL ? "" : at);
	}
	doc = json_pack("{si si so}", "version", jr_migrate_version(migrate), "newest", (int)jr_migration_count,
	    "migrations", list);
	if (app->json) {
		json_dumpf(doc, stdout, JSON_INDENT(1));
		putchar('\n');
	}
	json_decref(doc);
}

static bool
has_pending(const struct jr_migrate *migrate)
{
	for (size_t i = 0; i < jr_migration_count; i++) {
		if (jr_migrate_applied_at(migrate, jr_migrations[i].version) == NULL)
			return true;
	}
	return false;
}

static void
print_step(const struct jr_migration *m, const char *before, int64_t ms)
{
	if (ms < 0)
		printf("  %s%04d %s\n", before, m->version, m->name);
	else
		printf("  %s%04d %-20s %6lld ms\n", before, m->version, m->name, (long long)ms);
	fflush(stdout);
}

static void
print_warnings(const struct jr_migrate *migrate)
{
	char *text = jr_xstrdup(jr_migrate_warnings(migrate)), *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		jr_print_line(stderr, "jobrun: ", line);
	free(text);
}

static bool
apply_pending(const struct migrate_opts *opts, struct jr_migrate *migrate, bool quiet, struct jr_err *err)
{
	for (size_t i = 0; i < jr_migration_count; i++) {
		const struct jr_migration *m = &jr_migrations[i];
		int64_t start = jr_clock_now_ms();
		bool done;

		if (jr_migrate_applied_at(migrate, m->version) != NULL)
			continue;
		if (opts->dry_run) {
			print_step(m, "would apply ", -1);
			continue;
		}
		if (!jr_migrate_apply(migrate, m, &done, err))
			return false;
		print_warnings(migrate);
		if (!quiet)
			print_step(m, done ? "" : "(by another jobrun) ", jr_clock_now_ms() - start);
	}
	return true;
}

static bool
bring_up(const struct jr_app *app, const struct migrate_opts *opts, struct jr_migrate *migrate, struct jr_err *err)
{
	bool ok;

	if (!has_pending(migrate)) {
		if (!app->json && (jr_print_is_terminal(stdout) || opts->dry_run))
			printf("schema jobrun: %d, nothing to do\n", jr_migrate_version(migrate));
	} else if (!app->json)
		printf("schema jobrun: %d -> %zu\n", jr_migrate_version(migrate), jr_migration_count);
	ok = (app->json && opts->dry_run) || apply_pending(opts, migrate, app->json, err);
	if (!ok || !app->json)
		return ok;
	if (!jr_migrate_look(migrate, err))
		return false;
	print_status(app, migrate);
	return true;
}

static bool
migrate(const struct jr_app *app, const struct migrate_opts *opts, struct jr_migrate *work, struct jr_err *err)
{
	if (!jr_migrate_look(work, err))
		return false;
	if (!opts->status)
		return bring_up(app, opts, work, err);
	print_status(app, work);
	return true;
}

static int
migrate_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct migrate_opts *opts = values;
	struct jr_migrate *work = NULL;
	struct jr_db *db;
	int status;

	(void)argc;
	(void)argv;
	if (opts->print) {
		print_sql();
		return 0;
	}
	db = jr_db_open(jr_db_conninfo(app->dbname, NULL), JR_CMD_PATIENCE_MS, err);
	if (db != NULL)
		work = jr_migrate_new(db, opts->lock_timeout_ms, err);
	if (work == NULL || !migrate(app, opts, work, err))
		status = (int)err->code;
	else
		status = opts->status && has_pending(work) ? JR_E_NEWS : 0;
	jr_migrate_free(work);
	return status;
}

const struct jr_cmd jr_cmd_migrate = {
    .name = "migrate",
    .group = JR_GROUP_SETUP,
    .summary = "make the tables, or bring them to this version",
    .usage = "[OPTION...]",
    .details = "Each step is one transaction. Several at once are safe; the others wait. No other command changes the\n"
	       "schema. Silent when there is nothing to do and stdout is no terminal.\n",
    .options = migrate_options,
    .defaults = &migrate_defaults,
    .size = sizeof(migrate_defaults),
    .run = migrate_run,
};
