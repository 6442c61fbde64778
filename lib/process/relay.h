/*
 * relay: one stream that a child writes: read to its end, kept in a capture, and passed on to a descriptor of ours.
 *
 * Passed on as a copy for people (JR_RELAY_COPY) is what can be written at once, and the rest of it is not; to a
 * terminal what could move its cursor is made visible, unless it is to be raw (JR_RELAY_RAW). Passed on
 * as a whole (JR_RELAY_WHOLE) is every byte: while our descriptor takes nothing more is read, so that the child waits
 * just as if it wrote there itself; when nobody reads there any more, the child's stream is closed before it; and when
 * that cannot be written for another reason, the rest is kept alone.
 */
#ifndef JR_RELAY_H
#define JR_RELAY_H

#include "base/buf.h"
#include "base/loop.h"

enum jr_relay_kind {
	JR_RELAY_KEEP, /* only kept */
	JR_RELAY_COPY,
	JR_RELAY_RAW, /* a copy, as it came */
	JR_RELAY_WHOLE
};

/* The stream has ended, and all of it is passed on. May close the relay. */
typedef void jr_relay_fn(void *ctx);

/* Storage of the caller. */
struct jr_relay {
	struct jr_loop *loop;
	struct jr_capture *capture;
	jr_relay_fn *ended;
	void *ctx;
	enum jr_relay_kind kind;
	int from; /* -1: it has ended, or was not opened */
	int to;
	int own; /* the same in a description of our own; -1: none */
	struct jr_watch from_watch, to_watch;
	bool visible; /* a copy for a terminal */
	char cut[4];  /* the beginning of a character whose rest has not come yet */
	size_t cut_len;
	struct jr_buf left; /* read, and not passed on yet */
	size_t done;        /* bytes of it that are */
};

/* capture is borrowed, and may be that of other relays too. to: borrowed; not used to KEEP. */
void jr_relay_init(
    struct jr_relay *relay, struct jr_capture *capture, enum jr_relay_kind kind, int to, jr_relay_fn *ended, void *ctx);

/* Begin to read from `from`, which does not block. Taken. */
void jr_relay_open(struct jr_relay *relay, struct jr_loop *loop, int from);

/* Read what is there now, at most so many pieces. `ended` is not called. */
void jr_relay_take(struct jr_relay *relay, int pieces);

bool jr_relay_is_over(const struct jr_relay *relay);    /* as `ended` says */
bool jr_relay_is_held_up(const struct jr_relay *relay); /* our descriptor takes nothing more now */

/* What is not passed on yet is lost. Repeated it is no harm. */
void jr_relay_close(struct jr_relay *relay);

#endif
