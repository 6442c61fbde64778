/*
 * rlimits: see rlimits.h.
 *
 * The account is changed by plain system calls: the functions of the C library also change every other thread, and
 * after vfork they would find the threads of the parent. What must hold: a child that must run as another account is
 * never executed as ours.
 */
#include "process/rlimits.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the kernel has two versions, the older ones take 16-bit ids. */
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
		(void)setrlimit(more.resource, &now); /* on failure the lower limit stays, which is allowed */
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
	errno = EPERM; /* it could become root again */
	return false;
}
