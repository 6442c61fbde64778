/*
 * group: see group.h. kill(2) succeeds for zombies too, so when it succeeds, /proc is read.
 */
#include "process/group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Parse /proc/PID/stat: "PID (NAME) STATE PPID PGRP ...". NAME may contain any character, also ")". */
static bool
runs_in(const char *stat, int64_t group)
{
	const char *p = strrchr(stat, ')');
	char state;
	char *end;

	if (p == NULL || p[1] != ' ' || p[2] == '\0' || p[3] != ' ')
		return false;
	state = p[2];
	(void)strtoll(p + 4, &end, 10); /* the parent */
	return strtoll(end, NULL, 10) == group && state != 'Z' && state != 'X';
}

static bool
process_runs_in(const char *pid, int64_t group)
{
	char path[300], stat[512];
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof(path), "/proc/%s/stat", pid) >= (int)sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* it has just ended */
	n = read(fd, stat, sizeof(stat) - 1);
	(void)close(fd);
	if (n <= 0)
		return false;
	stat[n] = '\0';
	return runs_in(stat, group);
}

static bool
somebody_runs_in(int64_t group)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	bool found = proc == NULL;

	while (!found && (entry = readdir(proc)) != NULL)
		found = isdigit((unsigned char)entry->d_name[0]) && process_runs_in(entry->d_name, group);
	if (proc != NULL)
		(void)closedir(proc);
	return found;
}

bool
jr_group_is_gone(int64_t group)
{
	if (kill(-(pid_t)group, SIGKILL) < 0 && errno == ESRCH)
		return true;
	while (waitpid(-(pid_t)group, NULL, WNOHANG) > 0)
		; /* orphans of the group are ours when we are process 1 */
	if (kill(-(pid_t)group, SIGKILL) < 0 && errno == ESRCH)
		return true;
	return !somebody_runs_in(group);
}
