/*
 * state_places: single bytes of a file in each directory, locked by fcntl.
 *
 * The directories are locked in their order and given back in the other one, so that of runners that have the same ones
 * whoever gets a byte in the first gets it in all. With different ones two may refuse each other a byte for the moment
 * between two calls, and take the next one. What must hold: no lock file is opened twice in a process (closing any
 * descriptor of it would drop all places), and nothing here ever waits.
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
lock(int fd, int command, short type, size_t place)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
	int rc;

	do {
		rc = fcntl(fd, command, &lock);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

/*
 * -1: errno says why. A file system that knows no locks is found out here: to a claim it would look like a host that is
 * full for ever.
 */
static int
open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int error;

	if (fd < 0 || lock(fd, F_GETLK, F_WRLCK, 0)) {
		if (fd >= 0)
			(void)futimens(fd, NULL); /* so that nothing that clears old files away takes it */
		return fd;
	}
	error = errno;
	(void)close(fd);
	errno = error;
	return -1;
}

bool
jr_places_open(
    struct jr_places *places, const struct jr_state *state, const char *name, size_t total, struct jr_err *err)
{
	assert(total >= 1 && total <= JR_PLACES_MAX);
	*places = (struct jr_places){.total = total};
	for (size_t i = 0; i < state->count; i++) {
		char *path = jr_state_file(state->directories[i], name, "places");
		int fd = open_file(path);

		if (fd >= 0) {
			places->fds[places->fd_count++] = fd;
		} else {
			jr_fail(err, JR_E_CONFIG, "cannot use %s: %s", path, strerror(errno));
			jr_log(JR_INFO, "state_passed_over", JR_S("reason", err->msg));
		}
		free(path);
	}
	if (places->fd_count > 0)
		places->held = jr_xcalloc(total, sizeof(bool));
	return places->fd_count > 0;
}

void
jr_places_close(struct jr_places *places)
{
	for (size_t i = 0; i < places->fd_count; i++)
		(void)close(places->fds[i]);
	free(places->held);
	*places = (struct jr_places){.fd_count = 0};
}

/* The byte of the first `count` files, the last one first. */
static void
release(const struct jr_places *places, size_t place, size_t count)
{
	for (size_t i = count; i > 0; i--)
		(void)lock(places->fds[i - 1], F_SETLK, F_UNLCK, place);
}

/* The byte in every file, or in none. */
static bool
take_one(const struct jr_places *places, size_t place)
{
	for (size_t i = 0; i < places->fd_count; i++) {
		if (lock(places->fds[i], F_SETLK, F_WRLCK, place))
			continue;
		release(places, place, i);
		return false;
	}
	return true;
}

size_t
jr_places_take(struct jr_places *places, size_t wanted)
{
	size_t taken = 0;

	for (size_t i = 0; i < places->total && taken < wanted; i++) {
		if (places->held[i] || !take_one(places, i))
			continue;
		places->held[i] = true;
		taken++;
	}
	places->held_count += taken;
	return taken;
}

void
jr_places_give(struct jr_places *places, size_t count)
{
	assert(count <= places->held_count);
	for (size_t i = places->total; i > 0 && count > 0; i--) {
		if (!places->held[i - 1])
			continue;
		release(places, i - 1, places->fd_count);
		places->held[i - 1] = false;
		places->held_count--;
		count--;
	}
}
