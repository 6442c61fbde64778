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

#define SIGNALLED_MAX 256

/* What /proc says of a process. */
struct process {
	int64_t pid, group, session;
	bool runs; /* false: a zombie */
};

/* The groups that a look has signalled last; 0: none yet. */
struct signalled {
	int64_t groups[SIGNALLED_MAX];
	size_t next;
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

/*
 * The processes of this host. NULL: they cannot be read, or the numbers in /proc are those of another namespace, as
 * after unshare(1) without --mount-proc: a signal would hit somebody else.
 */
static DIR *
open_processes(void)
{
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	return strtoll(self, NULL, 10) == getpid() ? opendir("/proc") : NULL;
}

/* The next process, also a zombie; false: there are no more. */
static bool
next_process(DIR *proc, struct process *process)
{
	const struct dirent *entry;

	while ((entry = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, process))
			return true;
	}
	return false;
}

void
jr_group_signal(int64_t group, int signo)
{
	(void)kill(-(pid_t)group, signo);
	if (signo == SIGTERM)
		(void)kill(-(pid_t)group, SIGCONT);
}

/*
 * Signal the group, unless this look has just done it: a look meets a group once for each process, and a second TERM
 * means "at once" to many programs.
 */
static void
signal_once(struct signalled *signalled, int64_t group, int signo)
{
	for (size_t i = 0; i < SIGNALLED_MAX; i++) {
		if (signalled->groups[i] == group)
			return;
	}
	signalled->groups[signalled->next] = group;
	signalled->next = (signalled->next + 1) % SIGNALLED_MAX;
	jr_group_signal(group, signo);
}

/* A zombie shows a group, too: one who forks and ends all the time may be seen only as that. */
void
jr_sessions_signal_others(struct jr_session *sessions, size_t count)
{
	DIR *proc = count > 0 ? open_processes() : NULL;
	struct signalled signalled = {.next = 0};
	struct process process;

	if (proc == NULL)
		return;
	while (next_process(proc, &process)) {
		for (size_t i = 0; i < count; i++) {
			if (process.session != sessions[i].number || process.group == process.session)
				continue;
			sessions[i].others = sessions[i].others || process.runs;
			signal_once(&signalled, process.group, sessions[i].signo);
		}
	}
	(void)closedir(proc);
}

void
jr_session_signal(int64_t session, int signo)
{
	struct jr_session others = {.number = session, .signo = signo};

	jr_group_signal(session, signo);
	jr_sessions_signal_others(&others, 1);
}

static bool
somebody_runs_in(int64_t group)
{
	DIR *proc = open_processes();
	struct process process;
	bool found = proc == NULL;

	while (!found && next_process(proc, &process))
		found = process.runs && process.group == group;
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
