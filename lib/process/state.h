/*
 * state: jobrun's private directories on this host, and the permits in them.
 *
 * A permit is the right to run one handler of a pool on this host: an executable, an http request, a statement,
 * housekeeping. Each pool has files of its own. Permit i is a record lock (fcntl F_SETLK) on byte i of a
 * file. So the count is exact among any number of runners, and the kernel frees a permit when its runner dies. Record
 * locks belong to the process and children do not inherit them; the descriptors are close-on-exec all the same. This
 * process must never open another descriptor on such a file: closing it would drop the locks.
 *
 * Where everybody can create directories, somebody else may have created ours first. So there are several directories,
 * and a permit counts only if its byte is locked in each directory that is ours and safe. Two runners share their
 * permits as long as they have one directory in common.
 *
 * A directory is safe if it has mode 0700, the caller owns it, it is no symbolic link, it is on a local file system
 * (the server of a network file system may be unreachable), and nobody else can change its parents. (Whoever names a
 * directory with --state-dir has chosen its parents.)
 */
#ifndef JR_STATE_H
#define JR_STATE_H

#include "base/err.h"

#define JR_STATE_MAX 4

struct jr_state {
	char *directories[JR_STATE_MAX];
	size_t count; /* at least 1 */
};

/*
 * Find the directories, and create the missing ones: `option` (--state-dir) alone if not NULL, else JOBRUN_STATE_DIR
 * alone, else /run/jobrun (root), /run/lock/jobrun-UID, ~/.local/state/jobrun and /tmp/jobrun-UID. If one of these four
 * is not safe or cannot be created, it is skipped with a line in the log. JR_E_CONFIG: none is left, or the one that
 * option or variable names is not safe.
 */
bool jr_state_open(struct jr_state *state, const char *option, struct jr_err *err) JR_MUST;

/* The same, but nothing is created: a directory that is missing counts if it could be. */
bool jr_state_look(struct jr_state *state, const char *option, struct jr_err *err) JR_MUST;
void jr_state_release(struct jr_state *state);

/* Does this f_type of statfs(2) mean a network file system? Exported for its unit test. */
bool jr_state_is_network(uint32_t type);

/* All zero: not open. */
struct jr_permits {
	int fds[JR_STATE_MAX]; /* one file in each directory */
	size_t fd_count;
	size_t total;
	size_t held_count;
	bool *held; /* for each permit: does this process hold it? */
};

/*
 * `name` identifies the database: a hash of it is the file's name. total: 1..JR_PERMITS_MAX. A directory in which the
 * file cannot be opened or locked is skipped with a line in the log. false: no directory is left.
 */
bool jr_permits_open(struct jr_permits *permits, const struct jr_state *state, const char *name, size_t total,
    struct jr_err *err) JR_MUST;
void jr_permits_close(struct jr_permits *permits); /* gives all permits back; harmless if not open */

/* Take up to `wanted` more permits. Returns how many were taken. Never blocks. */
size_t jr_permits_take(struct jr_permits *permits, size_t wanted);

/* Give back `count` of the permits that are held. */
void jr_permits_give(struct jr_permits *permits, size_t count);

/*
 * A file in `directory` remembers between runners that the database cannot be reached. So cron mails such a failure
 * when it begins, after 10 minutes, after an hour and every six hours, and then the recovery once.
 *
 * jr_state_away: should this failure be printed now? A failure with another `what` is a new one. *since_ms: how long it
 * has lasted by the wall clock. If the file cannot be written: true.
 * jr_state_back: true once after such failures. If the file cannot be removed: false.
 */
bool jr_state_away(const char *directory, const char *name, const char *what, int64_t *since_ms);
bool jr_state_back(const char *directory, const char *name, int64_t *since_ms);

#endif
