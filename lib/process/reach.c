/*
 * reach: see reach.h. A child becomes the account and asks. Its exit status is 0, or the number of the name in the real
 * path at which the way ends.
 */
#include "process/reach.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 200 /* of a path that is looked at */

/* Cut the path behind its name number n. false: it has not so many. */
static bool
cut_behind(char *path, int n)
{
	for (int i = 0; i < n; i++) {
		path += strspn(path, "/");
		if (*path == '\0')
			return false;
		path += strcspn(path, "/");
	}
	*path = '\0';
	return true;
}

/* In the child. What cannot be asked is left to the start of the handler. */
static JR_NORETURN void
ask(const struct jr_limits *limits, const char *path, const char *real_path)
{
	if (!jr_limits_become(limits) || access(path, X_OK) == 0 || errno != EACCES)
		_exit(0);
	for (int n = 1; n <= NAMES_MAX; n++) {
		char *place = jr_xstrdup(real_path);

		if (!cut_behind(place, n))
			_exit(0);
		if (access(place, X_OK) < 0 && errno == EACCES)
			_exit(n);
		free(place);
	}
	_exit(0);
}

/* The number of the name at which the way ends, or 0. */
static int
find_end(const struct jr_limits *limits, const char *path, const char *real_path)
{
	int status = 0;
	pid_t ended, pid = fork();

	if (pid == 0)
		ask(limits, path, real_path);
	if (pid < 0)
		return 0;
	do
		ended = waitpid(pid, &status, 0);
	while (ended < 0 && errno == EINTR);
	return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static bool
fail_at(const char *place, const char *user, const char *path, struct jr_err *err)
{
	struct stat st;
	bool is_file = stat(place, &st) == 0 && S_ISREG(st.st_mode);

	if (is_file)
		return jr_fail(err, JR_E_CONFIG, "account %s cannot execute %s: %s: chmod a+rx %s", user, path,
		    strerror(EACCES), place);
	if (strcmp(place, path) == 0)
		return jr_fail(err, JR_E_CONFIG, "account %s cannot enter %s: %s: chmod a+x %s", user, path,
		    strerror(EACCES), place);
	return jr_fail(err, JR_E_CONFIG,
	    "account %s cannot reach %s, since it cannot enter %s: chmod a+x %s, or keep it elsewhere", user, path,
	    place, place);
}

bool
jr_reach_check(const struct jr_limits *limits, const char *user, const char *path, struct jr_err *err)
{
	char *real_path = limits->has_account ? realpath(path, NULL) : NULL;
	int end = real_path == NULL ? 0 : find_end(limits, path, real_path);
	bool ok = end == 0 || !cut_behind(real_path, end) || fail_at(real_path, user, path, err);

	free(real_path);
	return ok;
}
