/*
 * perm: may this file be trusted?
 *
 * A handler runs with the rights of the runner, so whoever can change or replace it has those rights. Trusted owners
 * are root and the caller. Every directory of the path is checked. For a symbolic link in the path, the directory that
 * holds the link and the path of its target are checked.
 */
#ifndef JR_PERM_H
#define JR_PERM_H

#include "base/err.h"

/*
 * Check a directory of handlers: trusted owners own it and all directories above it, and nobody else can write to them.
 * A directory above it may be writable and sticky (as /tmp). The directory itself may not, since others must not create
 * names in it. JR_E_CONFIG otherwise; the message ends with the chmod or chown to type. `path` is absolute.
 */
bool jr_perm_check_directory(const char *path, struct jr_err *err) JR_MUST;

/* The same for a plain executable file and for the directory that holds it. */
bool jr_perm_check_file(const char *path, struct jr_err *err) JR_MUST;

/* The same for a plain file that is only read, and for the directory that holds it. */
bool jr_perm_check_data(const char *path, struct jr_err *err) JR_MUST;

/*
 * The same for a plain file that a user named. Other names in its directory do not matter, so that directory may be
 * sticky.
 */
bool jr_perm_check_named(const char *path, struct jr_err *err) JR_MUST;

#endif
