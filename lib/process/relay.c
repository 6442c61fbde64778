/*
 * relay: see relay.h.
 *
 * Either the child's descriptor or ours is watched, never both: all bytes that were read are written before more is
 * read. Our descriptor is shared with the process that started us, so it is never made non-blocking: jr_fd_write_some
 * polls before each piece, and a terminal, which would block all the same, is reopened. What must hold: a callback
 * calls `ended` last, because `ended` may free the relay.
 */
#include "process/relay.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 8192
#define PIECES_A_TURN 8 /* so that a child with much output does not starve the others */

static int
target(const struct jr_relay *relay)
{
	return relay->own >= 0 ? relay->own : relay->to;
}

static void
show(const struct jr_relay *relay, const char *bytes, size_t len)
{
	char *visible = jr_text_visible_bytes(bytes, len, true);

	(void)jr_fd_write(target(relay), visible, strlen(visible));
	free(visible);
}

/* Show whole characters, and keep an incomplete one at the end until the rest comes. At most PIECE bytes. */
static void
show_whole(struct jr_relay *relay, const char *bytes, size_t len)
{
	char all[PIECE + sizeof(relay->cut)];
	size_t all_len = relay->cut_len + len, whole;

	memcpy(all, relay->cut, relay->cut_len);
	memcpy(all + relay->cut_len, bytes, len);
	whole = jr_text_whole(all, all_len);
	show(relay, all, whole);
	relay->cut_len = all_len - whole;
	memcpy(relay->cut, all + whole, relay->cut_len);
}

static void
close_from(struct jr_relay *relay)
{
	jr_watch_remove(&relay->from_watch);
	jr_fd_close(relay->from);
	relay->from = -1;
	if (relay->cut_len > 0)
		show(relay, relay->cut, relay->cut_len);
	relay->cut_len = 0;
}

static bool
is_written(const struct jr_relay *relay)
{
	return relay->done == relay->left.len;
}

static void
forget_left(struct jr_relay *relay)
{
	jr_watch_remove(&relay->to_watch);
	jr_buf_clear(&relay->left);
	relay->done = 0;
}

/*
 * Writing has failed. If the reader is gone (EPIPE), close the child's stream, so that its next write fails too.
 * Another reason (the disk is full, the descriptor is closed) must not end the child: the rest of its output is only
 * kept.
 */
static void
give_up(struct jr_relay *relay)
{
	int error = errno;

	forget_left(relay);
	if (error == EPIPE) {
		close_from(relay);
		return;
	}
	jr_log(JR_WARN, JR_EVENT_OUTPUT_LOST, JR_I("fd", relay->to), JR_S("error", strerror(error)));
	relay->kind = JR_RELAY_KEEP;
	if (relay->from >= 0)
		jr_watch_set(relay->loop, &relay->from_watch, relay->from, POLLIN);
}

/* Write what is left, and watch our descriptor if some remains, else the child's. */
static void
pass_on(struct jr_relay *relay)
{
	ssize_t n = jr_fd_write_some(target(relay), relay->left.data + relay->done, relay->left.len - relay->done);

	if (n < 0) {
		give_up(relay);
		return;
	}
	relay->done += (size_t)n;
	if (!is_written(relay)) {
		jr_watch_remove(&relay->from_watch);
		jr_watch_set(relay->loop, &relay->to_watch, target(relay), POLLOUT);
		return;
	}
	forget_left(relay);
	if (relay->from >= 0)
		jr_watch_set(relay->loop, &relay->from_watch, relay->from, POLLIN);
}

static void
keep(struct jr_relay *relay, const char *bytes, size_t len)
{
	jr_capture_add(relay->capture, bytes, len);
	if (relay->visible)
		show_whole(relay, bytes, len);
	else if (relay->kind == JR_RELAY_COPY || relay->kind == JR_RELAY_RAW)
		(void)jr_fd_write(target(relay), bytes, len); /* if it fails, the capture has the bytes */
	if (relay->kind != JR_RELAY_WHOLE)
		return;
	jr_buf_add(&relay->left, bytes, len);
	pass_on(relay);
}

void
jr_relay_take(struct jr_relay *relay, int pieces)
{
	while (pieces-- > 0 && relay->from >= 0 && is_written(relay)) {
		char bytes[PIECE];
		ssize_t n = read(relay->from, bytes, sizeof(bytes));

		if (n > 0)
			keep(relay, bytes, (size_t)n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			close_from(relay);
		else if (errno == EAGAIN)
			return;
	}
}

static void
tell_end(struct jr_relay *relay)
{
	if (jr_relay_is_over(relay))
		relay->ended(relay->ctx);
}

static void
on_readable(void *ctx, short revents)
{
	struct jr_relay *relay = ctx;

	(void)revents;
	jr_relay_take(relay, PIECES_A_TURN);
	tell_end(relay);
}

static void
on_writable(void *ctx, short revents)
{
	struct jr_relay *relay = ctx;

	(void)revents;
	pass_on(relay);
	tell_end(relay);
}

void
jr_relay_init(
    struct jr_relay *relay, struct jr_capture *capture, enum jr_relay_kind kind, int to, jr_relay_fn *ended, void *ctx)
{
	*relay = (struct jr_relay){
	    .capture = capture, .kind = kind, .from = -1, .to = to, .own = -1, .ended = ended, .ctx = ctx};
	jr_watch_init(&relay->from_watch, on_readable, relay);
	jr_watch_init(&relay->to_watch, on_writable, relay);
	jr_buf_init(&relay->left, PIECE);
}

void
jr_relay_open(struct jr_relay *relay, struct jr_loop *loop, int from)
{
	relay->loop = loop;
	relay->from = from;
	if (relay->kind != JR_RELAY_KEEP)
		relay->own = jr_fd_own_terminal(relay->to);
	relay->visible = relay->kind == JR_RELAY_COPY && isatty(relay->to) == 1;
	jr_watch_set(loop, &relay->from_watch, from, POLLIN);
}

bool
jr_relay_is_over(const struct jr_relay *relay)
{
	return relay->from < 0 && is_written(relay);
}

bool
jr_relay_is_held_up(const struct jr_relay *relay)
{
	return !is_written(relay);
}

void
jr_relay_close(struct jr_relay *relay)
{
	forget_left(relay);
	close_from(relay);
	jr_fd_close(relay->own);
	relay->own = -1;
	jr_buf_release(&relay->left);
}
