/*
 * state_away: remember when a failure to reach the database was last printed (state.h).
 *
 * The memory is one short line in a file of the state directory. It is changed under a lock that is tried and never
 * waited for. What must hold: no function here waits.
 */
#include "process/state_parts.h"

#include "base/clock.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/*
 * The line in the file: when the failure began, the last threshold that was printed, and a hash of the failure. It
 * always has the same length.
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

/* The threshold that an age has reached: 0 at once, 1 after ten minutes, 2 after an hour, one more every six hours. */
static int64_t
away_stage(int64_t age_ms)
{
	const int64_t minute = 60000, hour = 60 * minute;

	if (age_ms < 10 * minute)
		return 0;
	return age_ms < hour ? 1 : 2 + age_ms / (6 * hour);
}

/* false if there is no such line or it is not valid, for example because it begins in the future. */
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
	char *path = jr_state_file(directory, name, "away");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct away away, fresh = {.since_ms = now_ms, .what = jr_state_hash(what)};
	bool is_due = true;

	free(path);
	*since_ms = 0;
	if (fd < 0)
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		is_due = errno != EWOULDBLOCK; /* EWOULDBLOCK: another runner is just printing it */
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
	char *path = jr_state_file(directory, name, "away");
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
	is_news = fd >= 0 && unlink(path) == 0; /* only one of several runners can remove it */
	free(path);
	return is_news;
}
