/*
 * trust: may the files that an exec handler runs be executed?
 *
 * These files are its program, the interpreters of #! lines, and the scripts below the handlers directory that its
 * arguments name. Each must pass the permission rules (handlers.h).
 *
 * To judge them, each path is walked from the root, which takes longer than to start a small program. So before a start
 * a judgement is used again if it is younger than JR_TRUST_MS and each of the files is still what was judged: one stat
 * of its path, through all links, gives the same device, inode, owner, mode, size and times. What this finds, and when:
 *
 *	the file was written to, or its owner or mode was changed:
 *		before the next start, since ctime is another one
 *	another file has its name, or a link or directory on the way leads elsewhere:
 *		likewise, since the inode is another one
 *	the directory or one above it was opened to others: within JR_TRUST_MS;
 *		and before the next start if they have exchanged the file
 *
 * A file that was not exchanged is still the one that was judged, whoever could have exchanged it. What is left:
 * within JR_TRUST_MS after a directory was opened, others could exchange a file between the stat and the execve.
 * (execve gets the path, not a descriptor: the kernel gives the interpreter of a script the path.)
 */
#ifndef JR_TRUST_H
#define JR_TRUST_H

#include "handler/handler.h"

#define JR_TRUST_MS 1000

/* The last judgement of a handler. It begins without one. */
struct jr_trust *jr_trust_new(void) JR_MUST;
void jr_trust_free(struct jr_trust *trust); /* NULL is fine */

/* For a handler of kind exec whose settings have been read. JR_E_CONFIG; the message says which command to type. */
bool jr_trust_check(const struct jr_handler *handler, struct jr_err *err) JR_MUST;

/*
 * The program that env looks up in PATH when the handler starts: of a line "#!/usr/bin/env NAME", or of a command that
 * is env. NULL: env is not used, or gets a path. Caller frees.
 */
char *jr_trust_sought(const struct jr_handler *handler) JR_MUST;

#endif
