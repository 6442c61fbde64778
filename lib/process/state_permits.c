/*
 * state_permits: permits are single bytes of a file in each directory, locked with fcntl.
 *
 * A byte is locked in the order of the directories and unlocked in reverse order. So among runners with the same
 * directories, the one that locks a byte in the first directory gets it in all. Runners with different directories may
 * for a moment both fail to get the same byte; then each tries the next one. What must hold: a process opens no lock
 * file twice (closing any descriptor of it would drop all permits), and nothing here waits.
 */
#include "process/state_parts.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
lock(int fd, int command, short type, size_t permit)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)permit, .l_len = 1};
	int rc;

	do {
		rc = fcntl(fd, command, &lock);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

/*
 * -1: errno says why. F_GETLK checks that the file system supports locks: without them the host would always look full.
 */
static int
open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int error;

	if (fd < 0 || lock(fd, F_GETLK, F_WRLCK, 0)) {
		if (fd >= 0)
			(void)futimens(fd, NULL); /* so that no cleaner of old files removes it */
		return fd;
	}
	error = errno;
	(void)close(fd);
	errno = error;
	return -1;
}

bool
jr_permits_open(
    struct jr_permits *permits, const struct jr_state *state, const char *name, size_t total, struct jr_err *err)
{
	assert(total >= 1 && total <= JR_PERMITS_MAX);
	*permits = (struct jr_permits){.total = total};
	for (size_t i = 0; i < state->count; i++) {
		char *path = jr_state_file(state->directories[i], name, "permits");
		int fd = open_file(path);

		if (fd >= 0) {
			permits->fds[permits->fd_count++] = fd;
		} else {
			jr_fail(err, JR_E_CONFIG, "cannot use %s: %s; name another directory with --state-dir", path,
			    strerror(errno));
			jr_log(JR_INFO, JR_EVENT_STATE_PASSED_OVER, JR_S("reason", err->msg));
		}
		free(path);
	}
	if (permits->fd_count > 0)
		permits->held = jr_xcalloc(total, sizeof(bool));
	return permits->fd_count > 0;
}

void
jr_permits_close(struct jr_permits *permits)
{
	for (size_t i = 0; i < permits->fd_count; i++)
		(void)close(permits->fds[i]);
	free(permits->held);
	*permits = (struct jr_permits){.fd_count = 0};
}

/* Unlock the byte in the first `count` files, in reverse order. */
static void
release(const struct jr_permits *permits, size_t permit, size_t count)
{
	for (size_t i = count; i > 0; i--)
		(void)lock(permits->fds[i - 1], F_SETLK, F_UNLCK, permit);
}

/* Lock the byte in every file, or in none. */
static bool
take_one(const struct jr_permits *permits, size_t permit)
{
	for (size_t i = 0; i < permits->fd_count; i++) {
		if (lock(permits->fds[i], F_SETLK, F_WRLCK, permit))
			continue;
		release(permits, permit, i);
		return false;
	}
	return true;
}

size_t
jr_permits_take(struct jr_permits *permits, size_t wanted)
{
	size_t taken = 0;

	for (size_t i = 0; i < permits->total && taken < wanted; i++) {
		if (permits->held[i] || !take_one(permits, i))
			continue;
		permits->held[i] = true;
		taken++;
	}
	permits->held_count += taken;
	return taken;
}

void
jr_permits_give(struct jr_permits *permits, size_t count)
{
	assert(count <= permits->held_count);
	for (size_t i = permits->total; i > 0 && count > 0; i--) {
		if (!permits->held[i - 1])
			continue;
		release(permits, i - 1, permits->fd_count);
		permits->held[i - 1] = false;
		permits->held_count--;
		count--;
	}
}
