/*
 * watchdog: the process that outlives the runner long enough to kill its handlers.
 *
 * One watchdog a runner, forked before the first handler, in a session of its own, all signals but KILL ignored,
 * nothing open but the reading end of a pipe, a timer and a pidfd of the runner (and 0 to 2 on /dev/null). It is told
 * of each process group before that child may exec (the child itself writes the record), of each new deadline, and when
 * the group has been killed and may be forgotten. It sends KILL to a group whose deadline has passed on CLOCK_BOOTTIME
 * (the runner is stopped and could not move it), and to all of them when the pipe ends (the runner is dead, SIGKILL
 * included); then it exits. Handlers that are no processes end with the runner: it has a deadline, too, on which it is
 * killed itself.
 *
 * What remains possible: descendants that left the group (setsid), and SIGKILL of watchdog and runner in one moment
 * (then PDEATHSIG still ends the direct child).
 *
 * Records are of one fixed size below PIPE_BUF, so writes of runner and children never mix.
 */
#ifndef JR_WATCHDOG_H
#define JR_WATCHDOG_H

#include "base/err.h"

struct jr_watchdog;

/* Also gives SIGCHLD its default disposition (ignored, it would reap the handlers) and ignores SIGPIPE, for good. */
struct jr_watchdog *jr_watchdog_start(struct jr_err *err) JR_MUST;

/* Closes the pipe and reaps the watchdog, which kills whatever is still on its list. NULL is fine. */
void jr_watchdog_free(struct jr_watchdog *watchdog);

/* The writing end, for the child to announce itself with; and what it writes. Async-signal-safe. */
int jr_watchdog_fd(const struct jr_watchdog *watchdog);
bool jr_watchdog_announce(int fd, int64_t group, int64_t deadline_ms);

void jr_watchdog_move(struct jr_watchdog *watchdog, int64_t group, int64_t deadline_ms);
void jr_watchdog_forget(struct jr_watchdog *watchdog, int64_t group);

/* The runner itself is killed once deadline_ms has passed; JR_NEVER: it is not. Replaces what was said before. */
void jr_watchdog_guard(struct jr_watchdog *watchdog, int64_t deadline_ms);
bool jr_watchdog_is_alive(
    const struct jr_watchdog *watchdog); /* false once a write to it has failed: start no new handler */

#endif
