/*
 * environ: the environment of an exec handler.
 *
 * It is made of three parts:
 *
 *	inherited   the runner's environment without PGPASSWORD, LD_*, every variable that contains a PostgreSQL
 *	            connection string with a password, and the variables that an outer run set. A handler that runs as
 *	            another account inherits only PATH, LANG, LANGUAGE, LC_*, TZ, TMPDIR and JOBRUN_* of these.
 *	settings    "env" of NAME.json
 *	run         JOBRUN_RUN_ID and the other variables that describe the run
 */
#ifndef JR_ENVIRON_H
#define JR_ENVIRON_H

#include "base/run.h"

/* What one handler gets in addition. Borrowed; each may be NULL. */
struct jr_environ_extra {
	char *const *env; /* "NAME=value" of its settings: overrides an inherited variable, but never a JOBRUN_* */
	const char *user; /* the account it runs as, if that is not ours, and the home directory of that account */
	const char *home;
	const char *out;        /* JOBRUN_OUT */
	const char *checkpoint; /* JOBRUN_CHECKPOINT */
};

/*
 * What handlers inherit of `base` (usually environ), NULL-terminated. To look for passwords takes longer than the
 * rest, so this is for all runs together. Release with jr_strings_free.
 */
char **jr_environ_inherit(char *const *base) JR_MUST;

/*
 * Make a NULL-terminated environment from what jr_environ_inherit gave. deadline_wall_ms becomes JOBRUN_DEADLINE in
 * Unix seconds; with JR_NEVER the run has no timeout, and JOBRUN_DEADLINE is not set. Release with jr_strings_free.
 */
char **jr_environ_make(char *const *inherited, const struct jr_run *run, int64_t deadline_wall_ms,
    const struct jr_environ_extra *extra) JR_MUST;

/*
 * The same for a command of jobrun exec, which keeps the environment of its caller: all of `base` except the variables
 * that an outer run set.
 */
char **jr_environ_keep(char *const *base, const struct jr_run *run, int64_t deadline_wall_ms,
    const struct jr_environ_extra *extra) JR_MUST;

/* Log, with -v, each variable of `base` that handlers do not inherit because it contains a password. */
void jr_environ_log_left_out(char *const *base);

/*
 * Does a connection string (URI or key=value) contain a password? If libpq cannot parse the string, the answer is a
 * guess from its text.
 */
bool jr_environ_has_password(const char *conninfo) JR_MUST;

/*
 * Does this text contain a PostgreSQL URL or conninfo with a password, or a PGPASSWORD=? URLs of other services do not
 * count, because handlers need them.
 */
bool jr_environ_reveals(const char *text) JR_MUST;

#endif
