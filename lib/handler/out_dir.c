/*
 * out_dir: the directory of a runner for the files of its handlers, and what dead runners left.
 *
 * A directory is in use as long as its lock (flock) is held, and the kernel drops that with the last descriptor of its
 * holder, however it died. So what can be locked belongs to nobody. What must hold: nothing is followed and nothing is
 * entered that does not belong to this account: the directory around it may be /tmp.
 */
#include "handler/out_parts.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 20        /* to make a directory that no sweep takes away before it is locked */
#define SWEPT_MAX 100   /* directories swept away at once; the others wait for the next runner */
#define SEEN_MAX 100000 /* names looked at for them */
#define SWEEP_MS 200    /* for all of them, */
#define ONE_MS 50       /* and for one */
#define CLOSE_MS 2000   /* for our own, when nothing is held any more */

bool
jr_out_dir_has(const struct jr_outs *outs, const char *name, int fd)
{
	struct stat named, own;

	return fstat(fd, &own) == 0 && fstatat(outs->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

void
jr_out_dir_remove(const struct jr_outs *outs, const char *name)
{
	jr_out_remove(outs->fd, name, jr_clock_after(jr_clock_now_ms(), ONE_MS));
}

static bool
write_all(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* errno says why it is -1. */
static int
create(const struct jr_outs *outs, const char *name)
{
	const int flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(outs->fd, name, flags, 0600);

	if (fd >= 0 || errno != EEXIST)
		return fd;
	jr_out_dir_remove(outs, name); /* a handler has put something there */
	return openat(outs->fd, name, flags, 0600);
}

int
jr_out_dir_make(const struct jr_outs *outs, const char *name, const char *text, const struct jr_limits *limits)
{
	bool is_other = limits != NULL && limits->has_account;
	int fd = create(outs, name), error;

	if (fd < 0)
		return -1;
	if ((!is_other || fchown(fd, limits->uid, limits->gid) == 0) && write_all(fd, text))
		return fd;
	error = errno;
	(void)close(fd);
	errno = error;
	return -1;
}

/* Lock the directory `name` in the one behind `parent` if it is ours and nobody's. The descriptor or -1. */
static int
lock_directory(int parent, const char *name)
{
	int fd = jr_out_open_folder(parent, name);
	struct stat st;

	if (fd < 0)
		return -1;
	/* Of one that was removed meanwhile no link is left. */
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    st.st_nlink > 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* Of a mount point the kernel says EBUSY: what we have opened is not what the dead runner made. */
static void
sweep_one(int parent, const char *name)
{
	int fd = lock_directory(parent, name);

	if (fd < 0)
		return;
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
		jr_out_empty(fd, jr_clock_after(jr_clock_now_ms(), ONE_MS));
		(void)unlinkat(parent, name, AT_REMOVEDIR);
	}
	(void)close(fd);
}

/* Names that begin so; of more than fit any. */
static size_t
find_names(DIR *dir, const char *prefix, struct jr_random *random, char *names[SWEPT_MAX])
{
	struct dirent *entry;
	size_t count = 0;

	for (int i = 0; i < SEEN_MAX && (entry = readdir(dir)) != NULL; i++) {
		size_t at;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		at = count < SWEPT_MAX ? count : (size_t)jr_random_below(random, count + 1);
		count++;
		if (at >= SWEPT_MAX)
			continue;
		free(names[at]);
		names[at] = jr_xstrdup(entry->d_name);
	}
	return count < SWEPT_MAX ? count : SWEPT_MAX;
}

/*
 * Leases are held meanwhile, so there is little time. It begins with another one each time, and gives none more than a
 * part of it: what takes long or cannot be removed keeps nobody from the others.
 */
static void
sweep(const char *parent, const char *prefix)
{
	int64_t end_ms = jr_clock_after(jr_clock_now_ms(), SWEEP_MS);
	char *names[SWEPT_MAX] = {NULL};
	DIR *dir = opendir(parent);
	struct jr_random random;
	size_t count, first;

	if (dir == NULL)
		return;
	jr_random_seed_system(&random);
	count = find_names(dir, prefix, &random, names);
	first = (size_t)jr_random_below(&random, count);
	for (size_t i = 0; i < count && jr_clock_now_ms() < end_ms; i++)
		sweep_one(dirfd(dir), names[(first + i) % count]);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	(void)closedir(dir);
}

/* One try: false with errno, or EAGAIN if somebody's sweep was faster. */
static bool
make_directory(struct jr_outs *outs)
{
	bool as_root = geteuid() == 0;

	if (mkdtemp(outs->path) == NULL)
		return false;
	outs->fd = lock_directory(AT_FDCWD, outs->path);
	if (outs->fd < 0) {
		bool passing = errno == EMFILE || errno == ENFILE;

		(void)rmdir(outs->path);
		errno = passing ? EMFILE : EAGAIN;
		return false;
	}
	/* Handlers of other accounts must reach their file, and see no other. */
	return !as_root || fchmod(outs->fd, 0711) == 0;
}

static const char *
parent_directory(void)
{
	const char *tmpdir = getenv("TMPDIR");

	/* A relative one would mean another place to the handler. */
	return tmpdir != NULL && tmpdir[0] == '/' ? tmpdir : "/tmp";
}

/* May accounts that are neither its owner nor of its group pass every directory above it? */
bool
jr_out_dir_is_open(const struct jr_outs *outs)
{
	char *path = jr_xstrdup(outs->path);
	bool open = true;

	for (char *slash = strrchr(path, '/'); open && slash != NULL; slash = strrchr(path, '/')) {
		struct stat st;

		*slash = '\0';
		open = stat(path[0] != '\0' ? path : "/", &st) == 0 && (st.st_mode & S_IXOTH) != 0;
	}
	free(path);
	return open;
}

static void
release(struct jr_outs *outs)
{
	if (outs->fd >= 0) {
		jr_out_empty(outs->fd, jr_clock_after(jr_clock_now_ms(), CLOSE_MS));
		(void)rmdir(outs->path);
		(void)close(outs->fd);
	}
	free(outs->path);
}

/* In place of the one that it has, if any. On failure *outs is as before. */
static bool
make_new(struct jr_outs *outs, struct jr_err *err)
{
	const char *parent = parent_directory();
	char *prefix = jr_xasprintf("jobrun-out-%lld-", (long long)geteuid());
	struct jr_outs fresh = {.fd = -1};
	bool made = false;
	int error = EAGAIN;

	sweep(parent, prefix);
	for (int i = 0; i < TRIES && !made && error == EAGAIN; i++) {
		free(fresh.path);
		fresh.path = jr_xasprintf("%s/%sXXXXXX", parent, prefix);
		made = make_directory(&fresh);
		error = errno;
	}
	free(prefix);
	if (!made)
		jr_fail(err, JR_E_TEMP, "could not make a directory for JOBRUN_OUT in %s: %s", parent, strerror(error));
	release(made ? outs : &fresh);
	if (made)
		*outs = fresh;
	return made;
}

struct jr_outs *
jr_outs_open(struct jr_err *err)
{
	struct jr_outs *outs = jr_xcalloc(1, sizeof(*outs));

	outs->fd = -1;
	if (make_new(outs, err))
		return outs;
	free(outs);
	return NULL;
}

bool
jr_out_dir_keep(struct jr_outs *outs, struct jr_err *err)
{
	struct stat st;

	/* Of one that was removed no link is left. */
	return (fstat(outs->fd, &st) == 0 && st.st_nlink > 0) || make_new(outs, err);
}

void
jr_outs_close(struct jr_outs *outs)
{
	if (outs == NULL)
		return;
	release(outs);
	free(outs);
}
