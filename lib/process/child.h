/*
 * child: a process without a shell between, in a session of its own, and the end of its whole process group.
 *
 * The child is started by vfork with every signal blocked. It makes only async-signal-safe calls, in this order:
 * setsid, announce its group to the watchdog (watchdog.h), set the nice value, raise limits (as root), change the
 * account, chdir, PR_SET_PDEATHSIG KILL (a change of account clears it) and check that the parent is still there, set
 * descriptors 0 to 2, close_range(3, ...) (a loop where the kernel has none), reset signal dispositions and mask, set
 * limits, execve. A failed step reports its errno through a close-on-exec pipe.
 *
 * The life of a child:  running -> exited (pidfd readable, still a zombie) -> drained (end of output or JR_DRAIN_MS) ->
 * its group killed -> if it was signalled, the rest of its session gone -> watchdog forgets the group -> wait4 -> group
 * gone -> `ended` is called. No process of the group survives that. A process that has made a group of its own
 * (timeout(1)) survives the end of a child that ended by itself, but not that of one that was signalled: then its whole
 * session is killed. What has left the session (setsid) survives both. The zombie is kept until all of that has been
 * killed, so that no other process can get its number meanwhile.
 *
 * With `isolation` (isolate.h) nothing survives: the child has a PID namespace of its own, and with it every process in
 * it is killed when the child has ended and its output is drained, when it gets KILL, and by the watchdog. TERM goes to
 * the session of the child, as without.
 *
 * `input` is written to the child's stdin as it reads. A child may also close stdin or never read it. Its stdout and
 * stderr are one pipe, which is read to the end and kept as head and tail.
 *
 * With `as_is` the child replaces the command that the caller of jobrun would have run: it inherits stdin, directory,
 * further descriptors and ignored signals, and a file without an interpreter is run by /bin/sh, as execvp does. Its
 * stdout and stderr are a pipe each and all output is passed on to ours. When ours takes no more, the child has to
 * wait, and its end waits until all output is passed on. After KILL the rest of the output is dropped. With `quiet` as
 * well nothing is passed on, and both are kept only.
 */
#ifndef JR_CHILD_H
#define JR_CHILD_H

#include <sys/resource.h>

#include "base/buf.h"
#include "base/loop.h"

struct jr_child;
struct jr_isolation;
struct jr_limits;
struct jr_watchdog;

struct jr_child_spec {
	const char *path;  /* executed as it stands: no PATH search, no shell */
	char *const *argv; /* NULL-terminated, borrowed during start */
	char *const *envp;
	const char *cwd;   /* NULL: stays */
	const char *input; /* borrowed until `ended` */
	size_t input_len;
	int64_t deadline_ms;                  /* of the lease: when the watchdog kills the group by itself */
	const struct jr_limits *limits;       /* borrowed during start; NULL: none */
	const struct jr_isolation *isolation; /* borrowed during start; NULL: no namespace */
	bool echo;                            /* also copy its output to descriptor 2 as it comes (run --job) */
	bool raw;                             /* copy control characters as they are, even to a terminal */
	bool as_is;                           /* see above; then without input, cwd and echo */
	bool quiet;                           /* see above */
};

struct jr_child_end {
	int status;     /* as wait4 gives it */
	bool by_itself; /* it had ended before the first signal; that met only what it has left */
	struct rusage usage;
	int64_t max_rss_kb; /* 0: not known, since it is not above our own size at the start */
	const struct jr_capture *output;
};

typedef void jr_child_fn(void *ctx, const struct jr_child_end *end);

/* NULL on failure: *err then names the step and the errno ("cannot start /x/y: Exec format error"). */
struct jr_child *jr_child_start(struct jr_loop *loop, struct jr_watchdog *watchdog, const struct jr_child_spec *spec,
    jr_child_fn *ended, void *ctx, struct jr_err *err) JR_MUST;

void jr_child_signal(struct jr_child *child, int signo); /* its whole session; KILL is repeated until that is gone */
void jr_child_deadline(struct jr_child *child, int64_t deadline_ms); /* the lease was renewed: tell the watchdog */
int64_t jr_child_pid(const struct jr_child *child);
const struct jr_capture *jr_child_output(const struct jr_child *child);

/*
 * Free it after `ended`. Before that: kill the session with KILL and reap the leader, waiting a second at most, and one
 * more for the end of a namespace.
 */
void jr_child_free(struct jr_child *child);

#endif
