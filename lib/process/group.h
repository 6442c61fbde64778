/*
 * group: has a process group that was killed ended?
 */
#ifndef JR_GROUP_H
#define JR_GROUP_H

#include "base/base.h"

/*
 * Send KILL to the rest of the group, reap the processes that are our children, and return true if none of the group
 * runs any more. The leader must have been reaped. Zombies do not count as running: process 1 has to reap orphans,
 * which may take long or never happen (an application as process 1 of a container). /proc tells zombies from running
 * processes; without /proc the group counts as running until they are reaped.
 */
bool jr_group_is_gone(int64_t group);

#endif
