/*
 * fd: pipes, non-blocking writes, close_range and pidfds.
 */
#ifndef JR_FD_H
#define JR_FD_H

#include <sys/types.h>

#include "base/base.h"

/*
 * A close-on-exec pipe. Both ends are above 2, even if jobrun was started with 0 to 2 closed. On failure errno says why
 * and both ends are -1.
 */
bool jr_fd_pipe(int ends[2]) JR_MUST;

void jr_fd_close(int fd); /* -1 is fine */

bool jr_fd_set_nonblocking(int fd) JR_MUST; /* false: errno says why */

/*
 * Reopen the terminal behind fd, non-blocking: poll reports a terminal as writable, but a write of more than it has
 * room for blocks. -1: fd is no terminal, or it cannot be opened.
 */
int jr_fd_own_terminal(int fd) JR_MUST;

/*
 * Write as much as possible without waiting, since a reader that does not read must not stop us. Returns the number of
 * bytes written; -1: fd cannot be written (any more), errno says why.
 */
ssize_t jr_fd_write_some(int fd, const void *bytes, size_t len) JR_MUST;
bool jr_fd_write(int fd, const void *bytes, size_t len); /* the same; false: not all bytes were written */

/* The same for a line to people, also if fd is a terminal. What fd does not take at once is lost. */
void jr_fd_offer(int fd, const void *bytes, size_t len);

/* Write all of it to a file or a terminal, however long that takes. false: errno says why. */
bool jr_fd_write_all(int fd, const void *bytes, size_t len) JR_MUST;

/* Close everything from `first` to `last`; UINT_MAX: to the end. Async-signal-safe. */
void jr_fd_close_range(unsigned first, unsigned last);

/*
 * A descriptor that becomes readable when the process has ended (pidfd_open, for which musl has no function).
 */
int jr_fd_of_process(int64_t pid) JR_MUST; /* -1: errno says why */

/* Send SIGKILL to the process behind a pidfd. It never hits another process that has got the same pid. */
void jr_fd_kill_process(int fd);

#endif
