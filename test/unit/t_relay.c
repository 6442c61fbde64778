/*
 * relay: what comes in goes out whole, at the pace of the reader, and the writer learns when nobody reads.
 */
#include "process/relay.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#define MUCH 300000 /* more than two pipes hold */

struct fixture {
	struct jr_loop *loop;
	struct jr_relay relay;
	struct jr_capture capture;
	int in[2], out[2];
	int ended;
};

static void
on_ended(void *ctx)
{
	struct fixture *f = ctx;

	f->ended++;
}

static int
set_up(void **state)
{
	struct fixture *f = jr_xcalloc(1, sizeof(*f));
	struct jr_err err;

	(void)signal(SIGPIPE, SIG_IGN);
	f->loop = jr_loop_new(&err);
	jr_capture_init(&f->capture, 100, 100);
	assert_true(jr_fd_pipe(f->in) && jr_fd_pipe(f->out));
	for (int i = 0; i < 2; i++)
		assert_true(jr_fd_set_nonblocking(f->in[i]));
	assert_true(jr_fd_set_nonblocking(f->out[0])); /* the relay's own end stays as it is */
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	jr_relay_close(&f->relay);
	jr_fd_close(f->in[1]);
	jr_fd_close(f->out[0]);
	jr_fd_close(f->out[1]);
	jr_loop_free(f->loop);
	jr_capture_release(&f->capture);
	free(f);
	return 0;
}

static void
begin(struct fixture *f, enum jr_relay_kind kind)
{
	jr_relay_init(&f->relay, &f->capture, kind, f->out[1], on_ended, f);
	jr_relay_open(&f->relay, f->loop, f->in[0]);
}

static void
turn(struct fixture *f)
{
	struct jr_err err;

	assert_true(jr_loop_turn(f->loop, &err));
}

static char
byte_at(size_t i)
{
	return (char)(i * 7 + i / 251);
}

/* Write on, as far as it goes. */
static void
feed(struct fixture *f, size_t *written)
{
	char bytes[1000];
	ssize_t n;

	do {
		size_t len = MUCH - *written < sizeof(bytes) ? MUCH - *written : sizeof(bytes);

		for (size_t i = 0; i < len; i++)
			bytes[i] = byte_at(*written + i);
		n = len > 0 ? write(f->in[1], bytes, len) : 0;
		*written += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (*written == MUCH) {
		jr_fd_close(f->in[1]);
		f->in[1] = -1;
	}
}

/* Read what is there, but not more than `most`. */
static void
drink(struct fixture *f, size_t *seen, size_t most)
{
	char bytes[1000];
	ssize_t n = 1;

	while (n > 0 && most > 0) {
		n = read(f->out[0], bytes, most < sizeof(bytes) ? most : sizeof(bytes));
		for (ssize_t i = 0; i < n; i++)
			assert_true(bytes[i] == byte_at(*seen + (size_t)i));
		*seen += n > 0 ? (size_t)n : 0;
		most -= n > 0 ? (size_t)n : 0;
	}
}

static void
every_byte_comes_at_the_pace_of_the_reader(void **state)
{
	struct fixture *f = *state;
	size_t written = 0, seen = 0;
	bool held_up = false;

	begin(f, JR_RELAY_WHOLE);
	while (f->ended == 0) {
		feed(f, &written);
		if (jr_relay_is_held_up(&f->relay)) {
			held_up = true;
			drink(f, &seen, 5000);
		}
		turn(f);
	}
	drink(f, &seen, MUCH);
	assert_true(held_up);
	assert_int_equal(seen, MUCH);
	assert_int_equal(f->ended, 1);
	assert_true(f->capture.dropped == MUCH - 200);
	assert_false(fcntl(f->out[1], F_GETFL) & O_NONBLOCK);
}

static void
nothing_is_read_while_nobody_reads(void **state)
{
	struct fixture *f = *state;
	size_t written = 0, before;

	begin(f, JR_RELAY_WHOLE);
	do {
		before = written;
		feed(f, &written);
		jr_relay_take(&f->relay, 100);
	} while (written > before);
	assert_true(written < MUCH);
	assert_true(jr_relay_is_held_up(&f->relay));
	assert_false(jr_relay_is_over(&f->relay));
}

static void
a_reader_that_is_gone_is_told_to_the_writer(void **state)
{
	struct fixture *f = *state;

	begin(f, JR_RELAY_WHOLE);
	jr_fd_close(f->out[0]);
	f->out[0] = -1;
	assert_int_equal(write(f->in[1], "x", 1), 1);
	turn(f);
	assert_int_equal(f->ended, 1);
	assert_true(jr_relay_is_over(&f->relay));
	assert_int_equal(write(f->in[1], "y", 1), -1); /* EPIPE, which is SIGPIPE for a program */
}

/* As on a full disk. */
static void
what_cannot_be_written_is_kept_and_the_writer_goes_on(void **state)
{
	struct fixture *f = *state;
	size_t written = 0;

	jr_fd_close(f->out[1]);
	f->out[1] = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(f->out[1] >= 0);
	begin(f, JR_RELAY_WHOLE);
	while (f->ended == 0) {
		feed(f, &written);
		turn(f);
	}
	assert_int_equal(written, MUCH);
	assert_true(f->capture.dropped == MUCH - 200);
	assert_false(jr_relay_is_held_up(&f->relay));
}

/* What was written comes to the reader a little later, and its room is free again when much of it was read. */
static void
drink_until_writable(struct fixture *f, size_t *seen)
{
	struct pollfd reader = {.fd = f->out[0], .events = POLLIN};
	struct pollfd writer = {.fd = f->out[1], .events = POLLOUT};

	do {
		(void)poll(&reader, 1, 100);
		drink(f, seen, 5000);
	} while (poll(&writer, 1, 0) == 0);
}

/* The reader's end becomes that of a terminal, which changes nothing that it is given. */
static void
open_terminal(struct fixture *f)
{
	struct termios raw;

	jr_fd_close(f->out[0]);
	jr_fd_close(f->out[1]);
	f->out[0] = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	assert_true(f->out[0] >= 0 && grantpt(f->out[0]) == 0 && unlockpt(f->out[0]) == 0);
	f->out[1] = open(ptsname(f->out[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(f->out[1] >= 0 && tcgetattr(f->out[1], &raw) == 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(f->out[1], TCSANOW, &raw), 0);
}

/* A terminal says that it can be written when it has room for a byte. */
static void
a_terminal_that_is_not_read_stops_nobody(void **state)
{
	struct fixture *f = *state;
	size_t written = 0, seen = 0;

	open_terminal(f);
	(void)alarm(60); /* where it waits, nothing else ends it */
	begin(f, JR_RELAY_WHOLE);
	while (f->ended == 0) {
		feed(f, &written);
		if (jr_relay_is_held_up(&f->relay))
			drink_until_writable(f, &seen);
		turn(f);
	}
	while (seen < MUCH)
		drink(f, &seen, MUCH);
	(void)alarm(0);
	assert_false(fcntl(f->out[1], F_GETFL) & O_NONBLOCK);
}

/* What arrives when the pieces were written one by one; each is read before the next is. */
static void
expect_copy(struct fixture *f, const char *const *pieces, const char *expected)
{
	char got[200] = "";
	size_t used = 0;

	for (; *pieces != NULL; pieces++) {
		/* "0" stands for the byte 0. */
		size_t len = strcmp(*pieces, "0") == 0 ? 1 : strlen(*pieces);

		assert_int_equal(write(f->in[1], len == 1 && **pieces == '0' ? "" : *pieces, len), len);
		turn(f);
	}
	jr_fd_close(f->in[1]);
	f->in[1] = -1;
	while (f->ended == 0)
		turn(f);
	while (used < strlen(expected)) {
		struct pollfd reader = {.fd = f->out[0], .events = POLLIN};
		ssize_t n;

		assert_int_equal(poll(&reader, 1, 10000), 1);
		n = read(f->out[0], got + used, sizeof(got) - 1 - used);
		assert_true(n > 0);
		used += (size_t)n;
		got[used] = '\0';
	}
	assert_string_equal(got, expected);
}

/* The character that comes in two pieces is one; the one whose end never comes is bytes. */
static const char *const odd[] = {
    "a\x1b[2Jb\t\r\n", "\xC3", "\xA4", "\xC2", "\x9B", "0", "\xE2\x80", "\xAE", "\xF0\x9F", NULL};

static void
a_copy_for_a_terminal_is_made_visible(void **state)
{
	struct fixture *f = *state;

	open_terminal(f);
	begin(f, JR_RELAY_COPY);
	expect_copy(f, odd, "a\\x1b[2Jb\t\\x0d\n\xC3\xA4\\x9b\\x00\\u{202e}\\xf0\\x9f");
}

static void
a_raw_copy_for_a_terminal_is_not(void **state)
{
	static const char *const pieces[] = {"a\x1b[2J", "\xC2", "\x9B", NULL};
	struct fixture *f = *state;

	open_terminal(f);
	begin(f, JR_RELAY_RAW);
	expect_copy(f, pieces, "a\x1b[2J\xC2\x9B");
}

static void
a_copy_for_a_pipe_is_as_it_came(void **state)
{
	static const char *const pieces[] = {"a\x1b[2J", "\xC2", "\x9B", "\xFF", NULL};
	struct fixture *f = *state;

	begin(f, JR_RELAY_COPY);
	expect_copy(f, pieces, "a\x1b[2J\xC2\x9B\xFF");
}

static void
a_copy_never_waits(void **state)
{
	struct fixture *f = *state;
	size_t written = 0;

	begin(f, JR_RELAY_COPY);
	while (f->ended == 0) {
		feed(f, &written);
		turn(f);
		assert_false(jr_relay_is_held_up(&f->relay));
	}
	assert_int_equal(written, MUCH);
	assert_true(f->capture.dropped == MUCH - 200);
}

static void
closing_it_twice_is_no_harm(void **state)
{
	struct fixture *f = *state;
	size_t written = 0;

	begin(f, JR_RELAY_WHOLE);
	feed(f, &written);
	jr_relay_take(&f->relay, 100);
	jr_relay_close(&f->relay);
	jr_relay_close(&f->relay);
	assert_true(jr_relay_is_over(&f->relay));
	assert_int_equal(f->ended, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(every_byte_comes_at_the_pace_of_the_reader),
	    TEST(nothing_is_read_while_nobody_reads),
	    TEST(a_reader_that_is_gone_is_told_to_the_writer),
	    TEST(what_cannot_be_written_is_kept_and_the_writer_goes_on),
	    TEST(a_terminal_that_is_not_read_stops_nobody),
	    TEST(a_copy_never_waits),
	    TEST(a_copy_for_a_terminal_is_made_visible),
	    TEST(a_raw_copy_for_a_terminal_is_not),
	    TEST(a_copy_for_a_pipe_is_as_it_came),
	    TEST(closing_it_twice_is_no_harm),
	};

	return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
