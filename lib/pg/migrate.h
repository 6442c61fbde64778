/*
 * migrate: bring the schema to the version of this program. There is no way back to an older version.
 *
 * One transaction does everything: it takes an advisory lock (of the transaction, so that it ends with it and
 * works through a pooler), looks at what others have applied meanwhile, applies the pending migrations and then
 * all files of migrations/functions. Each migration has a row in schema_migrations, and the functions together
 * have one. The functions are applied when this program's number of them is higher than the database's, after
 * every migration, since a migration may have dropped some, if somebody else has dropped one, and if rights are
 * not as granted, as after a restore without privileges: the last file of functions/ grants them anew. Any
 * number of processes may do this at once.
 *
 * The texts that were applied must be those embedded here. Migrations are compared by checksum. The functions in the
 * database must not have a higher number than this program's, and with the same number they must have the same
 * checksum. So an older program never puts an older text back.
 *
 * Every wait is bounded: each try waits up to lock_timeout_ms for each lock, there are a few tries with a pause between
 * them, and each answer has a deadline (migrate.c). When a deadline passes, this module gives up the connection and the
 * server rolls back.
 */
#ifndef JR_MIGRATE_H
#define JR_MIGRATE_H

#include "pg/db.h"
#include "sql_text.h"

struct jr_migrate;

/*
 * Called when a step begins, with "migration 0008 baseline" or "functions 1" (valid during the call), and with NULL
 * when a try begins: earlier tries were rolled back.
 */
typedef void jr_migrate_step_fn(void *ctx, const char *name);

/* Takes the connection of db, also on failure. NULL on failure. on_step may be NULL. */
struct jr_migrate *jr_migrate_new(
    struct jr_db *db, int64_t lock_timeout_ms, jr_migrate_step_fn *on_step, void *ctx, struct jr_err *err) JR_MUST;
void jr_migrate_free(struct jr_migrate *migrate); /* NULL is fine */

/*
 * Read what has been applied and compare it with what is embedded. JR_E_CONFIG: a text differs, the schema or its
 * functions are newer than this program, or the schema is older than the first migration here.
 */
bool jr_migrate_look(struct jr_migrate *migrate, struct jr_err *err) JR_MUST;

/*
 * As of the last look: the version of the schema and the number of its functions, 0 if there are none; and the
 * time when a migration or this program's functions were applied (borrowed), NULL if they were not, or are not
 * all there with their rights; how many functions and views are missing, although they were applied; and, if
 * none is, how many rights are not as granted.
 */
int jr_migrate_version(const struct jr_migrate *migrate);
int jr_migrate_functions(const struct jr_migrate *migrate);
const char *jr_migrate_applied_at(const struct jr_migrate *migrate, int version);
const char *jr_migrate_functions_at(const struct jr_migrate *migrate);
int64_t jr_migrate_missing(const struct jr_migrate *migrate);
int64_t jr_migrate_wrong_rights(const struct jr_migrate *migrate);

/* As of the last look: are migrations or functions pending? In either case jr_migrate_apply applies the functions. */
bool jr_migrate_is_pending(const struct jr_migrate *migrate);

/*
 * Apply everything that is pending in one transaction. If others hold a lock longer than lock_timeout_ms, the
 * transaction is rolled back and tried again, a few times; the final error says who holds the lock. *done is false if
 * nothing was left to apply, because another process has done it meanwhile.
 */
bool jr_migrate_apply(struct jr_migrate *migrate, bool *done, struct jr_err *err) JR_MUST;

/* What the last jr_migrate_apply reported about the data it changed: lines, each with its newline; borrowed. */
const char *jr_migrate_warnings(const struct jr_migrate *migrate);

#endif
