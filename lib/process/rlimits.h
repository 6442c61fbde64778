/*
 * rlimits: the limits and the account of a child, set between vfork and execve.
 */
#ifndef JR_RLIMITS_H
#define JR_RLIMITS_H

#include <sys/types.h>

#include "base/base.h"

/* -1: inherited. Sizes are bytes. */
struct jr_limits {
	int64_t cpu_s;     /* RLIMIT_CPU: SIGXCPU at the limit, KILL one second later */
	int64_t memory;    /* RLIMIT_AS */
	int64_t files;     /* RLIMIT_NOFILE */
	int64_t processes; /* RLIMIT_NPROC: the kernel counts all processes of the account */
	bool has_nice;
	int nice; /* the value itself, not an increment */

	bool no_new_privs; /* set-user-ID, set-group-ID and file capabilities have no effect */

	/* Another account; only root can change to one. The parent looks it up, since the child may not. */
	bool has_account;
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* all groups of the account; owned by the caller that looked them up */
	size_t group_count;
};

/* In the order in which they are set. Memory is last, since after it the stack may not grow any more. */
enum jr_limit {
	JR_LIMIT_CPU,
	JR_LIMIT_FILES,
	JR_LIMIT_PROCESSES,
	JR_LIMIT_MEMORY,
	JR_LIMIT_COUNT
};

/*
 * All functions are async-signal-safe, for a child that shares the memory of its parent. false: errno says why.
 *
 * jr_limits_raise raises hard limits, which only root can do, and so comes before the change of account. jr_limits_set
 * sets the limits at the end; a lower hard limit that is inherited stays, since a limit is the most a child may use.
 */
bool jr_limits_set_nice(const struct jr_limits *limits) JR_MUST;
void jr_limits_raise(const struct jr_limits *limits);
bool jr_limits_become(const struct jr_limits *limits) JR_MUST; /* set no_new_privs and the account */
bool jr_limits_set(const struct jr_limits *limits, enum jr_limit which) JR_MUST;

#endif
