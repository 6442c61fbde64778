/*
 * state: the private directories of jobrun on this host, and the permits in them.
 *
 * A permit is the right to run one exec handler on this host: byte i of a file, held by a record lock (fcntl F_SETLK),
 * exact among any number of runners and freed by the kernel when a runner dies. Record locks belong to the process and
 * are not inherited by children; the descriptors are close-on-exec all the same. No other descriptor of this process
 * may ever be opened on such a file: closing it would drop the locks.
 *
 * Where everybody may make directories, somebody else may have made ours first. So there are several, and a permit is
 * held only with its byte locked in each that is ours and safe: runners count together as long as they have one of them
 * in common, whatever was there when they were started.
 *
 * A directory is safe if it is 0700, owned by the caller, no symbolic link, on this host (no network file system, whose
 * server may be away), and below parents that nobody else can change. (Whoever names one has chosen its parents.)
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
 * Find the directories, and make those that are missing: `option` (--state-dir) alone if not NULL, else
 * JOBRUN_STATE_DIR alone, else /run/jobrun (root), /run/lock/jobrun-UID, ~/.local/state/jobrun and /tmp/jobrun-UID. Of
 * these four one that is not safe or cannot be made is passed over, with a line of the log. false: none is left, or the
 * one that was named is not safe; JR_E_CONFIG.
 */
bool jr_state_open(struct jr_state *state, const char *option, struct jr_err *err) JR_MUST;
void jr_state_release(struct jr_state *state);

/* Is this number of statfs(2) that of a network file system? */
bool jr_state_is_network(uint32_t type);

/* All zero: not open. */
struct jr_permits {
	int fds[JR_STATE_MAX]; /* of one file in each directory */
	size_t fd_count;
	size_t total;
	size_t held_count;
	bool *held; /* by this process */
};

/*
 * `name` tells databases apart: a hash of it is the file's name. total: 1..JR_PERMITS_MAX. A directory in which the
 * file cannot be had is passed over, with a line of the log; false if that is each of them.
 */
bool jr_permits_open(struct jr_permits *permits, const struct jr_state *state, const char *name, size_t total,
    struct jr_err *err) JR_MUST;
void jr_permits_close(struct jr_permits *permits); /* what is not open is fine */

/* Take up to `wanted` more permits; how many were had. Never blocks. */
size_t jr_permits_take(struct jr_permits *permits, size_t wanted);

/* Give back `count` of those held. */
void jr_permits_give(struct jr_permits *permits, size_t count);

/*
 * The memory of "database away" between ticks, in one directory (the first), so that cron's mail says it first, then
 * after 10 minutes, an hour and every six hours, and its recovery once. jr_state_away: should this failure be printed
 * now (another text of `what` is another failure)? *since_ms: how long it has lasted by the wall clock. jr_state_back:
 * true once after failures of which one was printed. If the directory cannot be written: true, and false.
 */
bool jr_state_away(const char *directory, const char *name, const char *what, int64_t *since_ms);
bool jr_state_back(const char *directory, const char *name, int64_t *since_ms);

#endif
