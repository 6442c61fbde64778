/*
 * doctor_database: the checks of the connection, the server and the schema that need more than one statement.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crontab.h"
#include "base/mem.h"
#include "base/parse.h"
#include "doctor.h"
#include "doctor_judge.h"
#include "pg/need.h"
#include "sql_text.h"

#define POOLER_TRIES 5
#define TEXT_MAX 4096

/* --- connection --- */

/* " (not used: DATABASE_URL)": the variables that name a database, too. */
static void
add_losers(struct jr_buf *text, const char *source)
{
	static const char *const names[] = {"JOBRUN_DATABASE_URL", "DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE"};
	const char *before = " (not used: ";

	for (size_t i = 0; i < JR_COUNT(names); i++) {
		const char *value = getenv(names[i]);
		bool of_libpq = strncmp(names[i], "PG", 2) == 0;

		if (value == NULL || value[0] == '\0' || strcmp(source, names[i]) == 0)
			continue;
		if (of_libpq && strcmp(source, "libpq defaults") == 0)
			continue;
		jr_buf_addf(text, "%s%s", before, names[i]);
		before = ", ";
	}
	if (before[0] == ',')
		jr_buf_addc(text, ')');
}

/* "JOBRUN_DATABASE_URL", "PGHOST, PGUSER", or that nothing names a database. */
static void
add_source(struct jr_buf *text, const struct jr_doctor *doctor)
{
	static const char *const names[] = {"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"};
	const char *before = "";

	if (strcmp(doctor->source, "libpq defaults") != 0) {
		jr_buf_adds(text, doctor->source);
	} else {
		for (size_t i = 0; i < JR_COUNT(names); i++) {
			const char *value = getenv(names[i]);

			if (value == NULL || value[0] == '\0')
				continue;
			jr_buf_addf(text, "%s%s", before, names[i]);
			before = ", ";
		}
		if (before[0] == '\0')
			jr_buf_adds(text, "nothing but libpq's defaults");
	}
	add_losers(text, doctor->source);
}

/* The server is read only: the line that finds out why. Caller frees; NULL: the connection string forbids that. */
static char *
look_read_only(const struct jr_doctor *doctor)
{
	char *attrs = jr_doctor_parameter(doctor->conninfo, "target_session_attrs"), *look, *line = NULL;

	if (attrs == NULL) {
		look = jr_doctor_jobrun(doctor, "doctor server");
		line = jr_xasprintf("PGTARGETSESSIONATTRS=any %s", look);
		free(look);
	}
	free(attrs);
	return line;
}

/* The line that says more of why there is no connection. Caller frees; NULL: none does. */
static char *
look_at_server(const struct jr_doctor *doctor)
{
	char *host = jr_doctor_parameter(doctor->conninfo, "host"),
	     *port = jr_doctor_parameter(doctor->conninfo, "port");
	char *word = host == NULL ? NULL : jr_crontab_word(host), *line;

	if (jr_db_is_unnamed(doctor->app->dbname))
		line = jr_xstrdup("export JOBRUN_DATABASE_URL=postgresql://ROLE@HOST/DATABASE");
	else if (strstr(doctor->connect_err.msg, "session is read-only") != NULL)
		line = look_read_only(doctor);
	else
		line = jr_xasprintf("pg_isready%s%s%s%s", word == NULL ? "" : " -h ", word == NULL ? "" : word,
		    port == NULL ? "" : " -p ", port == NULL ? "" : port);
	free(host);
	free(port);
	free(word);
	return line;
}

void
jr_doctor_look_connection(struct jr_doctor *doctor)
{
	const PGconn *conn = doctor->db == NULL ? NULL : jr_db_conn(doctor->db);
	struct jr_buf text;
	char *command;

	jr_buf_init(&text, TEXT_MAX);
	if (conn != NULL) {
		jr_buf_addf(&text, "database %s at %s:%s as role %s, named by ", PQdb(conn), PQhost(conn), PQport(conn),
		    PQuser(conn));
		add_source(&text, doctor);
		jr_doctor_add(doctor, JR_HEALTH_OK, text.data, NULL, NULL);
	} else {
		jr_buf_addf(&text, "%s; the database is named by ", doctor->connect_err.msg);
		add_source(&text, doctor);
		command = look_at_server(doctor);
		jr_doctor_add(doctor, JR_HEALTH_FAIL, text.data, "nothing is enqueued or run from here", command);
		free(command);
	}
	jr_buf_release(&text);
}

/* "WHAT", or "WHAT: why" and a command: what could not be checked, and the reason if `why` is not NULL. */
static void
add_unchecked(struct jr_doctor *doctor, const char *what, const char *why, const char *command)
{
	char *text = jr_xasprintf("%s%s%s", what, why == NULL ? "" : ": ", why == NULL ? "" : why);

	jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, text, NULL, command);
	free(text);
}

void
jr_doctor_add_unconnected(struct jr_doctor *doctor)
{
	char *command = doctor->tells_connection ? NULL : look_at_server(doctor);

	add_unchecked(
	    doctor, "there is no connection", doctor->tells_connection ? NULL : doctor->connect_err.msg, command);
	free(command);
}

void
jr_doctor_add_unfit(struct jr_doctor *doctor)
{
	add_unchecked(doctor, "the schema cannot be used", doctor->tells_schema ? NULL : doctor->schema_err.msg, NULL);
}

/* --- server --- */

/* `row`: of doctor_server.sql. */
static void
add_read_only(struct jr_doctor *doctor, const PGresult *row)
{
	const char *set_for = jr_pg_text(row, 0, 2), *sql = jr_pg_text(row, 0, 3);
	char *command = sql == NULL ? NULL : jr_doctor_psql(doctor, sql);
	char *text = jr_xasprintf("transactions are read only: default_transaction_read_only is on, set %s%s",
	    set_for == NULL ? "by the connection itself (PGOPTIONS, options=, or a pooler)" : "for ",
	    set_for == NULL ? "" : set_for);

	jr_doctor_add(doctor, JR_HEALTH_FAIL, text, "nothing can be enqueued or run", command);
	free(text);
	free(command);
}

static void
add_version(struct jr_doctor *doctor)
{
	int version = PQserverVersion(jr_db_conn(doctor->db));
	char *text = jr_xasprintf("PostgreSQL %d.%d", version / 10000, version % 10000);
	const char *consequence;
	enum jr_health health = jr_judge_version(version, &consequence);

	jr_doctor_add(doctor, health, text, consequence, NULL);
	free(text);
}

void
jr_doctor_look_server(struct jr_doctor *doctor)
{
	struct jr_err err;
	PGresult *row = jr_db_query(doctor->db, jr_sql_doctor_server, 0, NULL, JR_DOCTOR_MS, &err);

	if (row == NULL)
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err.msg, NULL, NULL);
	else if (strcmp(PQgetvalue(row, 0, 0), "t") == 0)
		jr_doctor_add(doctor, JR_HEALTH_FAIL, "the server is a standby, which is read only",
		    "nothing can be enqueued or run; name the primary", NULL);
	else if (strcmp(PQgetvalue(row, 0, 1), "t") == 0)
		add_read_only(doctor, row);
	else
		add_version(doctor);
	PQclear(row);
}

/* --- pooler --- */

/* The server process of a transaction that stays open (other), or of one that ends. 0: it failed. */
static int64_t
process_of(struct jr_db *db, bool stays_open, struct jr_err *err)
{
	const struct jr_statement statement = {jr_sql_backend, 0, NULL};
	PGresult *row = NULL;
	bool ok = stays_open ? jr_db_begin(db, &statement, 1, &row, JR_DOCTOR_MS, err)
			     : jr_db_run(db, &statement, 1, &row, JR_DOCTOR_MS, err);
	int64_t pid = ok ? jr_pg_int(row, 0, 0, 0) : 0;

	PQclear(row);
	return pid;
}

enum pooling {
	POOL_SESSIONS,
	POOL_TRANSACTIONS,
	POOL_STATEMENTS,
	POOL_UNKNOWN
};

/*
 * Our process, between two transactions, is used by another client, or changes: only a pooler of transactions does so.
 * One of statements refuses a transaction that stays open. *err is set if the answer is not known.
 */
static enum pooling
find_pooling(struct jr_db *db, struct jr_db *other, struct jr_err *err)
{
	int64_t first = process_of(db, false, err), now = first;

	for (int i = 0; i < POOLER_TRIES && now == first && now != 0; i++) {
		int64_t theirs = process_of(other, true, err);

		if (theirs == 0)
			return strstr(err->msg, "statement pooling") != NULL ? POOL_STATEMENTS : POOL_UNKNOWN;
		if (theirs != first)
			now = process_of(db, false, err);
		if (!jr_db_roll_back(other, JR_DOCTOR_MS, err))
			return POOL_UNKNOWN;
		if (theirs == first)
			return POOL_TRANSACTIONS;
	}
	return now == 0 ? POOL_UNKNOWN : now != first ? POOL_TRANSACTIONS : POOL_SESSIONS;
}

static void
add_pooling(struct jr_doctor *doctor, enum pooling pooling, const struct jr_err *err)
{
	switch (pooling) {
	case POOL_SESSIONS:
		jr_doctor_add(
		    doctor, JR_HEALTH_OK, "a pooler; as far as can be seen each client keeps its session", NULL, NULL);
		break;
	case POOL_TRANSACTIONS:
		jr_doctor_add(doctor, JR_HEALTH_OK,
		    "a pooler in transaction mode; run --for looks for work once a second", NULL, NULL);
		break;
	case POOL_STATEMENTS:
		jr_doctor_add(doctor, JR_HEALTH_FAIL, "a pooler in statement mode",
		    "transactions of several statements are refused, and jobrun needs them; set pool_mode = transaction",
		    NULL);
		break;
	case POOL_UNKNOWN:
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err->msg, NULL, NULL);
		break;
	}
}

/* A pooler has told libpq another process than the one that answers. */
void
jr_doctor_look_pooler(struct jr_doctor *doctor)
{
	struct jr_err err = {.msg = ""};
	int64_t pid = process_of(doctor->db, false, &err);
	struct jr_db *other = NULL;

	if (pid == 0) {
		add_pooling(doctor, POOL_UNKNOWN, &err);
		return;
	}
	if (pid == PQbackendPID(jr_db_conn(doctor->db))) {
		jr_doctor_add(doctor, JR_HEALTH_OK, "none", NULL, NULL);
		return;
	}
	other = jr_db_open(doctor->conninfo, JR_DOCTOR_MS, NULL, &err);
	add_pooling(doctor, other == NULL ? POOL_UNKNOWN : find_pooling(doctor->db, other, &err), &err);
	jr_db_close(other);
}

/* --- schema --- */

void
jr_doctor_find_owner(struct jr_doctor *doctor)
{
	struct jr_err unused;
	PGresult *row = jr_db_query(doctor->db, jr_sql_doctor_owner, 0, NULL, JR_DOCTOR_MS, &unused);

	if (row != NULL && PQntuples(row) == 1) {
		if (!jr_pg_bool(row, 0, 1))
			doctor->owner = jr_xstrdup(PQgetvalue(row, 0, 0));
		doctor->is_admin = jr_pg_bool(row, 0, 2);
	}
	PQclear(row);
}

static void
add_no_rights(struct jr_doctor *doctor)
{
	char *role = jr_crontab_word(PQuser(jr_db_conn(doctor->db)));
	char *grant = jr_xasprintf("grant %s %s", jr_doctor_runs_jobs(doctor) ? "run" : "read", role);
	char *command = jr_doctor_jobrun(doctor, grant);

	jr_doctor_add(doctor, JR_HEALTH_FAIL, doctor->schema_err.msg,
	    "this role has no rights in jobrun; the owner of the schema grants them", command);
	free(role);
	free(grant);
	free(command);
}

/* The message without ": type '...'" at its end: what to type has a line of its own. */
static void
add_misfit(struct jr_doctor *doctor)
{
	const char *msg = doctor->schema_err.msg, *advice = strstr(msg, ": type '");
	bool is_newer = strstr(msg, "newer") != NULL;
	char *command = is_newer ? jr_xstrdup("jobrun --version") : jr_doctor_jobrun(doctor, "migrate");
	char *text = jr_xmemdup0(msg, advice == NULL ? strlen(msg) : (size_t)(advice - msg));

	jr_doctor_add(doctor, JR_HEALTH_FAIL, text, "every command exits with 78", command);
	free(text);
	free(command);
}

static const char fits[] = "schema and functions fit jobrun " JR_VERSION;

/* Has the database this program's functions? Older ones fit, too. */
static bool
has_these_functions(struct jr_db *db)
{
	struct jr_need need;
	struct jr_err unused;
	PGresult *row;

	jr_need_init(&need);
	need.values[2] = need.values[3];
	row = jr_db_query(db, jr_sql_need, JR_COUNT(need.values), need.values, JR_DOCTOR_MS, &unused);
	PQclear(row);
	return row != NULL;
}

/* Is everything still there? */
static void
add_missing(struct jr_doctor *doctor)
{
	char *made = jr_need_made(), *text = NULL, *command = jr_doctor_jobrun(doctor, "migrate");
	const char *values[] = {made};
	struct jr_err err;
	PGresult *row = jr_db_query(doctor->db, jr_sql_migrate_missing, JR_COUNT(values), values, JR_DOCTOR_MS, &err);
	int64_t missing = row == NULL ? 0 : jr_pg_int(row, 0, 0, 0);

	if (row == NULL)
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err.msg, NULL, NULL);
	else if (missing == 0)
		jr_doctor_add(doctor, JR_HEALTH_OK, fits, NULL, NULL);
	else {
		text = missing == 1 ? jr_xasprintf("jobrun.%s is missing", PQgetvalue(row, 0, 1))
				    : jr_xasprintf("jobrun.%s is missing, and %" PRId64 " more", PQgetvalue(row, 0, 1),
					  missing - 1);
		jr_doctor_add(doctor, JR_HEALTH_FAIL, text, "what calls it exits with 78", command);
	}
	PQclear(row);
	free(made);
	free(text);
	free(command);
}

void
jr_doctor_look_schema(struct jr_doctor *doctor)
{
	const struct jr_err *err = &doctor->schema_err;

	if (doctor->schema_fits && has_these_functions(doctor->db))
		add_missing(doctor);
	else if (doctor->schema_fits)
		jr_doctor_add(doctor, JR_HEALTH_OK, fits, NULL, NULL);
	else if (err->code == JR_E_TEMP)
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err->msg, NULL, NULL);
	else if (err->code == JR_E_PERM)
		add_no_rights(doctor);
	else
		add_misfit(doctor);
}

/* --- clock --- */

void
jr_doctor_look_clock(struct jr_doctor *doctor)
{
	int64_t before_ms = jr_clock_wall_ms(), skew_ms;
	struct jr_err err;
	PGresult *row = jr_db_query(doctor->db, jr_sql_doctor_clock, 0, NULL, JR_DOCTOR_MS, &err);
	char *words, *text;

	if (row == NULL) {
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err.msg, NULL, NULL);
		return;
	}
	skew_ms = jr_judge_skew(before_ms, jr_pg_int(row, 0, 0, 0), jr_clock_wall_ms());
	PQclear(row);
	words = jr_format_duration(skew_ms < 0 ? -skew_ms : skew_ms);
	text = jr_xasprintf(
	    "the clock of this host is %s %s that of the server", words, skew_ms < 0 ? "behind" : "ahead of");
	if (skew_ms > -JR_SKEW_MS && skew_ms < JR_SKEW_MS)
		jr_doctor_add(doctor, JR_HEALTH_OK, "this host and the server agree on the time", NULL, NULL);
	else
		jr_doctor_add(doctor, JR_HEALTH_WARN, text,
		    "schedules and leases follow the server alone, but cron, JOBRUN_DEADLINE and webhook signatures follow this host",
		    "timedatectl status");
	free(words);
	free(text);
}
