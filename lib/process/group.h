/*
 * group: is anybody left of a process group that was killed?
 */
#ifndef JR_GROUP_H
#define JR_GROUP_H

#include "base/base.h"

/*
 * Send KILL to whoever is left of the group, reap those that are ours, and say whether nobody of it runs any more. The
 * leader must have been reaped. Zombies do not run: those that were orphaned are for process 1 to reap, which may take
 * its time, or never do it (an application as process 1 of a container). They are told by /proc; without one the group
 * counts as running until they are reaped.
 */
bool jr_group_is_gone(int64_t group);

#endif
