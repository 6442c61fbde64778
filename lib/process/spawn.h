/*
 * spawn: vfork and execve, and what must happen between them.
 *
 * After vfork the child runs in the memory of its parent until it executes: it calls only what is async-signal-safe and
 * writes only to its own stack. Everything it needs is prepared before, in struct jr_spawn. A child of another account
 * is forked instead, with the same rules, and killed when it has not executed in two seconds: its account may stop it,
 * which must not stop us.
 */
#ifndef JR_SPAWN_H
#define JR_SPAWN_H

#include "base/err.h"

struct jr_watchdog;
struct jr_limits;

/* Borrowed during the call. */
struct jr_spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	const char *cwd; /* NULL: stays */
	int in_fd;       /* becomes 0; above 2 and close-on-exec, as the next */
	int out_fd;      /* becomes 1 */
	int err_fd;      /* becomes 2; may be out_fd */
	int64_t deadline_ms;
	const struct jr_limits *limits; /* NULL: none */
	bool as_is; /* other descriptors and ignored signals stay; a file without interpreter is a script of /bin/sh */
};

/*
 * Start it as the leader of a new session and of a group with its number, which the watchdog knows.
 * The process id, or -1: then nothing runs and *err says why.
 */
int64_t jr_spawn(struct jr_watchdog *watchdog, const struct jr_spawn *spawn, struct jr_err *err) JR_MUST;

#endif
