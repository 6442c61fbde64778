/*
 * buf: a byte buffer that cannot grow past the limit given to jr_buf_init, and a capture that keeps head and tail.
 *
 * struct jr_buf: `data` is never NULL after jr_buf_init and data[len] is always '\0' (the bytes may contain NUL too).
 * An append that would pass the limit adds nothing and sets `overflow`, and every later append is refused. So a caller
 * may append a whole document and check `overflow` once at the end.
 */
#ifndef JR_BUF_H
#define JR_BUF_H

#include "base/base.h"

struct jr_buf {
	char *data;
	size_t len;
	size_t size;
	size_t limit;
	bool overflow;
};

void jr_buf_init(struct jr_buf *buf, size_t limit);
void jr_buf_release(struct jr_buf *buf); /* frees; the buffer may be initialised again; safe on a zeroed struct */
void jr_buf_clear(struct jr_buf *buf);   /* len = 0, overflow = false; keeps the storage */
bool jr_buf_add(struct jr_buf *buf, const void *data, size_t len);
bool jr_buf_adds(struct jr_buf *buf, const char *s);
bool jr_buf_addc(struct jr_buf *buf, char c);
bool jr_buf_addi(struct jr_buf *buf, int64_t number); /* as jr_print_int prints it */
bool jr_buf_addf(struct jr_buf *buf, const char *fmt, ...) JR_PRINTF(2, 3);
char *jr_buf_detach(struct jr_buf *buf) JR_MUST; /* the bytes, which the caller frees; the buffer is empty afterwards */

/* The decimal text of a number, in *out; returns it. */
const char *jr_print_int(char out[24], int64_t number);

/*
 * A capture takes a stream of any length, keeps its first `head_max` and last `tail_max` bytes and counts the bytes
 * between them. Memory is bounded by head_max + tail_max and allocated as it is needed.
 */
struct jr_capture {
	struct jr_buf head;
	char *ring;
	size_t head_max, tail_max;
	size_t ring_size;  /* allocated, up to tail_max */
	size_t ring_start; /* oldest byte */
	size_t ring_len;
	uint64_t dropped; /* bytes between head and tail that were not kept */
};

void jr_capture_init(struct jr_capture *c, size_t head_max, size_t tail_max);
void jr_capture_release(struct jr_capture *c);
void jr_capture_add(struct jr_capture *c, const void *data, size_t len);
bool jr_capture_is_empty(const struct jr_capture *c);

/*
 * Append to *out the head, the line "[... N bytes dropped ...]" if bytes were dropped, and the tail. A cut may split a
 * character: the caller applies jr_text_clean to *out.
 */
void jr_capture_read(const struct jr_capture *c, struct jr_buf *out);

#endif
