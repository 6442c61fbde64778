/*
 * effect_child: see effect_child.h. TERM, INT and HUP are blocked and read by sigwaitinfo, so that none is lost between
 * the start of the command and the wait for its end. They stay blocked, so that they do not interrupt what the caller
 * still has to do.
 */
#include "effect_child.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/signals.h"

#define NOT_EXECUTABLE 126
#define NOT_FOUND 127

/* The signals that are passed on to the command, and SIGCHLD, which ends the wait. */
static void
fill_watched(sigset_t *watched)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};

	sigemptyset(watched);
	for (size_t i = 0; i < JR_COUNT(signals); i++)
		sigaddset(watched, signals[i]);
}

/* Start a script that has no line "#!": a shell finds and runs it, as execvp would. */
static int
spawn_script(char **command, const posix_spawnattr_t *attributes, pid_t *pid)
{
	static char sh[] = "sh", option[] = "-c", script[] = "exec \"$0\" \"$@\"";
	char *const shell[] = {sh, option, script};
	size_t count = 0;
	char **argv;
	int error;

	while (command[count] != NULL)
		count++;
	argv = jr_xcalloc(JR_COUNT(shell) + count + 1, sizeof(*argv));
	memcpy(argv, shell, sizeof(shell));
	memcpy(argv + JR_COUNT(shell), command, count * sizeof(*argv));
	error = posix_spawn(pid, "/bin/sh", NULL, attributes, argv, environ);
	free(argv);
	return error;
}

/*
 * The command gets the signal mask that we were started with, and the default disposition of those that main()
 * ignores. Others that our caller ignores (nohup) stay ignored. Returns 0, or an errno if nothing runs.
 */
static int
start(char **command, const sigset_t *mask, pid_t *pid)
{
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int error = posix_spawnattr_init(&attributes);

	if (error != 0)
		return error;
	jr_signals_fill(&defaults);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setsigmask(&attributes, mask);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	error = posix_spawnp(pid, command[0], NULL, &attributes, command, environ);
	if (error == ENOEXEC)
		error = spawn_script(command, &attributes, pid);
	posix_spawnattr_destroy(&attributes);
	return error;
}

/* Wait for the command and pass signals on. Returns its status as a shell does. */
static int
wait_for(pid_t pid, const sigset_t *watched)
{
	siginfo_t info;
	int status, sig;

	for (;;) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		sig = sigwaitinfo(watched, &info);
		/* A terminal signals the command directly (SI_KERNEL); it must not get the signal twice. */
		if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
			kill(pid, sig);
	}
}

int
jr_effect_child_run(char **command, bool *started, struct jr_err *err)
{
	sigset_t watched, before;
	pid_t pid;
	int error;

	fill_watched(&watched);
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, waitpid could not report the status */
	sigprocmask(SIG_BLOCK, &watched, &before);
	error = start(command, &before, &pid);
	*started = error == 0;
	if (error == 0)
		return wait_for(pid, &watched);
	jr_fail(err, JR_E_NEWS, "cannot run %s: %s", command[0], strerror(error));
	if (error == EAGAIN || error == ENOMEM)
		return JR_E_TEMP;
	return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}
