/*
 * db: a conversation with the database for commands that wait for each answer.
 *
 * The same connection and the same requests as the runner's (pg.h), behind calls that turn the loop until they have
 * their reply. Never used while handlers run.
 */
#ifndef JR_DB_H
#define JR_DB_H

#include "pg/pg.h"
#include "pg/pg_array.h"

struct jr_db;

/*
 * The connection string to use: `option` (-d) if not NULL, else JOBRUN_DATABASE_URL, else DATABASE_URL unless PGHOST,
 * PGSERVICE or PGDATABASE is set, else NULL (libpq's own). *source, if not NULL, names where it came from ("-d",
 * "JOBRUN_DATABASE_URL", "DATABASE_URL", "libpq defaults"). Both borrowed.
 */
const char *jr_db_conninfo(const char *option, const char **source);

/* Connect, trying again with jitter for up to patience_ms while the failure is temporary. NULL on failure. */
struct jr_db *jr_db_open(const char *conninfo, int64_t patience_ms, struct jr_err *err) JR_MUST;
void jr_db_close(struct jr_db *db); /* NULL is fine */

/*
 * Run one statement in a transaction of its own, within timeout_ms. The result is the caller's (PQclear), NULL on
 * failure. A lost connection is JR_E_TEMP; see jr_db_is_in_doubt.
 */
PGresult *jr_db_query(struct jr_db *db, const char *sql, size_t count, const char *const *values, int64_t timeout_ms,
    struct jr_err *err) JR_MUST;

/* Is this the error of a transaction that may have been committed (SQLSTATE 08007)? */
bool jr_db_is_in_doubt(const struct jr_err *err);

/* The same for several statements in one transaction; `results` has room for `count`, each the caller's. */
struct jr_statement {
	const char *sql;
	size_t count;
	const char *const *values;
};
bool jr_db_run(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;

/*
 * The same in a transaction that stays open, until one of the others. A connection that is lost before jr_db_commit has
 * committed nothing; what that one lost may have been (jr_db_is_in_doubt). jr_db_drop runs statements and rolls back;
 * when one of them fails the transaction is aborted and still open.
 */
bool jr_db_begin(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_commit(struct jr_db *db, int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_roll_back(struct jr_db *db, int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_drop(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;

bool jr_db_pause(struct jr_db *db, int64_t ms, struct jr_err *err) JR_MUST; /* between two transactions */

bool jr_db_is_open(const struct jr_db *db); /* false: the connection was lost */

/* jobrun.need(): does the schema fit this binary? JR_E_CONFIG with the command to type if not. */
bool jr_db_need_schema(struct jr_db *db, struct jr_err *err) JR_MUST;

const PGconn *jr_db_conn(const struct jr_db *db);

/* Close db but keep its connection, out of pipeline mode and non-blocking: for scripts of several statements. */
PGconn *jr_db_detach(struct jr_db *db) JR_MUST;

/* The last notice of the server, NULL if there was none. Borrowed. */
const char *jr_db_notice(const struct jr_db *db);

#endif
