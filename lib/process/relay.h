/*
 * relay: read one output stream of a child to its end, keep it in a capture and pass it on to a descriptor of ours.
 *
 * A copy (JR_RELAY_COPY) passes on only as much as can be written at once and drops the rest of it. If the descriptor
 * is a terminal, control characters are made visible, unless the copy is raw (JR_RELAY_RAW). JR_RELAY_WHOLE passes on
 * every byte. While our descriptor takes no more, nothing is read, so that the child waits as if it wrote there itself.
 * When our descriptor has no reader any more (EPIPE), the child's stream is closed. When writing fails for another
 * reason, the rest is only kept.
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

/* Called when the stream has ended and all of it is passed on. May close the relay. */
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
	int own; /* the terminal behind `to`, reopened non-blocking; -1: `to` is no terminal */
	struct jr_watch from_watch, to_watch;
	bool visible; /* make control characters visible */
	char cut[4];  /* the beginning of a character whose rest has not come yet */
	size_t cut_len;
	struct jr_buf left; /* bytes to pass on */
	size_t done;        /* how many of them are passed on */
};

/* `capture` is borrowed and may be shared with other relays. `to` is borrowed and not used with JR_RELAY_KEEP. */
void jr_relay_init(
    struct jr_relay *relay, struct jr_capture *capture, enum jr_relay_kind kind, int to, jr_relay_fn *ended, void *ctx);

/* Begin to read from `from`, which must be non-blocking. Takes it. */
void jr_relay_open(struct jr_relay *relay, struct jr_loop *loop, int from);

/* Read what is there now, at most so many pieces. Does not call `ended`. */
void jr_relay_take(struct jr_relay *relay, int pieces);

bool jr_relay_is_over(const struct jr_relay *relay);    /* the stream has ended and all of it is passed on */
bool jr_relay_is_held_up(const struct jr_relay *relay); /* our descriptor takes nothing more now */

/* Close the stream. Bytes that are not passed on yet are dropped. May be called again. */
void jr_relay_close(struct jr_relay *relay);

#endif
