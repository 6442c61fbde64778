/*
 * fd: see fd.h.
 *
 * The newer system calls are made by number, because the C library may be musl or older than the kernel. What must
 * hold: nothing here allocates, so that jr_fd_close_range may be called between vfork and exec.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define LOOP_MAX 1048576 /* descriptors closed one by one where the kernel has no close_range */

/* Move *fd above 2. */
static bool
raise_fd(int *fd)
{
	int raised;

	if (*fd > STDERR_FILENO)
		return true;
	raised = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (raised < 0)
		return false;
	(void)close(*fd);
	*fd = raised;
	return true;
}

bool
jr_fd_pipe(int ends[2])
{
	int error;

	ends[0] = ends[1] = -1;
	if (pipe2(ends, O_CLOEXEC) == 0 && raise_fd(&ends[0]) && raise_fd(&ends[1]))
		return true;
	error = errno;
	jr_fd_close(ends[0]);
	jr_fd_close(ends[1]);
	ends[0] = ends[1] = -1;
	errno = error;
	return false;
}

void
jr_fd_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

bool
jr_fd_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

int
jr_fd_own_terminal(int fd)
{
	char path[32];

	if (!isatty(fd))
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

ssize_t
jr_fd_write_some(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;
	size_t done = 0;

	while (done < len) {
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		size_t piece = len - done < PIPE_BUF ? len - done : PIPE_BUF;
		ssize_t n;

		if (poll(&ready, 1, 0) <= 0)
			break;
		n = write(fd, at + done, piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || (n < 0 && errno == EAGAIN))
			break;
		if (n < 0)
			return done > 0 ? (ssize_t)done : -1;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

bool
jr_fd_write(int fd, const void *bytes, size_t len)
{
	return jr_fd_write_some(fd, bytes, len) == (ssize_t)len;
}

void
jr_fd_offer(int fd, const void *bytes, size_t len)
{
	int own = jr_fd_own_terminal(fd);

	(void)jr_fd_write(own >= 0 ? own : fd, bytes, len);
	jr_fd_close(own);
}

bool
jr_fd_write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return true;
}

void
jr_fd_close_range(unsigned first, unsigned last)
{
	struct rlimit limit;
	unsigned end = LOOP_MAX;

	if (first > last || syscall(SYS_close_range, first, last, 0u) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
		end = (unsigned)limit.rlim_cur;
	if (last < end)
		end = last + 1;
	for (unsigned fd = first; fd < end; fd++)
		(void)close((int)fd);
}

int
jr_fd_of_process(int64_t pid)
{
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
}

void
jr_fd_kill_process(int fd)
{
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0u);
}
