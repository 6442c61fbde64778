/*
 * pg_apart: see pg_apart.h.
 *
 * What must hold: the process closes all inherited descriptors before it waits for anything, or it would keep a
 * connection, the watchdog's pipe or the caller's standard output open. Only its alarm may end it early. Other threads
 * (a name lookup of libcurl) may have held locks at the fork: then it may hang until its alarm.
 */
#include "pg/pg_apart.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

struct apart {
	void (*work)(void *ctx);
	void *ctx;
	int keep;
	unsigned seconds;
};

static JR_NORETURN void
work_and_exit(const struct apart *apart)
{
	struct sigaction action;
	sigset_t none;

	if (apart->keep > 0)
		jr_fd_close_range(0, (unsigned)apart->keep - 1);
	jr_fd_close_range(apart->keep > 0 ? (unsigned)apart->keep + 1 : 0, UINT_MAX);
	memset(&action, 0, sizeof(action));
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGALRM, &action, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(apart->seconds);
	apart->work(apart->ctx);
	_exit(0);
}

/* The first child: leave the runner's process group and terminal, so that their signals do not reach the second. */
static JR_NORETURN void
fork_again(const struct apart *apart)
{
	pid_t pid;

	(void)setsid();
	pid = fork();
	if (pid == 0)
		work_and_exit(apart);
	_exit(pid < 0 ? errno & 0xff : 0);
}

int
jr_pg_apart(void (*work)(void *ctx), void *ctx, int keep, unsigned seconds)
{
	const struct apart apart = {.work = work, .ctx = ctx, .keep = keep, .seconds = seconds};
	int status = 0;
	pid_t ended, pid = fork();

	if (pid == 0)
		fork_again(&apart);
	if (pid < 0)
		return errno;
	do
		ended = waitpid(pid, &status, 0);
	while (ended < 0 && errno == EINTR);
	/* If SIGCHLD is ignored, waitpid fails and the status is not known. */
	return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
