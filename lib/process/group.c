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

/* What /proc says of a process. */
struct process {
	int64_t pid, group, session;
	bool runs; /* false: a zombie */
};

/* Parse /proc/PID/stat: "PID (NAME) STATE PPID PGRP SESSION ...". NAME may contain any character, also ")". */
static bool
parse(const char *stat, struct process *process)
{
	const char *p = strrchr(stat, ')');
	char *end;

	if (p == NULL || p[1] != ' ' || p[2] == '\0' || p[3] != ' ')
		return false;
	process->pid = strtoll(stat, NULL, 10);
	process->runs = p[2] != 'Z' && p[2] != 'X';
	(void)strtoll(p + 4, &end, 10); /* the parent */
	process->group = strtoll(end, &end, 10);
	process->session = strtoll(end, NULL, 10);
	return true;
}

static bool
read_process(const char *pid, struct process *process)
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
	return parse(stat, process);
}

/* The next process that runs; false: there are no more. */
static bool
next_process(DIR *proc, struct process *process)
{
	const struct dirent *entry;

	while ((entry = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, process) && process->runs)
			return true;
	}
	return false;
}

/* Signal the processes of the session that are not in its first group. Returns whether there are any. */
static bool
signal_others(DIR *proc, int64_t session, int signo)
{
	struct process process;
	bool found = false;

	while (next_process(proc, &process)) {
		if (process.session != session || process.group == session)
			continue;
		found = true;
		(void)kill((pid_t)process.pid, signo);
		if (signo == SIGTERM)
			(void)kill((pid_t)process.pid, SIGCONT);
	}
	return found;
}

void
jr_session_signal(int64_t session, int signo)
{
	DIR *proc;

	(void)kill(-(pid_t)session, signo);
	if (signo == SIGTERM)
		(void)kill(-(pid_t)session, SIGCONT); /* a stopped process gets TERM only when it continues */
	proc = opendir("/proc");
	if (proc == NULL)
		return;
	(void)signal_others(proc, session, signo);
	(void)closedir(proc);
}

static bool
somebody_runs_in(int64_t group)
{
	DIR *proc = opendir("/proc");
	struct process process;
	bool found = proc == NULL;

	while (!found && next_process(proc, &process))
		found = process.group == group;
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

bool
jr_session_is_gone(int64_t session)
{
	DIR *proc = opendir("/proc");
	bool others = proc != NULL && signal_others(proc, session, SIGKILL);

	if (proc != NULL)
		(void)closedir(proc);
	return jr_group_is_gone(session) && !others;
}
