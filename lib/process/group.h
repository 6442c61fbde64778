/*
 * group: end what a handler has started: its process group, or its whole session.
 *
 * A handler leads a session and the first process group in it, which have its process id as their number. A program may
 * make a group of its own in the session: timeout(1), a shell with `set -m`, GNU parallel. When a handler ends by
 * itself, its first group is killed. When it is stopped, the other groups are, too, or what it has begun would go on
 * beside the next attempt. They are found in /proc, whose every process is read: too much for each short handler. What
 * has left the session is not found; a PID namespace holds that, too (isolate.h).
 *
 * The number of a session or group is given to no other process while one is in it.
 */
#ifndef JR_GROUP_H
#define JR_GROUP_H

#include "base/base.h"

/* Signal the group. After TERM it gets CONT, since a stopped process gets TERM only when it continues. */
void jr_group_signal(int64_t group, int signo);

struct jr_session {
	int64_t number;
	int signo;   /* for its other groups */
	bool others; /* did a process run in one of them? */
};

/*
 * Signal the groups of these sessions but for the first ones, and set `others` of each: one look at all processes. Each
 * of them gets its signal once (where there are hundreds of groups, perhaps more often).
 * Without a /proc that shows the processes of this process's namespace there are none.
 */
void jr_sessions_signal_others(struct jr_session *sessions, size_t count);

/* Signal all groups of the session. */
void jr_session_signal(int64_t session, int signo);

/*
 * Send KILL to the rest of the group, reap the processes that are our children, and return true if none of the group
 * runs any more. The leader must have been reaped. Zombies do not count as running: process 1 has to reap orphans,
 * which may take long or never happen (an application as process 1 of a container). /proc tells zombies from running
 * processes; without /proc the group counts as running until they are reaped.
 */
bool jr_group_is_gone(int64_t group);

#endif
