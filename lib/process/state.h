/*
 * state: the private directory of jobrun on this host, and the places in it.
 *
 * A place is the right to run one exec handler on this host: byte i of a file, held by a record lock (fcntl F_SETLK),
 * exact among any number of runners and freed by the kernel when a runner dies. Record locks belong to the process and
 * are not inherited by children; the descriptor is close-on-exec all the same. No other descriptor of this process may
 * ever be opened on that file: closing it would drop the locks.
 *
 * The directory is private: 0700, owned by the caller, no symbolic link.
 */
#ifndef JR_STATE_H
#define JR_STATE_H

#include "base/err.h"

/*
 * Open the directory: `option` (--state-dir) if not NULL, else JOBRUN_STATE_DIR, else /run/lock/jobrun-UID, else (where
 * /run/lock cannot be written) $TMPDIR or /tmp/jobrun-UID. Made if it does not exist. Caller frees. NULL on failure,
 * JR_E_CONFIG.
 */
char *jr_state_directory(const char *option, struct jr_err *err) JR_MUST;

struct jr_places {
	int fd;
	size_t total;
	size_t held_count;
	bool *held; /* by this process */
};

/* `name` tells databases apart: a hash of it is the file's name. total: 1..JR_PLACES_MAX. */
bool jr_places_open(
    struct jr_places *places, const char *directory, const char *name, size_t total, struct jr_err *err) JR_MUST;
void jr_places_close(struct jr_places *places);

/* Take up to `wanted` more places; how many were had. Never blocks. */
size_t jr_places_take(struct jr_places *places, size_t wanted);

/* Give back `count` of those held. */
void jr_places_give(struct jr_places *places, size_t count);

/*
 * The memory of "database away" between ticks, so that cron's mail says it first, then after 10 minutes, an hour and
 * every six hours, and its recovery once. jr_state_away: should this failure be printed now (another text of `what` is
 * another failure)? *since_ms: how long it has lasted by the wall clock. jr_state_back: true once after failures of
 * which one was printed. If the directory cannot be written: true, and false.
 */
bool jr_state_away(const char *directory, const char *name, const char *what, int64_t *since_ms);
bool jr_state_back(const char *directory, const char *name, int64_t *since_ms);

#endif
