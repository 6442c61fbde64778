/*
 * reach: see reach.h. A child becomes the account and asks. Its exit status is 0, or the number of the name at which
 * the way ends: in the real path; or plus NAMES_MAX in the path as it was given, since its links may lie in, or lead
 * through, other directories.
 */
#include "process/reach.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 127 /* of a path that is looked at */
#define ASK_MS 2000   /* deadline for the child, which its account can stop, and which a dead mount can hold */

/* What is asked about. */
struct way {
	const char *path, *real_path;
	int mode; /* what is needed at the end of the way */
};

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

/* In the child: the number of the first name that is refused, or 0. */
static int
find_refused(const char *path, int mode)
{
	bool is_there = true;

	for (int n = 1; is_there && n <= NAMES_MAX; n++) {
		char *place = jr_xstrdup(path);
		bool refused;

		is_there = cut_behind(place, n);
		refused = is_there && access(place, strcmp(place, path) == 0 ? mode : X_OK) < 0 && errno == EACCES;
		free(place);
		if (refused)
			return n;
	}
	return 0;
}

/* In the child. What cannot be asked is left to the start of the handler. */
static JR_NORETURN void
ask(const struct jr_limits *limits, const struct way *way)
{
	int n;

	if (!jr_limits_become(limits) || access(way->path, way->mode) == 0 || errno != EACCES)
		_exit(0);
	n = find_refused(way->real_path, way->mode);
	if (n > 0)
		_exit(n);
	n = find_refused(way->path, way->mode);
	_exit(n > 0 ? NAMES_MAX + n : 0);
}

static bool
ends_in_time(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	int found;

	if (pidfd < 0)
		return false;
	do
		found = poll(&end, 1, ASK_MS);
	while (found < 0 && errno == EINTR);
	return found > 0;
}

/* The exit status of the child; 0: it was killed. One that a dead mount still holds after that is not waited for. */
static int
end_child(pid_t pid)
{
	int status = 0, pidfd = jr_fd_of_process(pid);
	pid_t ended;

	if (!ends_in_time(pidfd)) {
		(void)kill(pid, SIGKILL);
		(void)ends_in_time(pidfd);
	}
	jr_fd_close(pidfd);
	ended = waitpid(pid, &status, WNOHANG);
	return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* What the child answers. If SIGCHLD is ignored, as cron or a shell may have left it, there would be no status. */
static int
find_end(const struct jr_limits *limits, const struct way *way)
{
	struct sigaction action = {.sa_handler = SIG_DFL}, before;
	int end = 0;
	pid_t pid;

	(void)sigaction(SIGCHLD, &action, &before);
	pid = fork();
	if (pid == 0)
		ask(limits, way);
	if (pid > 0)
		end = end_child(pid);
	(void)sigaction(SIGCHLD, &before, NULL);
	return end;
}

/* The interpreter of a script must read it, too. */
static int
mode_for(const char *path)
{
	char bytes[2] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is_script = fd >= 0 && read(fd, bytes, sizeof(bytes)) == 2 && memcmp(bytes, "#!", 2) == 0;

	jr_fd_close(fd);
	return is_script ? X_OK | R_OK : X_OK;
}

static bool
fail_at(const char *place, const char *user, const char *path, struct jr_err *err)
{
	struct stat st;
	bool is_file = stat(place, &st) == 0 && S_ISREG(st.st_mode);

	if (lstat(place, &st) == 0 && S_ISLNK(st.st_mode))
		return jr_fail(err, JR_E_CONFIG,
		    "account %s cannot reach %s: the symbolic link %s leads through a directory that it cannot enter: see namei -l %s",
		    user, path, place, place);
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
	char *real_path = limits->has_account ? realpath(path, NULL) : NULL, *place;
	int end = 0;
	bool ok;

	if (real_path == NULL)
		return true;
	end = find_end(limits, &(struct way){.path = path, .real_path = real_path, .mode = mode_for(real_path)});
	place = jr_xstrdup(end > NAMES_MAX ? path : real_path);
	ok = end == 0 || !cut_behind(place, end > NAMES_MAX ? end - NAMES_MAX : end) || fail_at(place, user, path, err);
	free(place);
	free(real_path);
	return ok;
}
