/*
 * rlimits: what a child may use and who it is, set between vfork and execve.
 *
 * The account is changed by the system calls themselves: the functions of the C library make every thread of the
 * process follow, and in the child of a vfork the threads that they would find are those of the parent. What must hold:
 * a child that was to be another account is never executed as ours.
 */
#include "process/rlimits.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where there are two, the older ones know only 16 bits. */
#ifdef SYS_setresuid32
#define CALL_SETGROUPS SYS_setgroups32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETRESUID SYS_setresuid32
#else
#define CALL_SETGROUPS SYS_setgroups
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETRESUID SYS_setresuid
#endif

struct wanted {
	int resource;
	bool is_set;
	rlim_t soft, hard;
};

static struct wanted
wanted(const struct jr_limits *limits, enum jr_limit which)
{
	const int64_t value = which == JR_LIMIT_CPU         ? limits->cpu_s
			      : which == JR_LIMIT_FILES     ? limits->files
			      : which == JR_LIMIT_PROCESSES ? limits->processes
							    : limits->memory;
	const int resource = which == JR_LIMIT_CPU         ? RLIMIT_CPU
			     : which == JR_LIMIT_FILES     ? RLIMIT_NOFILE
			     : which == JR_LIMIT_PROCESSES ? RLIMIT_NPROC
							   : RLIMIT_AS;
	struct wanted result = {.resource = resource, .is_set = value >= 0};

	if (result.is_set) {
		result.soft = (rlim_t)value;
		result.hard = which == JR_LIMIT_CPU ? result.soft + 1 : result.soft;
	}
	return result;
}

bool
jr_limits_set_nice(const struct jr_limits *limits)
{
	return !limits->has_nice || setpriority(PRIO_PROCESS, 0, limits->nice) == 0;
}

void
jr_limits_raise(const struct jr_limits *limits)
{
	for (int which = 0; which < JR_LIMIT_COUNT; which++) {
		struct wanted more = wanted(limits, (enum jr_limit)which);
		struct rlimit now;

		if (!more.is_set || getrlimit(more.resource, &now) < 0 || more.hard <= now.rlim_max)
			continue;
		now.rlim_max = more.hard;
		(void)setrlimit(more.resource, &now); /* or it stays below, which is allowed */
	}
}

bool
jr_limits_set(const struct jr_limits *limits, enum jr_limit which)
{
	struct wanted new = wanted(limits, which);
	struct rlimit now;

	if (!new.is_set)
		return true;
	if (getrlimit(new.resource, &now) < 0)
		return false;
	if (new.hard < now.rlim_max)
		now.rlim_max = new.hard;
	now.rlim_cur = new.soft < now.rlim_max ? new.soft : now.rlim_max;
	return setrlimit(new.resource, &now) == 0;
}

bool
jr_limits_become(const struct jr_limits *limits)
{
	if (limits->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return false;
	if (!limits->has_account)
		return true;
	if (syscall(CALL_SETGROUPS, limits->group_count, limits->groups) < 0 ||
	    syscall(CALL_SETRESGID, limits->gid, limits->gid, limits->gid) < 0 ||
	    syscall(CALL_SETRESUID, limits->uid, limits->uid, limits->uid) < 0)
		return false;
	if (limits->uid == 0 || syscall(CALL_SETRESUID, (uid_t)-1, 0, (uid_t)-1) < 0)
		return true;
	errno = EPERM; /* it could be root again */
	return false;
}
