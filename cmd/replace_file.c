/*
 * replace_file: see replace_file.h.
 */
#include "replace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* A full or failing disk is no mistake of who set this up. */
static enum jr_errc
code_of(int error)
{
	if (error == EACCES || error == EPERM)
		return JR_E_PERM;
	return error == ENOSPC || error == EDQUOT || error == EIO ? JR_E_TEMP : JR_E_CONFIG;
}

static bool
fail(struct jr_err *err, const char *what, const char *path)
{
	return jr_fail(err, code_of(errno), "cannot %s %s: %s", what, path, strerror(errno));
}

/* ".NAME.XXXXXX" beside it. Caller frees. */
static char *
temporary_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;

	return jr_xasprintf("%.*s.%s.XXXXXX", (int)(name - path), path, name);
}

/* Owner and group are changed before the mode: chown may clear bits, and nobody new may read too early. */
static bool
fill(int fd, const struct stat *old, const char *text, size_t len, unsigned mode)
{
	bool same_group =
	    old == NULL || fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;

	if (!same_group && errno != EPERM)
		return false;
	if (old != NULL)
		mode = old->st_mode & (same_group ? 0777 : 0707);
	return fchmod(fd, mode) == 0 && jr_fd_write_all(fd, text, len) && fsync(fd) == 0;
}

bool
jr_replace_file(const char *path, const char *text, size_t len, unsigned mode, struct jr_err *err)
{
	char *name = temporary_name(path);
	struct stat old;
	bool exists = lstat(path, &old) == 0, ok = false;
	int fd = -1;

	if (exists && !S_ISREG(old.st_mode))
		jr_fail(err, JR_E_USAGE, "%s is no regular file", path);
	else if ((fd = mkstemp(name)) < 0)
		fail(err, "create a file beside", path);
	else if (!fill(fd, exists ? &old : NULL, text, len, mode))
		fail(err, "write", path);
	else if (rename(name, path) != 0)
		fail(err, "replace", path);
	else
		ok = true;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !ok)
		unlink(name);
	free(name);
	return ok;
}
