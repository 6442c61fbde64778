/*
 * written: see written.h.
 */
#include "written.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

static bool
has_no_reader(int fd)
{
	struct pollfd out = {.fd = fd, .events = POLLOUT};

	return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

bool
jr_written(struct jr_err *err)
{
	int error;

	errno = 0; /* an earlier failure has set ferror() only */
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	error = errno;
	__fpurge(stdout);
	clearerr(stdout);
	if (error == EPIPE || (error == 0 && has_no_reader(STDOUT_FILENO)))
		return true;
	return jr_fail(err, JR_E_TEMP, "could not write to stdout: %s",
	    error == 0 ? "the reason is not known; is the disk full?" : strerror(error));
}
