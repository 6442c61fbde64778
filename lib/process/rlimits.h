/*
 * rlimits: what a child may use and who it is, set between vfork and execve.
 */
#ifndef JR_RLIMITS_H
#define JR_RLIMITS_H

#include <sys/types.h>

#include "base/base.h"

/* -1: as it is inherited. Sizes are bytes. */
struct jr_limits {
	int64_t cpu_s;     /* RLIMIT_CPU: XCPU at it, KILL one second later */
	int64_t memory;    /* RLIMIT_AS */
	int64_t files;     /* RLIMIT_NOFILE */
	int64_t processes; /* RLIMIT_NPROC: of the whole account, as the kernel counts */
	bool has_nice;
	int nice; /* the value itself, not an increment */

	bool no_new_privs; /* set-user-ID, set-group-ID and capabilities of files give it nothing */

	/*
	 * Another account; only root can start a child as one. Looked up before, since nothing may be looked up in a
	 * child.
	 */
	bool has_account;
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* all of them; owned by whoever looked them up */
	size_t group_count;
};

/* In the order in which they are set: the last one may forbid the stack to grow. */
enum jr_limit {
	JR_LIMIT_CPU,
	JR_LIMIT_FILES,
	JR_LIMIT_PROCESSES,
	JR_LIMIT_MEMORY,
	JR_LIMIT_COUNT
};

/*
 * For a child that shares the memory of its parent: async-signal-safe. Where it returns bool, false: errno says why.
 *
 * A limit is the most that the child may use, so a hard one that is lower already is kept: only root gets more than
 * what is inherited, with jr_limits_raise, before it becomes another account. Then nothing can be had back:
 * jr_limits_set.
 */
bool jr_limits_set_nice(const struct jr_limits *limits) JR_MUST;
void jr_limits_raise(const struct jr_limits *limits);
bool jr_limits_become(
    const struct jr_limits *limits) JR_MUST; /* the account, no_new_privs; for good, or it is a failure */
bool jr_limits_set(const struct jr_limits *limits, enum jr_limit which) JR_MUST;

#endif
