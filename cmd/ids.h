/*
 * ids: what retry and cancel share: many ids in, one answer for each out, the worst decides the exit status.
 */
#ifndef JR_IDS_H
#define JR_IDS_H

#include "commands.h"

/*
 * Run a statement whose $1 is the array of ids (argv) and whose $2.. are `extra`, in one transaction; it gives rows (id,
 * answer or null, document). NULL on failure, which includes an argument that is no id.
 */
PGresult *jr_ids_ask(const struct jr_app *app, const char *sql, int argc, char **argv,
    const char *extra, struct jr_err *err) JR_MUST;

/* How many rows have this answer. */
int jr_ids_count(const PGresult *result, const char *answer);

#endif
