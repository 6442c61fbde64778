/*
 * command_output: see command_output.h. The program has a process group of its own, so that what it has started is
 * killed, too, and cannot hold the pipe open.
 */
#include "command_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/signals.h"

/* 0, or an errno. */
static int
start(char *const *argv, int out, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int error;

	if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
		abort(); /* out of memory, as in mem.c */
	jr_signals_fill(&defaults);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* Read to the end, to the limit of the buffer, or until the time is over. false: it is over. */
static bool
read_all(int fd, int64_t until_ms, struct jr_buf *text)
{
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int64_t left_ms = until_ms - jr_clock_now_ms();
		char bytes[4096];
		ssize_t len;

		if (left_ms <= 0)
			return false;
		if (poll(&wait, 1, (int)left_ms) <= 0)
			continue;
		len = read(fd, bytes, sizeof(bytes));
		if (len == 0 || (len < 0 && errno != EINTR))
			return true;
		if (len > 0 && !jr_buf_add(text, bytes, (size_t)len))
			return true;
	}
}

/* Wait for the end of the program; what is left of it is killed. */
static int
status_of(pid_t pid, bool late)
{
	int status = 0;

	if (late)
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	(void)kill(-pid, SIGKILL);
	return late || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

char *
jr_command_output(char *const *argv, int64_t timeout_ms, size_t max, int *status)
{
	struct jr_buf text;
	int ends[2], error;
	pid_t pid;

	if (!jr_fd_pipe(ends)) {
		*status = -2;
		return jr_xstrdup(strerror(errno));
	}
	error = start(argv, ends[1], &pid);
	jr_fd_close(ends[1]);
	if (error != 0) {
		jr_fd_close(ends[0]);
		*status = -2;
		return jr_xstrdup(strerror(error));
	}
	jr_buf_init(&text, max);
	*status = status_of(pid, !read_all(ends[0], jr_clock_after(jr_clock_now_ms(), timeout_ms), &text));
	jr_fd_close(ends[0]);
	return jr_buf_detach(&text);
}
