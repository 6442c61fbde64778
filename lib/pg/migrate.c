/*
 * migrate: see migrate.h.
 *
 * Scripts of several statements need the simple protocol, which pipeline mode does not allow. So this module uses a
 * connection of its own (pg_ask.h).
 *
 * What must hold: the scripts run only while the lock is held and after the look that follows it. After any failure the
 * transaction is rolled back before the next try. The last file of functions/ grants the roles their rights again in
 * the same transaction, so that no role ever lacks them.
 */
#include "pg/migrate.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "pg/need.h"
#include "pg/pg_ask.h"

#define ANSWER_MS 10000   /* deadline of short statements */
#define SCRIPT_MS 3600000 /* deadline of a migration, which may build indexes of large tables */
#define LOCK_TRIES 5
#define PAUSE_BASE_MS 500
#define PAUSE_CAP_MS 5000
#define WARNINGS_MAX 65536
#define FUNCTIONS "functions" /* the name of their row in schema_migrations */

struct jr_migrate {
	PGconn *conn;
	PGresult *applied;    /* rows of migrate_applied.sql; NULL: there is no table schema_migrations */
	int64_t missing;      /* functions and views that somebody has dropped, while nothing else is pending */
	int64_t wrong_rights; /* while nothing is missing either */
	int64_t lock_timeout_ms;
	jr_migrate_step_fn *on_step;
	void *ctx;
	struct jr_random random;
	struct jr_buf warnings; /* of the last try to apply, one per line */
};

/* A migration reports about the data by warnings. Notices and other messages of the server are ignored. */
static void
on_notice(void *ctx, const PGresult *result)
{
	struct jr_migrate *migrate = ctx;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (severity != NULL && strcmp(severity, "WARNING") == 0 && text != NULL)
		(void)jr_buf_addf(&migrate->warnings, "%s\n", text);
}

struct jr_migrate *
jr_migrate_new(struct jr_db *db, int64_t lock_timeout_ms, jr_migrate_step_fn *on_step, void *ctx, struct jr_err *err)
{
	struct jr_migrate *migrate = jr_xcalloc(1, sizeof(*migrate));

	migrate->conn = jr_db_detach(db);
	migrate->on_step = on_step;
	migrate->ctx = ctx;
	migrate->lock_timeout_ms = lock_timeout_ms;
	jr_random_seed_system(&migrate->random);
	jr_buf_init(&migrate->warnings, WARNINGS_MAX);
	PQsetNoticeReceiver(migrate->conn, on_notice, migrate);
	if (PQstatus(migrate->conn) == CONNECTION_OK)
		return migrate;
	jr_pg_conn_error(migrate->conn, "lost the connection to the database", err);
	jr_migrate_free(migrate);
	return NULL;
}

void
jr_migrate_free(struct jr_migrate *migrate)
{
	if (migrate == NULL)
		return;
	PQclear(migrate->applied);
	PQfinish(migrate->conn);
	jr_buf_release(&migrate->warnings);
	free(migrate);
}

static bool
say(struct jr_migrate *migrate, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err)
{
	return jr_pg_say(migrate->conn, sql, count, values, timeout_ms, err);
}

static bool
is_functions(const struct jr_migrate *migrate, int row)
{
	return strcmp(PQgetvalue(migrate->applied, row, 1), FUNCTIONS) == 0;
}

/* Rows of migrations come first. */
static int
migration_rows(const struct jr_migrate *migrate)
{
	int rows = migrate->applied == NULL ? 0 : PQntuples(migrate->applied);

	return rows > 0 && is_functions(migrate, rows - 1) ? rows - 1 : rows;
}

/* The row of the functions, or -1. */
static int
functions_row(const struct jr_migrate *migrate)
{
	int rows = migration_rows(migrate);

	return migrate->applied != NULL && rows < PQntuples(migrate->applied) ? rows : -1;
}

static bool
compare_functions(const struct jr_migrate *migrate, struct jr_err *err)
{
	int row = functions_row(migrate), number = jr_migrate_functions(migrate);
	const char *checksum = row < 0 ? "" : PQgetvalue(migrate->applied, row, 2);

	if (number > jr_functions_number)
		return jr_fail(err, JR_E_CONFIG,
		    "the functions of schema jobrun have number %d, newer than this jobrun knows (%d): install a newer jobrun",
		    number, jr_functions_number);
	if (number < jr_functions_number || strcmp(checksum, jr_functions_checksum) == 0)
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "the functions of schema jobrun and of this jobrun both have number %d, but their texts differ (checksum %.12s, here %.12s): install the jobrun that made the schema, or a newer one",
	    number, checksum, jr_functions_checksum);
}

static bool
compare_migration(const struct jr_migrate *migrate, int row, struct jr_err *err)
{
	int64_t version = jr_pg_int(migrate->applied, row, 0, 0);
	const char *checksum = PQgetvalue(migrate->applied, row, 2);
	int64_t first = jr_migrations[0].version, newest = jr_need_newest();
	const struct jr_migration *mine;

	if (version > newest)
		return jr_fail(err, JR_E_CONFIG,
		    "schema jobrun is at version %lld, newer than this jobrun knows (%lld): install a newer jobrun",
		    (long long)version, (long long)newest);
	if (version < first)
		return jr_fail(err, JR_E_CONFIG,
		    "schema jobrun is at version %lld, from before the first release, and cannot be brought up: save what you need of it, type DROP SCHEMA jobrun CASCADE; and migrate again",
		    (long long)version);
	mine = &jr_migrations[version - first];
	if (strcmp(mine->checksum, checksum) == 0)
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "migration %04d %s was applied with another text (checksum %.12s, here %.12s): is this the jobrun that made the schema?",
	    mine->version, mine->name, checksum, mine->checksum);
}

/* The role may not read the table of migrations. */
static void
add_owner(struct jr_err *err)
{
	struct jr_err old = *err;

	if (strcmp(err->sqlstate, "42501") == 0)
		jr_fail(err, old.code,
		    "%.700s; migrate as the owner of schema jobrun, a member of that role, or a superuser", old.msg);
}

static bool
look_for_wrong_rights(struct jr_migrate *migrate, struct jr_err *err)
{
	PGresult *row = jr_pg_ask(migrate->conn, jr_sql_migrate_rights, 0, NULL, ANSWER_MS, err);

	if (row != NULL)
		migrate->wrong_rights = jr_pg_int(row, 0, 0, 0);
	else
		add_owner(err);
	PQclear(row);
	return row != NULL;
}

/* What is pending is applied with all functions and rights anyway. */
static bool
look_for_losses(struct jr_migrate *migrate, struct jr_err *err)
{
	char *made = jr_need_made();
	const char *values[] = {made};
	PGresult *row = NULL;
	bool ok = jr_migrate_is_pending(migrate);

	if (!ok)
		row = jr_pg_ask(migrate->conn, jr_sql_migrate_missing, JR_COUNT(values), values, ANSWER_MS, err);
	if (row != NULL) {
		migrate->missing = jr_pg_int(row, 0, 0, 0);
		ok = migrate->missing > 0 || !jr_pg_bool(row, 0, 2) || look_for_wrong_rights(migrate, err);
	}
	free(made);
	PQclear(row);
	return ok;
}

/* Tables without the rows that say how they were made: a dump without data, which no migration can bring up. */
static bool
refuse_bare_tables(struct jr_err *err)
{
	return jr_fail(err, JR_E_CONFIG,
	    "schema jobrun has tables, but table schema_migrations does not say how they were made (a dump without data?): save what you need of it, type DROP SCHEMA jobrun CASCADE; and migrate again");
}

/* Read and compare what has been applied. Inside a transaction. */
static bool
look(struct jr_migrate *migrate, struct jr_err *err)
{
	PGresult *exists = jr_pg_ask(migrate->conn, jr_sql_migrate_state, 0, NULL, ANSWER_MS, err);
	bool there = exists != NULL && jr_pg_bool(exists, 0, 0), runs = exists != NULL && jr_pg_bool(exists, 0, 1);

	PQclear(exists);
	PQclear(migrate->applied);
	migrate->applied = NULL;
	migrate->missing = 0;
	migrate->wrong_rights = 0;
	if (exists == NULL)
		return false;
	if (!there)
		return runs ? refuse_bare_tables(err) : true;
	migrate->applied = jr_pg_ask(migrate->conn, jr_sql_migrate_applied, 0, NULL, ANSWER_MS, err);
	if (migrate->applied == NULL) {
		add_owner(err);
		return false;
	}
	if (runs && migration_rows(migrate) == 0)
		return refuse_bare_tables(err);
	for (int row = migration_rows(migrate) - 1; row >= 0; row--) {
		if (!compare_migration(migrate, row, err))
			return false;
	}
	return compare_functions(migrate, err) && look_for_losses(migrate, err);
}

/* In the owner's role: a member of that role that does not inherit its rights cannot read the table otherwise. */
bool
jr_migrate_look(struct jr_migrate *migrate, struct jr_err *err)
{
	return say(migrate, jr_sql_begin, 0, NULL, ANSWER_MS, err) &&
	       say(migrate, jr_sql_migrate_role, 0, NULL, ANSWER_MS, err) && look(migrate, err) &&
	       say(migrate, jr_sql_commit, 0, NULL, ANSWER_MS, err);
}

int
jr_migrate_version(const struct jr_migrate *migrate)
{
	int rows = migration_rows(migrate);

	return rows == 0 ? 0 : (int)jr_pg_int(migrate->applied, rows - 1, 0, 0);
}

int
jr_migrate_functions(const struct jr_migrate *migrate)
{
	int row = functions_row(migrate);

	return row < 0 ? 0 : (int)jr_pg_int(migrate->applied, row, 0, 0);
}

const char *
jr_migrate_applied_at(const struct jr_migrate *migrate, int version)
{
	for (int row = 0; row < migration_rows(migrate); row++) {
		if (jr_pg_int(migrate->applied, row, 0, 0) == version)
			return PQgetvalue(migrate->applied, row, 3);
	}
	return NULL;
}

const char *
jr_migrate_functions_at(const struct jr_migrate *migrate)
{
	int row = functions_row(migrate);

	if (jr_migrate_functions(migrate) < jr_functions_number || migrate->missing > 0 || migrate->wrong_rights > 0)
		return NULL;
	return PQgetvalue(migrate->applied, row, 3);
}

int64_t
jr_migrate_missing(const struct jr_migrate *migrate)
{
	return migrate->missing;
}

int64_t
jr_migrate_wrong_rights(const struct jr_migrate *migrate)
{
	return migrate->wrong_rights;
}

bool
jr_migrate_is_pending(const struct jr_migrate *migrate)
{
	for (size_t i = 0; i < jr_migration_count; i++) {
		if (jr_migrate_applied_at(migrate, jr_migrations[i].version) == NULL)
			return true;
	}
	return jr_migrate_functions(migrate) < jr_functions_number || migrate->missing > 0 || migrate->wrong_rights > 0;
}

const char *
jr_migrate_warnings(const struct jr_migrate *migrate)
{
	return migrate->warnings.len == 0 ? "" : migrate->warnings.data;
}

static bool
set_times(struct jr_migrate *migrate, int64_t lock_ms, int64_t statement_ms, struct jr_err *err)
{
	char lock[24], statement[24];
	const char *values[] = {jr_print_int(lock, lock_ms), jr_print_int(statement, statement_ms), "on"};

	return say(migrate, jr_sql_parameters, JR_COUNT(values), values, ANSWER_MS, err);
}

/* Begin the transaction, take the lock, and read what other processes have applied meanwhile. */
static bool
begin_turn(struct jr_migrate *migrate, struct jr_err *err)
{
	return say(migrate, jr_sql_begin, 0, NULL, ANSWER_MS, err) &&
	       set_times(migrate, migrate->lock_timeout_ms, SCRIPT_MS, err) &&
	       say(migrate, jr_sql_migrate_lock, 0, NULL, migrate->lock_timeout_ms + ANSWER_MS, err) &&
	       say(migrate, jr_sql_migrate_role, 0, NULL, ANSWER_MS, err) && look(migrate, err);
}

static bool
record(struct jr_migrate *migrate, int number, const char *name, const char *checksum, struct jr_err *err)
{
	char version[24];
	const char *row[] = {jr_print_int(version, number), name, checksum};

	return say(migrate, jr_sql_migrate_record, JR_COUNT(row), row, ANSWER_MS, err);
}

static void
tell_step(const struct jr_migrate *migrate, const char *name)
{
	if (migrate->on_step != NULL)
		migrate->on_step(migrate->ctx, name);
}

static bool
apply_migration(struct jr_migrate *migrate, const struct jr_migration *m, struct jr_err *err)
{
	char *name = jr_xasprintf("migration %04d %s", m->version, m->name);
	bool ok;

	tell_step(migrate, name);
	ok = jr_pg_script(migrate->conn, m->sql, SCRIPT_MS, err) &&
	     record(migrate, m->version, m->name, m->checksum, err);
	if (!ok)
		jr_fail_in(err, name);
	free(name);
	return ok;
}

static bool
apply_functions(struct jr_migrate *migrate, struct jr_err *err)
{
	char *name = jr_xasprintf("functions %d", jr_functions_number);
	bool ok = true;

	tell_step(migrate, name);
	for (size_t i = 0; ok && i < jr_function_count; i++) {
		ok = jr_pg_script(migrate->conn, jr_functions[i].sql, SCRIPT_MS, err);
		if (!ok)
			jr_fail_in(err, jr_functions[i].name);
	}
	ok = ok && record(migrate, jr_functions_number, FUNCTIONS, jr_functions_checksum, err);
	if (!ok)
		jr_fail_in(err, name);
	free(name);
	return ok;
}

static bool
apply_once(struct jr_migrate *migrate, bool *done, struct jr_err *err)
{
	*done = false;
	jr_buf_clear(&migrate->warnings);
	tell_step(migrate, NULL);
	if (!begin_turn(migrate, err))
		return false;
	if (!jr_migrate_is_pending(migrate))
		return say(migrate, jr_sql_commit, 0, NULL, ANSWER_MS, err);
	if (!say(migrate, jr_sql_migrate_begin, 0, NULL, SCRIPT_MS, err))
		return false;
	for (size_t i = 0; i < jr_migration_count; i++) {
		if (jr_migrate_applied_at(migrate, jr_migrations[i].version) == NULL &&
		    !apply_migration(migrate, &jr_migrations[i], err))
			return false;
	}
	*done = true;
	return apply_functions(migrate, err) && look(migrate, err) &&
	       say(migrate, jr_sql_commit, 0, NULL, SCRIPT_MS, err);
}

/* The role may not create the schema: add the GRANT that allows it. */
static void
add_grant(const struct jr_migrate *migrate, struct jr_err *err)
{
	char *db = PQescapeIdentifier(migrate->conn, PQdb(migrate->conn), strlen(PQdb(migrate->conn)));
	char *role = PQescapeIdentifier(migrate->conn, PQuser(migrate->conn), strlen(PQuser(migrate->conn)));
	struct jr_err old = *err;

	if (db != NULL && role != NULL)
		jr_fail(err, JR_E_PERM, "%s; let the owner of the database type: GRANT CREATE ON DATABASE %s TO %s;",
		    old.msg, db, role);
	PQfreemem(db);
	PQfreemem(role);
}

/* A lock timeout, or a deadlock with readers and writers that take the locks in another order. */
static bool
is_about_locks(const struct jr_err *err)
{
	return strcmp(err->sqlstate, "55P03") == 0 || strcmp(err->sqlstate, "40P01") == 0;
}

/* After the rollback of the last try: say who holds the locks. */
static void
add_holders(const struct jr_migrate *migrate, struct jr_err *err)
{
	struct jr_err old = *err, unused;
	PGresult *holders = jr_pg_ask(migrate->conn, jr_sql_migrate_holders, 0, NULL, ANSWER_MS, &unused);
	const char *who = holders == NULL ? NULL : jr_pg_text(holders, 0, 0);

	if (who != NULL) {
		jr_fail(err, old.code, "%s: held by %s; type 'jobrun migrate' again when that has ended", old.msg, who);
		memcpy(err->sqlstate, old.sqlstate, sizeof(err->sqlstate));
	}
	PQclear(holders);
}

bool
jr_migrate_apply(struct jr_migrate *migrate, bool *done, struct jr_err *err)
{
	for (int64_t n = 1;; n++) {
		struct jr_err unused;
		int64_t pause;

		if (apply_once(migrate, done, err))
			return true;
		if (strcmp(err->sqlstate, "42501") == 0 && migrate->applied == NULL)
			add_grant(migrate, err);
		if (PQstatus(migrate->conn) != CONNECTION_OK)
			return false;
		if (!say(migrate, jr_sql_rollback, 0, NULL, ANSWER_MS, &unused))
			return false;
		if (!is_about_locks(err))
			return false;
		if (n == LOCK_TRIES) {
			add_holders(migrate, err);
			return false;
		}
		pause = jr_backoff_ms(&migrate->random, n, PAUSE_BASE_MS, PAUSE_CAP_MS);
		poll(NULL, 0, (int)pause);
	}
}
