/*
 * screen: see screen.h.
 *
 * stdout keeps what is printed in a buffer that is large enough for any frame; it is taken from there. The signals are
 * blocked while the screen is open, and read from a descriptor.
 */
#include "screen.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "terminal.h"

#define BUFFER_SIZE ((size_t)4 * 1024 * 1024)

/* The alternate screen, no cursor, no wrapping at the right edge; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define REST_OF_LINE "\033[K"
#define REST_OF_SCREEN "\033[J"

static struct {
	bool open;
	bool has_keys; /* stdin is a terminal */
	char *buffer;  /* of stdout, to the end of the process */
	int signals;   /* a signalfd */
	sigset_t old_mask;
	struct termios old_mode;
} screen = {.signals = -1};

/* Keys come one by one and are not shown; Ctrl-C and Ctrl-Z stay signals. */
static void
enter(void)
{
	struct termios mode = screen.old_mode;

	if (screen.has_keys) {
		mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		mode.c_cc[VMIN] = 0;
		mode.c_cc[VTIME] = 0;
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &mode);
	}
	(void)!jr_fd_write_all(STDOUT_FILENO, ENTER, sizeof(ENTER) - 1);
}

static void
leave(void)
{
	(void)!jr_fd_write_all(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
	if (screen.has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.old_mode);
}

static bool
open_signals(struct jr_err *err)
{
	static const int known[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < JR_COUNT(known); i++)
		sigaddset(&mask, known[i]);
	screen.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen.signals < 0)
		return jr_fail(err, JR_E_BUG, "signalfd: %s", strerror(errno));
	sigprocmask(SIG_BLOCK, &mask, &screen.old_mask);
	return true;
}

bool
jr_screen_open(struct jr_err *err)
{
	if (!open_signals(err))
		return false;
	if (screen.buffer == NULL)
		screen.buffer = jr_xcalloc(1, BUFFER_SIZE);
	setvbuf(stdout, screen.buffer, _IOFBF, BUFFER_SIZE);
	screen.has_keys = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &screen.old_mode) == 0;
	screen.open = true;
	enter();
	return true;
}

void
jr_screen_close(void)
{
	if (!screen.open)
		return;
	screen.open = false;
	__fpurge(stdout);
	leave();
	sigprocmask(SIG_SETMASK, &screen.old_mask, NULL);
	close(screen.signals);
	screen.signals = -1;
}

static size_t
count_lines(const char *text, size_t len)
{
	size_t lines = 0;

	for (const char *p = text; p < text + len; p++)
		lines += *p == '\n' || p == text + len - 1;
	return lines;
}

char *
jr_screen_frame(const char *text, size_t len, size_t rows, size_t *frame_len)
{
	size_t lines = count_lines(text, len), shown = lines > rows ? rows - 1 : lines;
	const char *end = text + len;
	struct jr_buf frame;

	jr_buf_init(&frame, 2 * BUFFER_SIZE);
	jr_buf_adds(&frame, HOME);
	for (size_t i = 0; i < shown; i++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((stop == NULL ? end : stop) - text);

		jr_buf_add(&frame, text, length);
		jr_buf_adds(&frame, i + 1 < rows ? REST_OF_LINE "\n" : REST_OF_LINE);
		text += stop == NULL ? length : length + 1;
	}
	if (lines > shown)
		jr_buf_addf(&frame, "%s %zu more lines" REST_OF_LINE, jr_terminal_mark(), lines - shown);
	else if (shown < rows)
		jr_buf_adds(&frame, REST_OF_SCREEN);
	*frame_len = frame.len;
	return jr_buf_detach(&frame);
}

bool
jr_screen_show(void)
{
	size_t len;
	char *frame = jr_screen_frame(screen.buffer, __fpending(stdout), jr_terminal_rows(), &len);
	bool ok = jr_fd_write_all(STDOUT_FILENO, frame, len);

	__fpurge(stdout);
	free(frame);
	return ok;
}

/* Ctrl-Z: the shell gets its terminal, until it continues us. Where there is no shell, the kernel does not stop us. */
static void
stop_here(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	leave();
	(void)kill(getpid(), SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
	(void)sigprocmask(SIG_BLOCK, &stop, NULL);
	enter();
}

/* true: go on. */
static bool
take_signals(void)
{
	struct signalfd_siginfo info;

	while (read(screen.signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			stop_here();
		else if (info.ssi_signo != SIGWINCH)
			return false;
	}
	return true;
}

/* true: go on. */
static bool
take_keys(void)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	return memchr(keys, 'q', (size_t)n) == NULL && memchr(keys, 'Q', (size_t)n) == NULL;
}

enum jr_screen_end
jr_screen_wait(int64_t ms)
{
	struct pollfd fds[] = {{screen.signals, POLLIN, 0}, {screen.has_keys ? STDIN_FILENO : -1, POLLIN, 0}};

	if (poll(fds, JR_COUNT(fds), ms > INT_MAX ? INT_MAX : (int)ms) <= 0)
		return JR_SCREEN_TIME;
	if (fds[0].revents != 0 && !take_signals())
		return JR_SCREEN_QUIT;
	if ((fds[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
		return JR_SCREEN_QUIT;
	return fds[1].revents == 0 || take_keys() ? JR_SCREEN_TIME : JR_SCREEN_QUIT;
}
