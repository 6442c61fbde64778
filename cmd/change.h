/*
 * change: run statements that change something in one transaction and find out whether it was committed.
 */
#ifndef JR_CHANGE_H
#define JR_CHANGE_H

#include "commands.h"

#define JR_CHANGE_MAX 3

struct jr_change {
	const struct jr_app *app;
	struct jr_db **db; /* the connection to use; *db may be replaced by a new one or NULL. NULL: use a new one */
	bool dry_run;      /* roll back */

	/* The end of the message when the connection was lost and nothing was committed; NULL: "nothing changed". */
	const char *undone;

	/* The same when it is not known what was committed; NULL: "it may have been changed: safe to repeat". */
	const char *perhaps;
};

/*
 * Run up to JR_CHANGE_MAX statements and commit, or with `dry_run` roll back. If the connection is lost and nothing was
 * committed, try again. `results` has room for `count` results, which the caller clears; on failure they are NULL.
 */
bool jr_change(const struct jr_change *change, const struct jr_statement *statements, size_t count, PGresult **results,
    struct jr_err *err) JR_MUST;

#endif
