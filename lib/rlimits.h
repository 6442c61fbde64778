/*
 * rlimits: what a child may use and who it is, set between vfork and execve.
 */
#ifndef JR_RLIMITS_H
#define JR_RLIMITS_H

#include <sys/types.h>

#include "base.h"

/* -1: as it is inherited. Sizes are bytes. */
struct jr_limits {
	int64_t cpu_s;     /* RLIMIT_CPU: XCPU at it, KILL one second later */
	int64_t memory;    /* RLIMIT_AS */
	int64_t files;     /* RLIMIT_NOFILE */
	int64_t processes; /* RLIMIT_NPROC: of the whole account, as the kernel counts */
	bool has_nice;
	int nice; /* the value itself, not an increment */

	/* Another account; only root can start a child as one. Looked up before, since nothing may be looked up in a child. */
	bool has_account;
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* all of them; owned by whoever looked them up */
	size_t group_count;
};

#endif
