/*
 * change: statements that change something, in one transaction, of which is known in the end whether it happened.
 */
#ifndef JR_CHANGE_H
#define JR_CHANGE_H

#include "commands.h"

#define JR_CHANGE_MAX 3

struct jr_change {
	const struct jr_app *app;
	struct jr_db **db;  /* to be used, and perhaps replaced by another one, or NULL; NULL: one for this alone */
	bool dry_run;       /* roll back */
	const char *undone; /* what a lost connection came to; NULL: "nothing changed" */
	const char *
	    perhaps; /* the same when nobody knows, and what to do then; NULL: "it may have been changed: safe to repeat" */
};

/*
 * Run up to JR_CHANGE_MAX statements and commit, or with `dry_run` roll back. A connection that is lost costs another
 * try, as long as it is sure that nothing has happened yet. `results` has room for `count`, each the caller's; on
 * failure they are NULL.
 */
bool jr_change(const struct jr_change *change, const struct jr_statement *statements, size_t count, PGresult **results,
    struct jr_err *err) JR_MUST;

#endif
