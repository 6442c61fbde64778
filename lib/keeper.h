/*
 * keeper: the process that outlives the runner long enough to kill its handlers.
 *
 * One keeper a runner, forked before the first handler, in a session of its own, all signals but KILL ignored, nothing
 * open but the reading end of a pipe, a timer and a pidfd of the runner (and 0 to 2 on /dev/null). It is told of each process group before that child may
 * exec (the child itself writes the record), of each new deadline, and when the group has been killed and may be
 * forgotten. It sends KILL to a group whose deadline has passed on CLOCK_BOOTTIME (the runner is stopped and could not
 * move it), and to all of them when the pipe ends (the runner is dead, SIGKILL included); then it exits.
 *
 * What remains possible: descendants that left the group (setsid), and SIGKILL of keeper and runner in one moment
 * (then PDEATHSIG still ends the direct child).
 *
 * Records are of one fixed size below PIPE_BUF, so writes of runner and children never mix.
 */
#ifndef JR_KEEPER_H
#define JR_KEEPER_H

#include "err.h"

struct jr_keeper;

/* Also gives SIGCHLD its default disposition (ignored, it would reap the handlers) and ignores SIGPIPE, for good. */
struct jr_keeper *jr_keeper_start(struct jr_err *err) JR_MUST;

/* Closes the pipe and reaps the keeper, which kills whatever is still on its list. NULL is fine. */
void jr_keeper_free(struct jr_keeper *keeper);

/* The writing end, for the child to announce itself with; and what it writes. Async-signal-safe. */
int jr_keeper_fd(const struct jr_keeper *keeper);
bool jr_keeper_announce(int fd, int64_t group, int64_t deadline_ms);

void jr_keeper_move(struct jr_keeper *keeper, int64_t group, int64_t deadline_ms);
void jr_keeper_forget(struct jr_keeper *keeper, int64_t group);
bool jr_keeper_is_alive(
    const struct jr_keeper *keeper); /* false once a write to it has failed: start no new handler */

#endif
