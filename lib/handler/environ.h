/*
 * environ: the environment of an exec handler.
 *
 * The runner's own, less what could betray or redirect: PGPASSWORD, LD_*, every variable in which there is a connection
 * string with a password, and what an outer run set for itself; for another account of all that only PATH, LANG,
 * LANGUAGE, LC_*, TZ, TMPDIR and JOBRUN_*. Plus what its settings say, plus what says which run this is.
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

/* A line of the log, with -v, for each variable of `base` that is left out for the password in it. */
void jr_environ_log_left_out(char *const *base);

/*
 * Does a connection string (URI or key=value) contain a password? One that libpq cannot read: does
 * it look so?
 */
bool jr_environ_has_password(const char *conninfo) JR_MUST;

/*
 * Is there a PostgreSQL URL or conninfo with a password anywhere in this text, or a PGPASSWORD=? URLs of other services
 * are no matter: handlers are there to talk to them.
 */
bool jr_environ_reveals(const char *text) JR_MUST;

#endif
