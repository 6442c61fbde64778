/* pager: see pager.h. */
#include "pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/signals.h"
#include "terminal.h"

static struct {
	pid_t pid;      /* 0: there is no pager */
	int out, error; /* the terminal, to be put back; error is -1 where stderr is left alone */
} pager = {.error = -1};

/* NULL: none. */
static const char *
wanted_pager(void)
{
	const char *own = getenv("JOBRUN_PAGER"), *command = own != NULL ? own : getenv("PAGER");
	const char *term = getenv("TERM");

	if (isatty(STDOUT_FILENO) != 1 || term == NULL || strcmp(term, "dumb") == 0)
		return NULL;
	if (command == NULL)
		command = "less";
	return command[strspn(command, " \t")] == '\0' || strcmp(command, "cat") == 0 ? NULL : command;
}

#define MOST_WORDS 32

/* A plain command is its words; any other is given to a shell. */
static void
split(const char *command, char *words[MOST_WORDS])
{
	char *text = jr_xstrdup(command), *rest = NULL, *word;
	size_t count = 0;

	if (strpbrk(command, "|&;<>()$`\\\"'*?[#~=%") != NULL) {
		words[count++] = jr_xstrdup("sh");
		words[count++] = jr_xstrdup("-c");
		words[count++] = text;
	} else {
		for (word = strtok_r(text, " \t", &rest); word != NULL && count < MOST_WORDS - 1;
		     word = strtok_r(NULL, " \t", &rest))
			words[count++] = word;
	}
	words[count] = NULL;
}

/* In the child. `failed` learns why a plain command cannot be started. */
static void
start(const char *command, int in, int failed)
{
	char *words[MOST_WORDS];
	int reason;

	jr_signals_default();
	(void)dup2(in, STDIN_FILENO);
	(void)setenv("LESS", "FRX", 0);
	split(command, words);
	if (words[0] != NULL)
		execvp(words[0], words);
	reason = errno;
	(void)!write(failed, &reason, sizeof(reason));
	_exit(127);
}

/* How the child has ended. */
static int
wait_for(pid_t pid)
{
	int ended = 0;
	pid_t answer;

	do
		answer = waitpid(pid, &ended, 0);
	while (answer < 0 && errno == EINTR);
	return ended;
}

/* Has the child begun to be the pager? If not, it is gone. */
static bool
has_started(pid_t pid, int failed)
{
	int reason;
	ssize_t n;

	do
		n = read(failed, &reason, sizeof(reason));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return true;
	(void)wait_for(pid);
	return false;
}

/* Start it. Returns where to write, or -1. */
static int
start_pager(const char *command)
{
	int in[2], failed[2];
	bool started = false;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) != 0)
		return -1;
	if (pipe2(failed, O_CLOEXEC) != 0) {
		close(in[0]);
		close(in[1]);
		return -1;
	}
	pid = fork();
	if (pid == 0)
		start(command, in[0], failed[1]);
	close(in[0]);
	close(failed[1]);
	if (pid > 0)
		started = has_started(pid, failed[0]);
	close(failed[0]);
	if (started) {
		pager.pid = pid;
		return in[1];
	}
	close(in[1]);
	return -1;
}

void
jr_pager_open(bool wanted)
{
	const char *command = wanted ? wanted_pager() : NULL;
	char columns[24];
	int to;

	if (pager.pid != 0 || command == NULL)
		return;
	fflush(stdout);
	(void)snprintf(columns, sizeof(columns), "%zu", jr_terminal_columns());
	(void)setenv("COLUMNS", columns, 1); /* stdout will tell nobody any more */
	to = start_pager(command);
	if (to < 0)
		return;
	signal(SIGINT, SIG_IGN); /* the keys are the pager's; it ends first */
	signal(SIGQUIT, SIG_IGN);
	pager.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	(void)dup2(to, STDOUT_FILENO);
	if (isatty(STDERR_FILENO) == 1) {
		pager.error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		(void)dup2(to, STDERR_FILENO);
	}
	close(to);
}

void
jr_pager_close(void)
{
	int ended;

	if (pager.pid == 0)
		return;
	fflush(stdout);
	__fpurge(stdout); /* what the pager did not want to have */
	clearerr(stdout);
	(void)dup2(pager.out, STDOUT_FILENO);
	close(pager.out);
	if (pager.error >= 0) {
		(void)dup2(pager.error, STDERR_FILENO);
		close(pager.error);
		pager.error = -1;
	}
	ended = wait_for(pager.pid);
	if (WIFEXITED(ended) && WEXITSTATUS(ended) == 127)
		fputs("jobrun: the pager could not be started; --no-pager prints without one\n", stderr);
	pager.pid = 0;
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
}

bool
jr_pager_has(const FILE *file)
{
	return pager.pid != 0 && (file == stdout || (file == stderr && pager.error >= 0));
}
