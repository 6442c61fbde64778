/*
 * state: the private directory of jobrun on this host, and what is kept in it.
 *
 * The directory is looked at without following a link at its end, and used only if nobody else can
 * write to it. Places are single bytes of one file, locked by fcntl; "database away" is one short
 * line in another file, changed under a lock that is only tried. What must hold: a lock file is
 * opened once in a process (closing any descriptor of it would drop all places), and no function
 * here ever waits.
 */
#include "process/state.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the directory --- */

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
	return true;
}

/* Whether mkdir's errno says that directories cannot be made there, and another place may do. */
static bool
is_elsewhere(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES || errnum == EPERM || errnum == EROFS;
}

/* Make it if need be. *elsewhere: it could not be made here. */
static bool
make_directory(const char *path, bool *elsewhere, struct jr_err *err)
{
	*elsewhere = false;
	if (mkdir(path, 0700) < 0 && errno != EEXIST) {
		*elsewhere = is_elsewhere(errno);
		return jr_fail(err, JR_E_CONFIG,
		    "cannot make the state directory %s: %s; name another with --state-dir", path, strerror(errno));
	}
	return check_directory(path, err);
}

/* An environment variable, NULL if it is empty too. */
static const char *
setting(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The path with the slashes at its end taken off: lstat would follow a link in front of one. */
static char *
directory_path(const char *given)
{
	char *path = jr_xstrdup(given);
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	return path;
}

static char *
chosen_directory(const char *given, bool *elsewhere, struct jr_err *err)
{
	char *path = directory_path(given);

	if (make_directory(path, elsewhere, err))
		return path;
	free(path);
	return NULL;
}

char *
jr_state_directory(const char *option, struct jr_err *err)
{
	const char *given = option != NULL ? option : setting("JOBRUN_STATE_DIR");
	const char *tmp = setting("TMPDIR");
	bool elsewhere;
	char *standard, *path;

	if (given != NULL)
		return chosen_directory(given, &elsewhere, err);
	standard = jr_xasprintf("/run/lock/jobrun-%u", geteuid());
	path = chosen_directory(standard, &elsewhere, err);
	free(standard);
	if (path != NULL || !elsewhere)
		return path;
	standard = jr_xasprintf("%s/jobrun-%u", tmp != NULL ? tmp : "/tmp", geteuid());
	path = chosen_directory(standard, &elsewhere, err);
	free(standard);
	return path;
}

/* --- files in it --- */

/* FNV-1a: a short name for a file; the directory is private, so nobody looks for collisions. */
static uint64_t
hash(const char *s)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001B3);
	return h;
}

static char *
file_path(const char *directory, const char *name, const char *ending)
{
	return jr_xasprintf("%s/%016llx.%s", directory, (unsigned long long)hash(name), ending);
}

/* --- places --- */

static bool
set_lock(int fd, short type, size_t place)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
	int rc;

	do {
		rc = fcntl(fd, F_SETLK, &lock);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

bool
jr_places_open(struct jr_places *places, const char *directory, const char *name, size_t total, struct jr_err *err)
{
	char *path = file_path(directory, name, "places");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	assert(total >= 1 && total <= JR_PLACES_MAX);
	if (fd < 0) {
		jr_fail(err, JR_E_CONFIG, "cannot open %s: %s", path, strerror(errno));
		free(path);
		return false;
	}
	free(path);
	(void)futimens(fd, NULL); /* so that nothing that clears old files away takes it */
	*places = (struct jr_places){.fd = fd, .total = total, .held = jr_xcalloc(total, sizeof(bool))};
	return true;
}

void
jr_places_close(struct jr_places *places)
{
	if (places->held == NULL)
		return;
	(void)close(places->fd);
	free(places->held);
	*places = (struct jr_places){.fd = -1};
}

size_t
jr_places_take(struct jr_places *places, size_t wanted)
{
	size_t taken = 0;

	for (size_t i = 0; i < places->total && taken < wanted; i++) {
		if (places->held[i] || !set_lock(places->fd, F_WRLCK, i))
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
		(void)set_lock(places->fd, F_UNLCK, i - 1);
		places->held[i - 1] = false;
		places->held_count--;
		count--;
	}
}

/* --- database away --- */

/*
 * The line in the file: since when, how many of the thresholds have been printed, and a hash of
 * what was. Always the same length.
 */
#define AWAY_FORMAT "%020lld %010lld %016llx\n"
#define AWAY_SINCE_LEN 20
#define AWAY_STAGE_END 31
#define AWAY_LEN 49

struct away {
	int64_t since_ms; /* wall clock */
	int64_t stage;
	uint64_t what;
};

/* 0 at once, 1 after ten minutes, 2 after an hour, then one more every six hours. */
static int64_t
away_stage(int64_t age_ms)
{
	const int64_t minute = 60000, hour = 60 * minute;

	if (age_ms < 10 * minute)
		return 0;
	return age_ms < hour ? 1 : 2 + age_ms / (6 * hour);
}

/*
 * false if there is no such line, or one that cannot be true: a failure that begins in the future.
 */
static bool
read_away(int fd, int64_t now_ms, struct away *away)
{
	char line[AWAY_LEN + 1] = "";
	struct jr_err ignored;
	char *end;

	if (pread(fd, line, AWAY_LEN, 0) != AWAY_LEN || line[AWAY_SINCE_LEN] != ' ' || line[AWAY_STAGE_END] != ' ' ||
	    line[AWAY_LEN - 1] != '\n')
		return false;
	line[AWAY_SINCE_LEN] = '\0';
	line[AWAY_STAGE_END] = '\0';
	away->what = strtoull(line + AWAY_STAGE_END + 1, &end, 16);
	if (end != line + AWAY_LEN - 1)
		return false;
	return jr_parse_int("since", line, 0, now_ms, &away->since_ms, &ignored) &&
	       jr_parse_int("stage", line + AWAY_SINCE_LEN + 1, 0, INT32_MAX, &away->stage, &ignored);
}

static bool
write_away(int fd, const struct away *away)
{
	char line[AWAY_LEN + 16];
	int len = snprintf(line, sizeof(line), AWAY_FORMAT, (long long)away->since_ms, (long long)away->stage,
	    (unsigned long long)away->what);

	return len == AWAY_LEN && pwrite(fd, line, AWAY_LEN, 0) == AWAY_LEN;
}

bool
jr_state_away(const char *directory, const char *name, const char *what, int64_t *since_ms)
{
	int64_t now_ms = jr_clock_wall_ms();
	char *path = file_path(directory, name, "away");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct away away, fresh = {.since_ms = now_ms, .what = hash(what)};
	bool is_due = true;

	free(path);
	*since_ms = 0;
	if (fd < 0)
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		is_due = errno != EWOULDBLOCK; /* another runner prints it just now */
	} else if (!read_away(fd, now_ms, &away) || away.what != fresh.what) {
		(void)write_away(fd, &fresh);
	} else {
		int64_t stage = away_stage(now_ms - away.since_ms);

		*since_ms = now_ms - away.since_ms;
		is_due = stage > away.stage;
		away.stage = stage;
		if (is_due)
			(void)write_away(fd, &away);
	}
	(void)close(fd);
	return is_due;
}

bool
jr_state_back(const char *directory, const char *name, int64_t *since_ms)
{
	int64_t now_ms = jr_clock_wall_ms();
	char *path = file_path(directory, name, "away");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct away away = {.since_ms = now_ms};
	bool is_news;

	*since_ms = 0;
	if (fd >= 0) {
		if (!read_away(fd, now_ms, &away))
			away.since_ms = now_ms;
		*since_ms = now_ms - away.since_ms;
		(void)close(fd);
	}
	is_news = fd >= 0 && unlink(path) == 0; /* of several runners one gets to remove it */
	free(path);
	return is_news;
}
