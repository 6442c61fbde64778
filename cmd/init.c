/*
 * init: see init.h. Its memory and environment are those of the program, so it must be closed to others
 * (PR_SET_DUMPABLE) before it is called, and its arguments, which everybody can read, are wiped.
 */
#include "init.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

/* Reap whoever has ended. true: the program, too, and *status is its exit status as a shell has it. */
static bool
has_ended(pid_t program, int *status)
{
	bool ended = false;
	pid_t pid;
	int how;

	while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
		if (pid != program)
			continue;
		ended = true;
		*status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
	}
	return ended;
}

/*
 * What the keys of a terminal send (SI_KERNEL) the program gets directly, and it must not get it twice. But the end of
 * the terminal is told to us alone.
 */
static int
stay_with(pid_t program, const sigset_t *all)
{
	int status = 0;

	while (!has_ended(program, &status)) {
		siginfo_t info;
		int signo = sigwaitinfo(all, &info);

		if (signo > 0 && signo != SIGCHLD && (info.si_code != SI_KERNEL || signo == SIGHUP))
			(void)kill(program, signo);
	}
	return status;
}

bool
jr_init_done(char **argv, int *status)
{
	sigset_t all, before;
	pid_t pid;

	if (getpid() != 1)
		return false;
	(void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, there would be no status */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0) {
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		return false;
	}
	if (pid < 0) {
		fprintf(stderr, "jobrun: process 1 cannot start a process for the program: %s\n", strerror(errno));
		*status = JR_E_TEMP;
		return true;
	}
	(void)prctl(PR_SET_NAME, "jobrun-init");
	for (size_t i = 1; argv[0] != NULL && argv[i] != NULL; i++)
		memset(argv[i], 0, strlen(argv[i]));
	*status = stay_with(pid, &all);
	return true;
}
