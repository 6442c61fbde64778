/*
 * migrate: the schema brought to the version of this program, forward only.
 *
 * All that is missing is one transaction: the lock (an advisory one, of the transaction, so that it cannot be forgotten
 * and works through a pooler), a look at what has been applied meanwhile, the migrations that are pending, and then all
 * files of migrations/functions. Each migration has a row in schema_migrations, and the functions together have one.
 * They are applied when their number is higher than the one in the database, and after any migration: that restores
 * what it has dropped. Any number of processes may do this at once.
 *
 * What was applied must be what is embedded here. Migrations are compared by their checksum. The functions in the
 * database must not have a higher number than this program's, and under the same number the same checksum. So an older
 * program never puts an older text back.
 *
 * Every wait is bounded: each try waits lock_timeout_ms for a lock, that of others who migrate included, there are a
 * few tries with a pause between them, and each answer has a deadline (migrate.c). When it passes, the connection is
 * given up and the server rolls back.
 */
#ifndef JR_MIGRATE_H
#define JR_MIGRATE_H

#include "pg/db.h"
#include "sql_text.h"

struct jr_migrate;

/*
 * A step as it begins: "migration 0008 baseline", or "functions 1"; valid during the call. NULL: all begins anew, and
 * what was applied before is rolled back.
 */
typedef void jr_migrate_step_fn(void *ctx, const char *name);

/* Takes the connection of db, also on failure. NULL on failure. on_step may be NULL. */
struct jr_migrate *jr_migrate_new(
    struct jr_db *db, int64_t lock_timeout_ms, jr_migrate_step_fn *on_step, void *ctx, struct jr_err *err) JR_MUST;
void jr_migrate_free(struct jr_migrate *migrate); /* NULL is fine */

/*
 * Read what has been applied and compare it with what is embedded: JR_E_CONFIG when a text differs, when the schema or
 * its functions are newer than this program, and when it is of a time before the first migration here.
 */
bool jr_migrate_look(struct jr_migrate *migrate, struct jr_err *err) JR_MUST;

/*
 * As of the last look: the schema's version and the number of its functions, 0 for none; when a migration, or this
 * program's functions, were applied (borrowed), NULL if they were not.
 */
int jr_migrate_version(const struct jr_migrate *migrate);
int jr_migrate_functions(const struct jr_migrate *migrate);
const char *jr_migrate_applied_at(const struct jr_migrate *migrate, int version);
const char *jr_migrate_functions_at(const struct jr_migrate *migrate);

/* As of the last look: is something to be done? Then the functions are applied, whatever else is. */
bool jr_migrate_is_pending(const struct jr_migrate *migrate);

/*
 * Apply all that is pending, in one transaction: all of it or nothing. A lock that others hold longer than
 * lock_timeout_ms is tried again a few times, from the beginning; the error at the end says who holds it. *done is
 * false when somebody else did it meanwhile.
 */
bool jr_migrate_apply(struct jr_migrate *migrate, bool *done, struct jr_err *err) JR_MUST;

/* What the last jr_migrate_apply had to change in the data it found: lines, each with its newline; borrowed. */
const char *jr_migrate_warnings(const struct jr_migrate *migrate);

#endif
