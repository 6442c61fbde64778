/*
 * environ: the environment of an exec handler.
 *
 * The runner's own, less what could betray or redirect: PGPASSWORD, LD_*, connection strings that
 * contain a password, what an outer run set for itself, and what belongs to our account if the
 * handler runs as another; plus what its settings say, plus what says which run this is.
 */
#ifndef JR_ENVIRON_H
#define JR_ENVIRON_H

#include "base/run.h"

/* What this handler has besides. Borrowed; each may be NULL. */
struct jr_environ_extra {
	char *const *env; /* "NAME=value" of its settings: replaces what is inherited, never a JOBRUN_* */
	const char *user; /* the account it runs as, if not ours, and the home of that account */
	const char *home;
	const char *out;        /* JOBRUN_OUT */
	const char *checkpoint; /* JOBRUN_CHECKPOINT */
};

/*
 * A NULL-terminated environment made from `base` (environ, as a rule). deadline_wall_ms becomes
 * JOBRUN_DEADLINE in Unix seconds; JR_NEVER: the run has no timeout, and no such variable. Release
 * with jr_strings_free.
 */
char **jr_environ_make(char *const *base, const struct jr_run *run, int64_t deadline_wall_ms,
    const struct jr_environ_extra *extra) JR_MUST;

/*
 * The same for a command that is to find its surroundings as they are (jobrun exec): all of `base`, but what an outer
 * run set.
 */
char **jr_environ_keep(char *const *base, const struct jr_run *run, int64_t deadline_wall_ms,
    const struct jr_environ_extra *extra) JR_MUST;

/*
 * Does a connection string (URI or key=value) contain a password? One that libpq cannot read: does
 * it look so?
 */
bool jr_environ_has_password(const char *conninfo) JR_MUST;

#endif
