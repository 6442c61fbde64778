/*
 * out_remove: remove files and folders that handlers have left.
 *
 * Folders are walked by descriptors, so that no name is looked up twice, no link is followed, and nothing outside is
 * reached. The walk skips mount points with their contents, and what the kernel refuses to remove; when the time is
 * over, the rest stays. What must hold: nothing here blocks, or takes longer than its time.
 */
#include "handler/out_parts.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 50 /* each level is a descriptor */

struct walk {
	int top; /* the folder in which the walk has begun */
	int64_t end_ms;
};

static void remove_at(const struct walk *walk, int fd, const char *name, int depth);

/* Give us the right to read the folder and to remove files in it: a handler may have taken it away. */
static void
take_rights(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
		(void)fchmod(fd, (st.st_mode & 07777) | S_IRWXU);
}

int
jr_out_open_folder(int fd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int folder = openat(fd, name, flags);

	if (folder < 0 && errno == EACCES && fchmodat(fd, name, S_IRWXU, AT_SYMLINK_NOFOLLOW) == 0)
		folder = openat(fd, name, flags);
	return folder;
}

/* Remove everything in the folder behind fd, and close fd. */
static void
empty(const struct walk *walk, int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (dir == NULL) {
		(void)close(fd);
		return;
	}
	while (jr_clock_now_ms() < walk->end_ms && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_at(walk, fd, entry->d_name, depth);
	}
	(void)closedir(dir);
}

/* Move a folder that is too deep up to the top, where the next walk finds it. */
static void
move_up(const struct walk *walk, int fd, const char *name)
{
	struct stat st;
	char number[32];

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)st.st_ino);
	(void)renameat(fd, name, walk->top, number);
}

static void
remove_at(const struct walk *walk, int fd, const char *name, int depth)
{
	int folder;

	if (unlinkat(fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	/* A mount point gives EBUSY, even if it is not empty. */
	if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
		return;
	if (depth == 0) {
		move_up(walk, fd, name);
		return;
	}
	folder = jr_out_open_folder(fd, name);
	if (folder < 0)
		return;
	take_rights(folder);
	empty(walk, folder, depth - 1);
	(void)unlinkat(fd, name, AT_REMOVEDIR);
}

void
jr_out_remove(int fd, const char *name, int64_t end_ms)
{
	const struct walk walk = {.top = fd, .end_ms = end_ms};

	remove_at(&walk, fd, name, DEPTH_MAX);
}

void
jr_out_empty(int fd, int64_t end_ms)
{
	const struct walk walk = {.top = fd, .end_ms = end_ms};
	int folder;

	take_rights(fd);
	folder = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		empty(&walk, folder, DEPTH_MAX);
}
