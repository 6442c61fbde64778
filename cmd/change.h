/*
 * change: statements that change something, in one transaction, of which is known in the end whether it happened.
 */
#ifndef JR_CHANGE_H
#define JR_CHANGE_H

#include "commands.h"

#define JR_CHANGE_MAX 3

/*
 * Connect, run up to JR_CHANGE_MAX statements and commit, or with `dry_run` roll back. A connection that is lost costs
 * another try, as long as it is sure that nothing has happened yet. `results` has room for `count`, each the caller's;
 * on failure they are NULL.
 */
bool jr_change(const struct jr_app *app, const struct jr_statement *statements, size_t count,
    bool dry_run, PGresult **results, struct jr_err *err) JR_MUST;

#endif
