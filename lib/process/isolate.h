/*
 * isolate: a PID namespace for each start of a handler ("isolate": "pidns" in NAME.json).
 *
 * When process 1 of a PID namespace ends, the kernel kills every process in it: those that have left session and group
 * (setsid), too. Three processes are made for a start (spawn.h):
 *
 *	runner -- maker   vforked; enters new namespaces, makes the other two as its siblings, and ends
 *	       |- init    process 1: has nothing open, waits for KILL; orphans of the namespace become its children
 *	       `- handler executes the program; process 2, in a session of its own
 *
 * The handler is a child of the runner. So its exit status, the signal that killed it, its use of the processor and of
 * memory, and signals to its session are as without a namespace, and no signal is lost because a process 1 ignores it.
 * The init stays in the process group of the maker, whose number is the one that is killed and that the watchdog knows.
 * Both are killed by the kernel when the runner dies (PR_SET_PDEATHSIG).
 *
 * The init is reaped only after every other process of its namespace. So it tells exactly when all of them are gone.
 *
 * /proc is mounted anew for the handler, since the old one shows the numbers of another namespace. This takes a mount
 * namespace, in which nothing else is changed. Root makes these namespaces as it is. Another account needs a user
 * namespace for that, in which its user and its group are the only ones that have a number; there is one for each
 * handler of a runner.
 */
#ifndef JR_ISOLATE_H
#define JR_ISOLATE_H

#include <sys/types.h>

#include "base/err.h"

struct jr_isolation;

/*
 * Find out whether this host allows it, by doing it, and make the user namespace. NULL: it does not, and *err says why
 * and what to do (JR_E_CONFIG). If there is only a shortage of processes, memory or descriptors, that says nothing of
 * the host, and nobody has found out yet.
 */
struct jr_isolation *jr_isolation_open(struct jr_err *err) JR_MUST;

/* Before each start: find out now, if nobody has. false: *err says why (JR_E_TEMP: a shortage). */
bool jr_isolation_prepare(struct jr_isolation *isolation, struct jr_err *err) JR_MUST;
void jr_isolation_free(struct jr_isolation *isolation); /* NULL is fine */

/* What to do if a start is refused later, static. */
const char *jr_isolation_advice(void);

/*
 * Async-signal-safe, for children between vfork and execve. false, -1: errno says why.
 */
bool jr_isolation_enter(const struct jr_isolation *isolation) JR_MUST; /* the maker: what it forks is in it */

/*
 * The maker: fork a sibling, whose parent is that of the maker. *number (NULL: not wanted) gets its number, in the
 * maker alone, before the sibling runs: also if the maker is killed before this returns.
 */
int64_t jr_isolation_fork(volatile pid_t *number) JR_MUST;
bool jr_isolation_mount_proc(void) JR_MUST;        /* the handler */
JR_NORETURN void jr_isolation_init(int runner_fd); /* the init, until it is killed; runner_fd: see below */

/* Let the kernel kill this process when the runner dies, whose pidfd this is. false: errno says why; ESRCH: it has. */
bool jr_isolation_follow(int runner_fd) JR_MUST;

/* Have all processes of the namespace ended? The handler must have been reaped. Reaps the init, whose group it is. */
bool jr_isolation_is_over(int64_t group) JR_MUST;

#endif
