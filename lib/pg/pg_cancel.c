/*
 * pg_cancel: see pg_cancel.h.
 *
 * PQcancel opens a second connection, sends 16 bytes and waits until the server closes it. With a dead network that
 * takes minutes. PQcancel is safe in a signal handler, so it is safe between fork and _exit too, where other threads (a
 * name lookup of libcurl) may hold locks.
 *
 * What must hold: the process closes all inherited descriptors before it waits for anything, or it would keep a
 * connection, the watchdog's pipe or the caller's standard output open. Only its alarm may end it early: PgBouncer 1.18
 * crashes when a client goes away in the middle of a cancel, and the cancelled statement is often answered before the
 * cancel ends. So the process is forked twice and is no child of the runner.
 */
#include "pg/pg_cancel.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

#define CANCEL_S 5

static JR_NORETURN void
cancel_and_exit(PGcancel *cancel)
{
	char text[256];
	struct sigaction action;
	sigset_t none;

	jr_fd_close_range(0, UINT_MAX);
	memset(&action, 0, sizeof(action));
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGALRM, &action, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(CANCEL_S);
	_exit(PQcancel(cancel, text, sizeof(text)) ? 0 : 1);
}

/* The first child: leave the runner's process group and terminal, so that their signals do not reach the second. */
static JR_NORETURN void
fork_again(PGcancel *cancel)
{
	pid_t pid;

	(void)setsid();
	pid = fork();
	if (pid == 0)
		cancel_and_exit(cancel);
	_exit(pid < 0 ? errno & 0xff : 0);
}

/* Returns 0 or an errno. */
static int
start(PGcancel *cancel)
{
	int status = 0;
	pid_t ended, pid = fork();

	if (pid == 0)
		fork_again(cancel);
	if (pid < 0)
		return errno;
	do
		ended = waitpid(pid, &status, 0);
	while (ended < 0 && errno == EINTR);
	/* If SIGCHLD is ignored, waitpid fails and the status is not known. */
	return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

void
jr_pg_cancel_apart(PGconn *conn)
{
	PGcancel *cancel = PQgetCancel(conn);
	int reason;

	if (cancel == NULL)
		return;
	reason = start(cancel);
	PQfreeCancel(cancel);
	if (reason != 0)
		jr_log(JR_WARN, JR_EVENT_CANCEL_FAILED, JR_S("error", strerror(reason)));
}
