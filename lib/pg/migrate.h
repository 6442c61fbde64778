/*
 * migrate: the schema brought to the version of this program, forward only.
 *
 * Each migration is one transaction: the lock (an advisory one, of the transaction, so that it cannot be forgotten and
 * works through a pooler), a look at what has been applied meanwhile, the script, its row in schema_migrations. Any
 * number of processes may do this at once. What was applied must have the checksum of what is embedded here.
 *
 * Waiting has bounds: a lock for lock_timeout_ms and a few tries with a pause between them, an answer for the deadline
 * stated in migrate.c, after which the connection is given up and the server rolls back.
 */
#ifndef JR_MIGRATE_H
#define JR_MIGRATE_H

#include "pg/db.h"
#include "sql_text.h"

struct jr_migrate;

/* Takes the connection of db, also on failure. NULL on failure. */
struct jr_migrate *jr_migrate_new(struct jr_db *db, int64_t lock_timeout_ms, struct jr_err *err) JR_MUST;
void jr_migrate_free(struct jr_migrate *migrate); /* NULL is fine */

/*
 * Read what has been applied and compare it with what is embedded: JR_E_CONFIG when a checksum differs or the schema is
 * newer than this program.
 */
bool jr_migrate_look(struct jr_migrate *migrate, struct jr_err *err) JR_MUST;

/* As of the last look: the schema's version, 0 for none; and when a version was applied (borrowed), NULL if it was not. */
int jr_migrate_version(const struct jr_migrate *migrate);
const char *jr_migrate_applied_at(const struct jr_migrate *migrate, int version);

/* Apply one migration, in its own transaction. *done is false when somebody else did it meanwhile. */
bool jr_migrate_apply(
    struct jr_migrate *migrate, const struct jr_migration *migration, bool *done, struct jr_err *err) JR_MUST;

/* What the one applied last had to change in the data it found: lines, each with its newline; borrowed. */
const char *jr_migrate_warnings(const struct jr_migrate *migrate);

#endif
