/*
 * fd: descriptors, around the start of other processes.
 */
#ifndef JR_FD_H
#define JR_FD_H

#include <sys/types.h>

#include "base/base.h"

/*
 * A close-on-exec pipe of which neither end is 0 to 2, also when jobrun was started with those
 * closed. On failure errno says why and both ends are -1.
 */
bool jr_fd_pipe(int ends[2]) JR_MUST;

void jr_fd_close(int fd); /* -1 is fine */

bool jr_fd_set_nonblocking(int fd) JR_MUST; /* false: errno says why */

/*
 * A description of our own of the terminal that fd is, which does not block: it says that it can be written, and then
 * takes its time for more than it has room for. -1: it is no terminal, or cannot be had.
 */
int jr_fd_own_terminal(int fd) JR_MUST;

/*
 * Write what can be written without waiting: a reader that does not read must not stop us. How many bytes that were;
 * -1: it cannot be written (any more), errno says why.
 */
ssize_t jr_fd_write_some(int fd, const void *bytes, size_t len) JR_MUST;
bool jr_fd_write(int fd, const void *bytes, size_t len); /* false: not all of it */

/* Close everything from `first` to `last`; UINT_MAX: to the end. Async-signal-safe. */
void jr_fd_close_range(unsigned first, unsigned last);

/*
 * A descriptor that becomes readable when the process has ended (pidfd_open, for which musl has no
 * function).
 */
int jr_fd_of_process(int64_t pid) JR_MUST; /* -1: errno says why */

/* SIGKILL to the process of such a descriptor, and to no other that may have its number by now. */
void jr_fd_kill_process(int fd);

#endif
