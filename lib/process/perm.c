/*
 * perm: see perm.h.
 *
 * The path is walked from the root as the kernel does, one name after the other, and lstat is checked for each entry.
 * The target of a symbolic link is put in front of the names that are left. Others cannot change the path behind the
 * walk: each entry lies in a directory that only trusted owners can write to (or in a sticky one, where the owner of
 * the entry has just been checked).
 */
#include "process/perm.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel's */

struct walk {
	char at[PATH_MAX];   /* where we are, without symbolic links; "" is the root */
	char rest[PATH_MAX]; /* the names that are left */
	int links;
	uid_t me;
	bool strict; /* the last directory may not be sticky and writable */
};

static bool
fail_long(const char *path, struct jr_err *err)
{
	return jr_fail(err, JR_E_CONFIG, "cannot use %.200s...: its path is too long", path);
}

/* Others than its owner can write to the entry. A sticky directory, as /tmp, is meant to be so. */
static bool
fail_open(const char *path, const struct stat *st, struct jr_err *err)
{
	const char *who = (st->st_mode & S_IWOTH) != 0 ? "everybody" : "its group";

	if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0)
		return jr_fail(err, JR_E_CONFIG,
		    "cannot trust %s: %s can write to it: use a directory of your own, such as one in ~/.config/jobrun",
		    path, who);
	return jr_fail(err, JR_E_CONFIG, "cannot trust %s: %s can write to it: chmod go-w %s", path, who, path);
}

/* The rule for one entry of the path. */
static bool
check(const char *path, const struct stat *st, uid_t me, bool may_be_sticky, struct jr_err *err)
{
	bool is_link = S_ISLNK(st->st_mode);
	bool is_open = !is_link && (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;

	if (st->st_uid != 0 && st->st_uid != me)
		return jr_fail(err, JR_E_CONFIG, "cannot trust %s: it is owned by user %lu: chown %s%lu %s", path,
		    (unsigned long)st->st_uid, is_link ? "-h " : "", (unsigned long)me, path);
	if (is_open && !(may_be_sticky && (st->st_mode & S_ISVTX) != 0))
		return fail_open(path, st, err);
	return true;
}

/* Take the next name off `rest`; false at the end. */
static bool
next_name(struct walk *walk, char name[NAME_MAX + 1])
{
	const char *from = walk->rest + strspn(walk->rest, "/");
	size_t len = strcspn(from, "/");

	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(name, from, len);
	name[len] = '\0';
	memmove(walk->rest, from + len, strlen(from + len) + 1);
	return true;
}

/* Append to `at`; false if it is too long. */
static bool
descend(struct walk *walk, const char *name)
{
	size_t used = strlen(walk->at);
	size_t len = strlen(name);

	if (used + 1 + len >= sizeof(walk->at))
		return false;
	walk->at[used] = '/';
	memcpy(walk->at + used + 1, name, len + 1);
	return true;
}

static void
ascend(struct walk *walk)
{
	char *slash = strrchr(walk->at, '/');

	if (slash != NULL)
		*slash = '\0';
}

/* walk->at is a link: go on with its target. */
static bool
follow(struct walk *walk, struct jr_err *err)
{
	char target[PATH_MAX];
	ssize_t len = readlink(walk->at, target, sizeof(target) - 1);
	size_t rest = strlen(walk->rest);

	if (len < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", walk->at, strerror(errno));
	if (++walk->links > LINKS_MAX)
		return jr_fail(err, JR_E_CONFIG, "cannot use %s: %s", walk->at, strerror(ELOOP));
	if ((size_t)len + 1 + rest >= sizeof(walk->rest))
		return fail_long(walk->at, err);
	memmove(walk->rest + len + 1, walk->rest, rest + 1);
	memcpy(walk->rest, target, (size_t)len);
	walk->rest[len] = '/';
	if (target[0] == '/')
		walk->at[0] = '\0';
	else
		ascend(walk);
	return true;
}

static bool
is_last(const struct walk *walk)
{
	return walk->rest[strspn(walk->rest, "/")] == '\0';
}

/* Look at walk->at, which is "" for the root. */
static bool
look(struct walk *walk, struct stat *st, struct jr_err *err)
{
	const char *path = walk->at[0] != '\0' ? walk->at : "/";
	bool is_inner;

	if (lstat(path, st) < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot use %s: %s", path, strerror(errno));
	is_inner = S_ISDIR(st->st_mode) && !(walk->strict && is_last(walk));
	return check(path, st, walk->me, is_inner, err);
}

static bool
step(struct walk *walk, const char *name, struct stat *st, struct jr_err *err)
{
	if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'))) {
		if (name[1] == '.')
			ascend(walk);
		return look(walk, st, err); /* again: it may be the last entry now, with a stricter rule */
	}
	if (!descend(walk, name))
		return fail_long(walk->at, err);
	if (!look(walk, st, err))
		return false;
	return !S_ISLNK(st->st_mode) || follow(walk, err);
}

/* Check every entry of `path`. *st gets the stat of the last one. */
static bool
walk_to(const char *path, bool strict, struct stat *st, struct jr_err *err)
{
	struct walk *walk = jr_xcalloc(1, sizeof(*walk));
	char name[NAME_MAX + 1];
	size_t len = strlen(path);
	bool trusted;

	if (path[0] != '/' || len >= sizeof(walk->rest)) {
		free(walk);
		return path[0] == '/' ? fail_long(path, err)
				      : jr_fail(err, JR_E_BUG, "cannot check %s: not an absolute path", path);
	}
	memcpy(walk->rest, path, len + 1);
	walk->strict = strict;
	walk->me = geteuid();
	trusted = look(walk, st, err);
	while (trusted && next_name(walk, name))
		trusted = step(walk, name, st, err);
	if (trusted && !is_last(walk))
		trusted = jr_fail(err, JR_E_CONFIG, "cannot use %s: %s", path, strerror(ENAMETOOLONG));
	free(walk);
	return trusted;
}

bool
jr_perm_check_directory(const char *path, struct jr_err *err)
{
	struct stat st = {0};

	if (!walk_to(path, true, &st, err))
		return false;
	if (!S_ISDIR(st.st_mode))
		return jr_fail(err, JR_E_CONFIG, "cannot use %s: %s", path, strerror(ENOTDIR));
	return true;
}

bool
jr_perm_check_named(const char *path, struct jr_err *err)
{
	struct stat st = {0};

	if (!walk_to(path, false, &st, err))
		return false;
	if (!S_ISREG(st.st_mode))
		return jr_fail(err, JR_E_CONFIG, "cannot use %s: it is not a plain file", path);
	return true;
}

bool
jr_perm_check_data(const char *path, struct jr_err *err)
{
	const char *slash = strrchr(path, '/');
	char *directory = jr_xmemdup0(path, slash != NULL && slash > path ? (size_t)(slash - path) : 1);
	bool trusted = jr_perm_check_directory(directory, err);

	free(directory);
	return trusted && jr_perm_check_named(path, err);
}

bool
jr_perm_check_file(const char *path, struct jr_err *err)
{
	if (!jr_perm_check_data(path, err))
		return false;
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot execute %s: %s: chmod +x %s", path, strerror(errno), path);
	return true;
}
