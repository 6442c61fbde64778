/*
 * pg_cancel: see pg_cancel.h.
 *
 * PQcancel opens a connection of its own, sends 16 bytes and waits for its end; with a dead network that takes minutes.
 * It may be called in a signal handler, so it may be called between fork and _exit too, where other threads (a name
 * lookup of libcurl) may hold locks. What must hold: the child closes what it has inherited before it waits for
 * anything, or a connection or the keeper's pipe would stay open in it; an alarm ends it.
 */
#include "pg_cancel.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fd.h"
#include "log.h"

#define CANCEL_S 5

/* Reap it if it has ended; `flags` as for waitpid. */
static void
reap(struct jr_pg_canceller *canceller, int flags)
{
	int fd = canceller->watch.fd;
	pid_t pid;

	if (canceller->pid == 0)
		return;
	do
		pid = waitpid((pid_t)canceller->pid, NULL, flags);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return;
	jr_watch_remove(&canceller->watch);
	jr_fd_close(fd);
	canceller->pid = 0;
}

static void
on_end(void *ctx, short revents)
{
	(void)revents;
	reap(ctx, WNOHANG);
}

void
jr_pg_canceller_init(struct jr_pg_canceller *canceller, struct jr_loop *loop)
{
	*canceller = (struct jr_pg_canceller){.loop = loop};
	jr_watch_init(&canceller->watch, on_end, canceller);
}

static JR_NORETURN void
run_child(PGcancel *cancel)
{
	char text[256];
	struct sigaction action;
	sigset_t none;

	jr_fd_close_range(STDERR_FILENO + 1, UINT_MAX);
	memset(&action, 0, sizeof(action));
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGALRM, &action, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(CANCEL_S);
	_exit(PQcancel(cancel, text, sizeof(text)) ? 0 : 1);
}

void
jr_pg_canceller_send(struct jr_pg_canceller *canceller, PGconn *conn)
{
	PGcancel *cancel;
	pid_t pid;
	int fd;

	reap(canceller, WNOHANG); /* one that could not be watched */
	cancel = canceller->pid == 0 ? PQgetCancel(conn) : NULL;
	if (cancel == NULL)
		return;
	pid = fork();
	if (pid == 0)
		run_child(cancel);
	PQfreeCancel(cancel);
	if (pid < 0) {
		jr_log(JR_WARN, "cancel_failed", JR_S("error", strerror(errno)));
		return;
	}
	canceller->pid = pid;
	fd = jr_fd_of_process(pid);
	if (fd >= 0)
		jr_watch_set(canceller->loop, &canceller->watch, fd, POLLIN);
}

void
jr_pg_canceller_release(struct jr_pg_canceller *canceller)
{
	if (canceller->pid == 0)
		return;
	(void)kill((pid_t)canceller->pid, SIGKILL);
	reap(canceller, 0);
}
