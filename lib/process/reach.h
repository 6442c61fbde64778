/*
 * reach: may the account of a child enter a directory, and execute a program, by all directories on the way?
 */
#ifndef JR_REACH_H
#define JR_REACH_H

#include "base/err.h"
#include "process/rlimits.h"

/*
 * Ask the kernel as the account of `limits`, since modes are not all that decides. `path` is absolute: a directory to
 * enter, or a file to execute. Without an account, or if it cannot be asked, true. JR_E_CONFIG; the message names the
 * account by `user` and says what to type.
 */
bool jr_reach_check(const struct jr_limits *limits, const char *user, const char *path, struct jr_err *err) JR_MUST;

#endif
