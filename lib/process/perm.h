/*
 * perm: may this file be trusted?
 *
 * A handler runs with the rights of the runner, so whoever can change it, or put another in its
 * place, has those rights. Trusted owners are root and the caller; for root, root alone. Every
 * directory on the way counts, and where a symbolic link stands on it both the directory that
 * holds the link and the way to its target.
 */
#ifndef JR_PERM_H
#define JR_PERM_H

#include "base/err.h"

/*
 * A directory of handlers: it and all above it are owned by trusted owners and writable by nobody
 * else. One above it may be sticky (as /tmp), it may not: names in it must not be somebody else's
 * choice. JR_E_CONFIG otherwise; the message ends with the chmod or chown to type. `path` is
 * absolute.
 */
bool jr_perm_check_directory(const char *path, struct jr_err *err) JR_MUST;

/* The same for a plain executable file and for the directory that holds it. */
bool jr_perm_check_file(const char *path, struct jr_err *err) JR_MUST;

/* The same for a plain file that is only read. */
bool jr_perm_check_data(const char *path, struct jr_err *err) JR_MUST;

/*
 * The same for one that somebody wrote down by its name: what else is in its directory is no matter, so it may be
 * sticky.
 */
bool jr_perm_check_named(const char *path, struct jr_err *err) JR_MUST;

#endif
