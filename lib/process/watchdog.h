/*
 * watchdog: the process that outlives the runner long enough to kill its handlers.
 *
 * Each runner has one watchdog, forked before the first handler. It has a session of its own, ignores all signals but
 * KILL, and has nothing open but the reading end of a pipe, a timer and a pidfd of the runner (and 0 to 2 on
 * /dev/null). Three kinds of records come through the pipe: a child announces its process group before it executes, the
 * runner moves the deadline of a group, and the runner says that a group has been killed and is to be forgotten. The
 * watchdog sends KILL to a group when its deadline has passed on CLOCK_BOOTTIME (the runner is stopped and could not
 * move it), and to all groups when the pipe ends (the runner is dead, by SIGKILL too). Then it exits. With a group it
 * kills the others of its session (group.h). Handlers that are no processes end with the runner: the runner has a
 * deadline, too, at which the watchdog kills it (jr_watchdog_guard).
 *
 * What it cannot prevent: descendants that left the session (setsid) live on, and SIGKILL of watchdog and runner at the
 * same moment leaves only PDEATHSIG, which kills the direct child. Neither is so for a handler in a PID namespace
 * (isolate.h): its group is that of the init, with which the kernel kills the whole namespace.
 *
 * Records have one fixed size below PIPE_BUF, so writes of runner and children never mix.
 */
#ifndef JR_WATCHDOG_H
#define JR_WATCHDOG_H

#include <signal.h>

#include "base/err.h"
#include "process/sweep.h"

struct jr_watchdog;

/*
 * Also changes this process for good: SIGCHLD gets its default disposition (if it were ignored, the kernel would reap
 * the handlers), and those of signals.h are ignored. From then on no disposition may change.
 */
struct jr_watchdog *jr_watchdog_start(struct jr_err *err) JR_MUST;

/* Close the pipe and reap the watchdog, which first kills all groups on its list. NULL is fine. */
void jr_watchdog_free(struct jr_watchdog *watchdog);

/* The writing end of the pipe, and the call by which a child announces itself. Async-signal-safe. */
int jr_watchdog_fd(const struct jr_watchdog *watchdog);
bool jr_watchdog_announce(int fd, int64_t group, int64_t deadline_ms);

/* The signals that are ignored or caught in this process: only these need a reset in a child. Borrowed. */
const sigset_t *jr_watchdog_signals(const struct jr_watchdog *watchdog);

/* What the runner itself uses to stop handlers while it lives. Borrowed. */
struct jr_sweep *jr_watchdog_sweep(struct jr_watchdog *watchdog);

void jr_watchdog_move(struct jr_watchdog *watchdog, int64_t group, int64_t deadline_ms);
void jr_watchdog_forget(struct jr_watchdog *watchdog, int64_t group);

/* Set the runner's own deadline: when it has passed, the watchdog kills the runner. JR_NEVER: there is none. */
void jr_watchdog_guard(struct jr_watchdog *watchdog, int64_t deadline_ms);

/* false: the watchdog has ended, or a write to it has failed. Start no new handler then. */
bool jr_watchdog_is_alive(const struct jr_watchdog *watchdog);

#endif
