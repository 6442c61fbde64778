/*
 * out_dir: the directories of a runner for the files of its handlers, and the directories of dead runners.
 *
 * A directory is in use while its runner holds the lock (flock). The kernel releases the lock when the runner dies,
 * however it dies. So a directory that can be locked belongs to no living runner. What must hold: no link is followed,
 * and no directory of another account is entered, since the parent directory may be /tmp.
 */
#include "handler/out_parts.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/fd.h"
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

#define TRIES 20        /* a sweep of another runner may remove a new directory before it is locked */
#define SWEPT_MAX 100   /* directories that one sweep removes; the others wait for the next runner */
#define SEEN_MAX 100000 /* names that one sweep reads to find them */
#define SWEEP_MS 200    /* for the whole sweep, */
#define ONE_MS 50       /* and for one directory */
#define CLOSE_MS 2000   /* for our own directory: no lease is held then */

bool
jr_out_dir_has(const struct jr_out_dir *dir, const char *name, int fd)
{
	struct stat named, own;

	return fstat(fd, &own) == 0 && fstatat(dir->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

void
jr_out_dir_remove(const struct jr_out_dir *dir, const char *name)
{
	jr_out_remove(dir->fd, name, jr_clock_after(jr_clock_now_ms(), ONE_MS));
}

/* Returns the descriptor; -1: errno says why. */
static int
create(const struct jr_out_dir *dir, const char *name)
{
	const int flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(dir->fd, name, flags, 0600);

	if (fd >= 0 || errno != EEXIST)
		return fd;
	jr_out_dir_remove(dir, name); /* a handler has created something with that name */
	return openat(dir->fd, name, flags, 0600);
}

int
jr_out_dir_make(const struct jr_out_dir *dir, const char *name, const char *text, const struct jr_limits *limits)
{
	bool is_other = limits != NULL && limits->has_account;
	int fd = create(dir, name), error;

	if (fd < 0)
		return -1;
	if ((!is_other || fchown(fd, limits->uid, limits->gid) == 0) && jr_fd_write_all(fd, text, strlen(text)))
		return fd;
	error = errno;
	(void)close(fd);
	errno = error;
	return -1;
}

/* Nobody but root and our account can make a file in the directory; a handler that calls sudo makes one of root's. */
static bool
is_plain_and_ours(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0);
}

/* The first look is not enough, since the name may get another file; but it keeps us from opening a device. */
int
jr_out_dir_open(const struct jr_out_dir *dir, const char *name)
{
	struct stat st;
	int fd;

	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!is_plain_and_ours(&st)) {
		errno = EINVAL;
		return -1;
	}
	fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || (fstat(fd, &st) == 0 && is_plain_and_ours(&st)))
		return fd;
	(void)close(fd);
	errno = EINVAL;
	return -1;
}

/* Lock the directory `name` in `parent`, if it is ours and not locked. Returns the descriptor or -1. */
static int
lock_directory(int parent, const char *name)
{
	int fd = jr_out_open_folder(parent, name);
	struct stat st;

	if (fd < 0)
		return -1;
	/* The link count is 0 if somebody has removed it meanwhile. */
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    st.st_nlink > 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* A mount point gives EBUSY and is left alone: what we have opened is not what the dead runner created. */
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

/* Find names that begin with `prefix`. If there are more than SWEPT_MAX, take a random choice. */
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
 * Remove the directories of dead runners. Leases may be held meanwhile, so the time is limited, for all directories and
 * for each. A sweep begins with a random one, so a directory that cannot be removed does not keep it from the others.
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

/* Try once. On failure errno says why; EAGAIN: a sweep of another runner has removed the new directory. */
static bool
make_directory(struct jr_out_dir *dir)
{
	if (mkdtemp(dir->path) == NULL)
		return false;
	dir->fd = lock_directory(AT_FDCWD, dir->path);
	if (dir->fd < 0) {
		bool passing = errno == EMFILE || errno == ENFILE;

		(void)rmdir(dir->path);
		errno = passing ? EMFILE : EAGAIN;
		return false;
	}
	return !dir->is_shared || fchmod(dir->fd, 0711) == 0;
}

static const char *
parent_directory(void)
{
	const char *tmpdir = getenv("TMPDIR");

	/* A relative path would name another directory for the handler, which has its own working directory. */
	return tmpdir != NULL && tmpdir[0] == '/' ? tmpdir : "/tmp";
}

bool
jr_outs_check(struct jr_err *err)
{
	const char *parent = parent_directory();

	return eaccess(parent, W_OK | X_OK) == 0 ||
	       jr_fail(err, JR_E_CONFIG,
		   "the directory for JOBRUN_OUT cannot be made in %s: %s; set TMPDIR to one that can be written to",
		   parent, strerror(errno));
}

/* Can an account that is neither the owner nor in the group search every directory above it? */
bool
jr_out_dir_is_open(const struct jr_out_dir *dir)
{
	char *path = jr_xstrdup(dir->path);
	bool open = true;

	for (char *slash = strrchr(path, '/'); open && slash != NULL; slash = strrchr(path, '/')) {
		struct stat st;

		*slash = '\0';
		open = stat(path[0] != '\0' ? path : "/", &st) == 0 && (st.st_mode & S_IXOTH) != 0;
	}
	free(path);
	return open;
}

void
jr_out_dir_close(struct jr_out_dir *dir)
{
	if (dir->fd >= 0) {
		jr_out_empty(dir->fd, jr_clock_after(jr_clock_now_ms(), CLOSE_MS));
		(void)rmdir(dir->path);
		(void)close(dir->fd);
	}
	free(dir->path);
	dir->fd = -1;
	dir->path = NULL;
}

/* Create a new directory, and remove the old one if there is one. On failure *dir is unchanged. */
static bool
make_new(struct jr_out_dir *dir, struct jr_err *err)
{
	const char *parent = parent_directory();
	char *prefix = jr_xasprintf("jobrun-out-%lld-", (long long)geteuid());
	struct jr_out_dir fresh = {.fd = -1, .is_shared = dir->is_shared};
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
	jr_out_dir_close(made ? dir : &fresh);
	if (made)
		*dir = fresh;
	return made;
}

bool
jr_out_dir_keep(struct jr_out_dir *dir, struct jr_err *err)
{
	struct stat st;

	/* The link count is 0 if it was removed. */
	return (dir->fd >= 0 && fstat(dir->fd, &st) == 0 && st.st_nlink > 0) || make_new(dir, err);
}
