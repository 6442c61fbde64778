/*
 * state: find the private directories (state.h).
 *
 * A directory is checked without following a symbolic link at its end, and used only if nobody else can write to it. If
 * a user named it and it is not safe, that is an error that says what to type. The default directories are in places
 * where others may have created them first: if one is not safe it is skipped, so that nobody can stop our runners.
 */
#include "process/state_parts.h"

#include "base/log.h"
#include "base/mem.h"
#include "process/perm.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

uint64_t
jr_state_hash(const char *text)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
	return h;
}

char *
jr_state_file(const char *directory, const char *name, const char *ending)
{
	return jr_xasprintf("%s/%016llx.%s", directory, (unsigned long long)jr_state_hash(name), ending);
}

/* --- is it safe? --- */

/*
 * The file systems that stat(1) calls remote, with the numbers of <linux/magic.h> and of their own sources. FUSE is not
 * among them: many containers have it as their root, and its locks are local unless the file system implements them.
 */
bool
jr_state_is_network(uint32_t type)
{
	static const uint32_t types[] = {
	    0x6969,     /* NFS */
	    0x517B,     /* SMB */
	    0xFE534D42, /* SMB 2 */
	    0xFF534D42, /* CIFS */
	    0x5346414F, /* AFS */
	    0x6B414653, /* AFS of the kernel */
	    0x73757245, /* Coda */
	    0x564C,     /* NCP */
	    0x01021997, /* 9P */
	    0x00C36400, /* Ceph */
	    0x01161970, /* GFS 2 */
	    0x7461636F, /* OCFS 2 */
	    0x47504653, /* GPFS */
	    0x0BD00BD0, /* Lustre */
	    0x19830326, /* BeeGFS */
	    0xAAD7AAEA, /* PanFS */
	    0x61636673, /* ACFS */
	    0x013111A8, /* IBRIX */
	    0xBEEFDEAD, /* SNFS */
	    0x786F4256, /* shared folders of VirtualBox, */
	    0xBACBACBC, /* of VMware, */
	    0x7C7C6673, /* and of Parallels */
	};

	for (size_t i = 0; i < JR_COUNT(types); i++) {
		if (types[i] == type)
			return true;
	}
	return false;
}

static bool
check_file_system(const char *what, const char *path, struct jr_err *err)
{
	struct statfs fs;

	if (statfs(path, &fs) == 0 && !jr_state_is_network((uint32_t)fs.f_type))
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "%s %s is on a network file system; name a directory of this host with --state-dir", what, path);
}

static bool
check_directory(const char *path, struct jr_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot look at the state directory %s: %s", path, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return jr_fail(err, JR_E_CONFIG,
		    "state directory %s is a symbolic link; name the directory itself with --state-dir", path);
	if (!S_ISDIR(st.st_mode))
		return jr_fail(
		    err, JR_E_CONFIG, "state directory %s is not a directory; name another with --state-dir", path);
	if (st.st_uid != geteuid())
		return jr_fail(err, JR_E_CONFIG,
		    "state directory %s belongs to user %u, not to user %u; type: chown %u %s, or name another with --state-dir",
		    path, st.st_uid, geteuid(), geteuid(), path);
	if ((st.st_mode & S_ISVTX) != 0)
		return jr_fail(err, JR_E_CONFIG,
		    "state directory %s is everybody's; name one of your own, such as %s/jobrun", path, path);
	if ((st.st_mode & 077) != 0)
		return jr_fail(err, JR_E_CONFIG, "state directory %s is open to others (mode %04o); type: chmod 700 %s",
		    path, st.st_mode & 07777, path);
	return check_file_system("state directory", path, err);
}

/* Is it missing, and could we create it, and up to `levels` - 1 directories above it? */
static bool
could_be_made(const char *path, int levels)
{
	char *above = jr_xstrdup(path), *slash;
	struct stat st;
	bool missing = lstat(path, &st) < 0 && errno == ENOENT;

	for (int i = 0; missing && i < levels && (slash = strrchr(above, '/')) != NULL; i++) {
		*slash = '\0';
		if (lstat(above[0] == '\0' ? "/" : above, &st) == 0) {
			missing = eaccess(above[0] == '\0' ? "/" : above, W_OK | X_OK) == 0;
			free(above);
			return missing;
		}
		missing = errno == ENOENT;
	}
	free(above);
	return false;
}

/* Whoever only looks opens no file in it, and would not notice. */
static bool
check_writable(const char *path, struct jr_err *err)
{
	return eaccess(path, W_OK | X_OK) == 0 ||
	       jr_fail(err, JR_E_CONFIG, "cannot write to the state directory %s: %s; name another with --state-dir",
		   path, strerror(errno));
}

/* Create it if it is missing and may be made, and check it. */
static bool
have_directory(const char *path, bool may_make, struct jr_err *err)
{
	if (!may_make && could_be_made(path, 1))
		return true;
	if (may_make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return jr_fail(err, JR_E_CONFIG,
		    "cannot make the state directory %s: %s; name another with --state-dir", path, strerror(errno));
	return check_directory(path, err) && (may_make || check_writable(path, err));
}

/* --- a directory that the user named --- */

/* The value of an environment variable; NULL if it is not set or empty. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The path without slashes at its end: lstat follows a symbolic link before a slash. */
static char *
directory_path(const char *given)
{
	char *path = jr_xstrdup(given);
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	return path;
}

/* --- the default directories --- */

/* HOME, or if it is not set the account's home directory. Caller frees; NULL: there is none. */
static char *
home_directory(void)
{
	const char *home = variable("HOME");
	const struct passwd *account = home == NULL ? getpwuid(geteuid()) : NULL;

	if (account != NULL)
		home = account->pw_dir;
	return home != NULL && home[0] == '/' ? jr_xstrdup(home) : NULL;
}

/*
 * Create ~/.local/state/jobrun and missing directories above it. First check that the home directory is safe, so that
 * root leaves no directories in another user's home.
 */
static bool
have_home_directory(char **path, bool may_make, struct jr_err *err)
{
	static const char *const ways[] = {".local", ".local/state"};
	char *home = home_directory();
	bool ok = home != NULL ? jr_perm_check_directory(home, err) && check_file_system("home directory", home, err)
			       : jr_fail(err, JR_E_CONFIG, "there is no home directory for ~/.local/state/jobrun");

	for (size_t i = 0; ok && may_make && i < JR_COUNT(ways); i++) {
		char *way = jr_xasprintf("%s/%s", home, ways[i]);

		(void)mkdir(way, 0700);
		free(way);
	}
	if (ok) {
		*path = jr_xasprintf("%s/.local/state/jobrun", home);
		ok = (!may_make && could_be_made(*path, JR_COUNT(ways) + 1)) || have_directory(*path, may_make, err);
	}
	free(home);
	return ok;
}

enum candidate {
	OF_ROOT,
	OF_RUN_LOCK,
	OF_HOME,
	OF_TMP,
	CANDIDATE_COUNT
};

_Static_assert(CANDIDATE_COUNT == JR_STATE_MAX, "room for all candidates");

/* The path, or NULL and the reason why it cannot be used. Caller frees. */
static char *
find_candidate(enum candidate which, bool may_make, struct jr_err *err)
{
	char *path = NULL;
	bool ok;

	if (which == OF_HOME) {
		ok = have_home_directory(&path, may_make, err);
	} else {
		path = which == OF_ROOT
			   ? jr_xstrdup("/run/jobrun")
			   : jr_xasprintf("%s/jobrun-%u", which == OF_TMP ? "/tmp" : "/run/lock", geteuid());
		ok = have_directory(path, may_make, err);
	}
	if (ok && ((!may_make && access(path, F_OK) < 0) || jr_perm_check_directory(path, err)))
		return path;
	free(path);
	return NULL;
}

static bool
find_candidates(struct jr_state *state, bool may_make, struct jr_err *err)
{
	char *reasons = jr_xstrdup("");

	for (int which = geteuid() == 0 ? OF_ROOT : OF_RUN_LOCK; which < CANDIDATE_COUNT; which++) {
		struct jr_err why;
		char *path = find_candidate((enum candidate)which, may_make, &why), *longer;

		if (path != NULL) {
			jr_log(JR_INFO, JR_EVENT_STATE_DIRECTORY, JR_S("path", path));
			state->directories[state->count++] = path;
			continue;
		}
		jr_log(JR_INFO, JR_EVENT_STATE_PASSED_OVER, JR_S("reason", why.msg));
		longer = jr_xasprintf("%s; %.220s", reasons, why.msg);
		free(reasons);
		reasons = longer;
	}
	if (state->count == 0)
		jr_fail(err, JR_E_CONFIG,
		    "there is no directory for the permits of this host; name one of your own with --state-dir or JOBRUN_STATE_DIR%s",
		    reasons);
	free(reasons);
	return state->count > 0;
}

static bool
find(struct jr_state *state, const char *option, bool may_make, struct jr_err *err)
{
	const char *given = option != NULL ? option : variable("JOBRUN_STATE_DIR");

	*state = (struct jr_state){.count = 0};
	if (given == NULL)
		return find_candidates(state, may_make, err);
	state->directories[state->count++] = directory_path(given);
	if (have_directory(state->directories[0], may_make, err))
		return true;
	jr_state_release(state);
	return false;
}

bool
jr_state_open(struct jr_state *state, const char *option, struct jr_err *err)
{
	return find(state, option, true, err);
}

bool
jr_state_look(struct jr_state *state, const char *option, struct jr_err *err)
{
	return find(state, option, false, err);
}

void
jr_state_release(struct jr_state *state)
{
	for (size_t i = 0; i < state->count; i++)
		free(state->directories[i]);
	*state = (struct jr_state){.count = 0};
}
