/*
 * db: a blocking connection to the database, for commands that wait for each answer.
 *
 * It uses the same connections and requests as the runner (pg.h). Each call turns a loop of its own until the reply has
 * come. Never used while handlers run.
 */
#ifndef JR_DB_H
#define JR_DB_H

#include "pg/pg.h"
#include "pg/pg_array.h"

struct jr_db;

/*
 * The connection string to use: `option` (-d) if not NULL, else JOBRUN_DATABASE_URL, else DATABASE_URL unless PGHOST,
 * PGSERVICE or PGDATABASE is set, else NULL for libpq's defaults. If `source` is not NULL, *source gets "-d",
 * "JOBRUN_DATABASE_URL", "DATABASE_URL" or "libpq defaults". Both results are borrowed.
 */
const char *jr_db_conninfo(const char *option, const char **source);

/* Does nothing name a database: no `option`, neither of the two variables, and none of libpq's that choose one? */
bool jr_db_is_unnamed(const char *option);

/*
 * Called once by jr_db_open if that takes longer than JR_PG_TELL_MS: why it has not connected yet, and how much longer
 * it will try.
 */
struct jr_db_waits {
	void (*tell)(const void *ctx, const char *why, int64_t left_ms);
	const void *ctx;
};

/*
 * Connect. While failures are temporary, try again with growing pauses for up to patience_ms. NULL on failure. waits:
 * NULL: nobody is told.
 */
struct jr_db *jr_db_open(
    const char *conninfo, int64_t patience_ms, const struct jr_db_waits *waits, struct jr_err *err) JR_MUST;
void jr_db_close(struct jr_db *db); /* NULL is fine */

/* The kind of `jobrun grant` that its statements need (static text; NULL: no advice): see jr_pg_advise. */
void jr_db_needs_grant(struct jr_db *db, const char *kind);

#define JR_DB_LOCK_MS 12000 /* the longest wait for a lock: whoever holds one for longer may hold it for hours */

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
 * jr_db_begin runs the statements in a transaction and leaves it open; one of the others ends it. jr_db_drop runs
 * statements first, and rolls back; if one of them fails, the transaction is aborted and still open. If the connection
 * is lost before jr_db_commit, nothing was committed. If it is lost during jr_db_commit, the transaction may have been
 * committed (jr_db_is_in_doubt).
 */
bool jr_db_begin(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_commit(struct jr_db *db, int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_roll_back(struct jr_db *db, int64_t timeout_ms, struct jr_err *err) JR_MUST;
bool jr_db_drop(struct jr_db *db, const struct jr_statement *statements, size_t count, PGresult **results,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;

bool jr_db_pause(struct jr_db *db, int64_t ms, struct jr_err *err) JR_MUST; /* between two transactions */

bool jr_db_is_open(const struct jr_db *db); /* false: the connection was lost */

/*
 * jobrun.need(): does the schema fit this program? If not: JR_E_CONFIG, and the message names the command to type. The
 * owner of the schema is not advised to grant himself anything (jr_db_needs_grant) from here on.
 */
bool jr_db_need_schema(struct jr_db *db, struct jr_err *err) JR_MUST;

const PGconn *jr_db_conn(const struct jr_db *db);

/* Close db and return its connection, non-blocking and out of pipeline mode: for scripts and for COPY. */
PGconn *jr_db_detach(struct jr_db *db) JR_MUST;

/* The last notice that the server sent, NULL if there was none. Borrowed. */
const char *jr_db_notice(const struct jr_db *db);

#endif
