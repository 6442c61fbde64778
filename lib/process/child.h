/*
 * child: one process of ours, started without a shell, in a session of its own, and the end of its whole group.
 *
 * The child is started by vfork with every signal blocked; only async-signal-safe calls happen in it, in this order:
 * setsid, the watchdog is told its group (watchdog.h), nice value, limits that root raises, the account, chdir,
 * PR_SET_PDEATHSIG KILL (a change of account clears it) and a look whether the parent is still there, descriptors 0 to
 * 2, close_range(3, ...) (a loop where the kernel has none), signal dispositions and mask back to default, limits,
 * execve. The errno of a failed step comes back through a close-on-exec pipe.
 *
 * The life of a child:  running -> exited (pidfd readable, still a zombie) -> drained (end of output or JR_DRAIN_MS)
 * -> its group killed -> watchdog told -> wait4 -> group gone -> `ended` is called. Nothing that is left of the group
 * survives that; what left it (setsid) does. The zombie is kept until the group has been killed, so that its number
 * cannot be somebody else's meanwhile.
 *
 * stdin is written from `input` as the child reads it; a child that never reads it, or closes it, is normal. stdout and
 * stderr are one pipe, drained to the end and kept as head and tail.
 *
 * With `as_is` the child takes the place of a command of whoever started us: our stdin, directory, further descriptors
 * and ignored signals are its own, and a file without an interpreter is a script of /bin/sh, as execvp has it. Its
 * stdout and stderr are a pipe each, passed on whole to ours as it comes: it waits when ours takes no more, and only
 * the end by KILL does not wait for what is left.
 */
#ifndef JR_CHILD_H
#define JR_CHILD_H

#include <sys/resource.h>

#include "base/buf.h"
#include "base/loop.h"

struct jr_child;
struct jr_watchdog;
struct jr_limits;

struct jr_child_spec {
	const char *path;  /* executed as it stands: no PATH search, no shell */
	char *const *argv; /* NULL-terminated, borrowed during start */
	char *const *envp;
	const char *cwd;   /* NULL: stays */
	const char *input; /* borrowed until `ended` */
	size_t input_len;
	int64_t deadline_ms;            /* of the lease: when the watchdog kills the group by itself */
	const struct jr_limits *limits; /* borrowed during start; NULL: none */
	bool echo;                      /* what it prints is also copied to descriptor 2 as it comes (run --job) */
	bool raw;                       /* the copy is not made visible, even if that is a terminal */
	bool as_is;                     /* see above; no input, cwd and echo */
};

struct jr_child_end {
	int status; /* as wait4 gives it */
	struct rusage usage;
	int64_t max_rss_kb; /* its own; 0: not known, since it was no more than ours when it was started */
	const struct jr_capture *output;
};

typedef void jr_child_fn(void *ctx, const struct jr_child_end *end);

/* NULL on failure: *err then names the step and the errno ("cannot start /x/y: Exec format error"). */
struct jr_child *jr_child_start(struct jr_loop *loop, struct jr_watchdog *watchdog, const struct jr_child_spec *spec,
    jr_child_fn *ended, void *ctx, struct jr_err *err) JR_MUST;

void jr_child_signal(
    struct jr_child *child, int signo); /* to the whole group; KILL also sticks: it is repeated until gone */
void jr_child_deadline(struct jr_child *child, int64_t deadline_ms); /* a heartbeat was answered: tells the watchdog */
int64_t jr_child_pid(const struct jr_child *child);
const struct jr_capture *jr_child_output(const struct jr_child *child);

/* Only after `ended`, or to give it up at once: kills the group with KILL and reaps (waits at most a moment). */
void jr_child_free(struct jr_child *child);

#endif
