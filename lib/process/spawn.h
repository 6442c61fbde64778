/*
 * spawn: vfork, execve and the steps between them.
 *
 * After vfork the child runs in the memory of its parent until it executes: it makes only async-signal-safe calls and
 * writes only to its own stack. Everything it needs is prepared before, in struct jr_spawn. A child that changes to
 * another account is forked instead, under the same rules, and killed if it has not executed within two seconds: that
 * account could stop the child, and with vfork the parent would wait for it.
 *
 * With `isolation` the vforked child is only the maker of a PID namespace (isolate.h). It leads a group that it
 * announces to the watchdog, forks the init, which stays in the group, and the child proper, which goes through the
 * steps, and ends. The child proper is killed, too, if it has not executed within two seconds.
 */
#ifndef JR_SPAWN_H
#define JR_SPAWN_H

#include "base/err.h"

struct jr_isolation;
struct jr_limits;
struct jr_watchdog;

/* Borrowed during the call. */
struct jr_spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	const char *cwd; /* NULL: stays */
	int in_fd;       /* becomes 0; all three are above 2 and close-on-exec */
	int out_fd;      /* becomes 1 */
	int err_fd;      /* becomes 2; may be out_fd */
	int64_t deadline_ms;
	const struct jr_limits *limits;       /* NULL: none */
	const struct jr_isolation *isolation; /* NULL: no namespace; else without as_is */
	bool as_is; /* keep other descriptors and ignored signals; /bin/sh runs a file that has no interpreter */
};

struct jr_spawned {
	int64_t pid;   /* also the number of its session and process group */
	int64_t group; /* what the watchdog knows: the same, or the group of the init of its namespace */
};

/*
 * Start the child as the leader of a new session and process group, and announce the group to the watchdog. false:
 * nothing runs, and *err says why.
 */
bool jr_spawn(
    struct jr_watchdog *watchdog, const struct jr_spawn *spawn, struct jr_spawned *spawned, struct jr_err *err) JR_MUST;

#endif
