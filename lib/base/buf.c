/*
 * buf: a byte buffer with a fixed limit, and a capture that keeps head and tail of a stream.
 *
 * A buffer owns storage only when size > 0. Before the first byte, and after a detach, `data` is a
 * constant empty string that is never written to: an empty buffer needs no release. What must hold:
 * len <= limit, len < size when size > 0, data[len] == '\0'.
 */
#include "base/buf.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 64        /* first allocation of a buffer */
#define RING_FIRST_SIZE 4096 /* first allocation of a capture's tail */

static const char nothing[1] = "";

static void
set_nothing(struct jr_buf *buf)
{
	buf->data = strchr(nothing, '\0'); /* strchr takes the const off; never written while size is 0 */
	buf->len = 0;
	buf->size = 0;
}

void
jr_buf_init(struct jr_buf *buf, size_t limit)
{
	assert(limit < SIZE_MAX / 2);
	set_nothing(buf);
	buf->limit = limit;
	buf->overflow = false;
}

void
jr_buf_release(struct jr_buf *buf)
{
	if (buf->size > 0)
		free(buf->data);
	*buf = (struct jr_buf){0};
}

void
jr_buf_clear(struct jr_buf *buf)
{
	buf->len = 0;
	buf->overflow = false;
	if (buf->size > 0)
		buf->data[0] = '\0';
}

/* Make room for `more` bytes and the terminator. Sets overflow and returns false if that would pass the limit. */
static bool
reserve(struct jr_buf *buf, size_t more)
{
	size_t need, size;

	if (buf->overflow || more > buf->limit - buf->len) {
		buf->overflow = true;
		return false;
	}
	need = buf->len + more + 1;
	if (need <= buf->size)
		return true;
	size = buf->size > 0 ? buf->size : FIRST_SIZE;
	while (size < need)
		size *= 2;
	if (size > buf->limit + 1)
		size = buf->limit + 1;
	buf->data = jr_xrealloc(buf->size > 0 ? buf->data : NULL, size, 1);
	buf->data[buf->len] = '\0';
	buf->size = size;
	return true;
}

bool
jr_buf_add(struct jr_buf *buf, const void *data, size_t len)
{
	if (len == 0)
		return !buf->overflow;
	if (!reserve(buf, len))
		return false;
	memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return true;
}

bool
jr_buf_adds(struct jr_buf *buf, const char *s)
{
	return jr_buf_add(buf, s, strlen(s));
}

bool
jr_buf_addc(struct jr_buf *buf, char c)
{
	return jr_buf_add(buf, &c, 1);
}

/* A large batch prints several numbers for each run: this takes a tenth of what printf does. */
const char *
jr_print_int(char out[24], int64_t number)
{
	uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	char digits[24];
	size_t at = sizeof(digits);

	digits[--at] = '\0';
	do
		digits[--at] = (char)('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (number < 0)
		digits[--at] = '-';
	return memcpy(out, digits + at, sizeof(digits) - at);
}

bool
jr_buf_addi(struct jr_buf *buf, int64_t number)
{
	char digits[24];

	return jr_buf_adds(buf, jr_print_int(digits, number));
}

bool
jr_buf_addf(struct jr_buf *buf, const char *fmt, ...)
{
	va_list args, again;
	int len;
	bool done;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, args);
	done = len >= 0 && reserve(buf, (size_t)len);
	if (done) {
		(void)vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
		buf->len += (size_t)len;
	} else {
		buf->overflow = true;
	}
	va_end(again);
	va_end(args);
	return done;
}

char *
jr_buf_detach(struct jr_buf *buf)
{
	char *data = buf->size > 0 ? buf->data : jr_xstrdup("");

	set_nothing(buf);
	buf->overflow = false;
	return data;
}

void
jr_capture_init(struct jr_capture *c, size_t head_max, size_t tail_max)
{
	*c = (struct jr_capture){.head_max = head_max, .tail_max = tail_max};
	jr_buf_init(&c->head, head_max);
}

void
jr_capture_release(struct jr_capture *c)
{
	jr_buf_release(&c->head);
	free(c->ring);
	*c = (struct jr_capture){0};
}

/*
 * Make the ring large enough for `need` bytes, at most tail_max. No byte is overwritten before the ring has its full
 * size, so the oldest byte is at its start whenever it grows.
 */
static void
grow_ring(struct jr_capture *c, size_t need)
{
	size_t size = c->ring_size > 0 ? c->ring_size : RING_FIRST_SIZE;

	if (need <= c->ring_size || c->ring_size == c->tail_max)
		return;
	assert(c->ring_start == 0);
	while (size < need && size < c->tail_max)
		size *= 2;
	if (size > c->tail_max)
		size = c->tail_max;
	c->ring = jr_xrealloc(c->ring, size, 1);
	c->ring_size = size;
}

/* len <= tail_max */
static void
add_to_ring(struct jr_capture *c, const char *data, size_t len)
{
	size_t end, first;

	grow_ring(c, c->ring_len + len);
	if (c->ring_len + len > c->ring_size) {
		size_t lost = c->ring_len + len - c->ring_size;

		c->ring_start = (c->ring_start + lost) % c->ring_size;
		c->ring_len -= lost;
		c->dropped += lost;
	}
	end = (c->ring_start + c->ring_len) % c->ring_size;
	first = len < c->ring_size - end ? len : c->ring_size - end;
	memcpy(c->ring + end, data, first);
	memcpy(c->ring, data + first, len - first);
	c->ring_len += len;
}

void
jr_capture_add(struct jr_capture *c, const void *data, size_t len)
{
	const char *bytes = data;
	size_t room = c->head_max - c->head.len;
	size_t to_head = len < room ? len : room;

	if (to_head > 0)
		(void)jr_buf_add(&c->head, bytes, to_head);
	bytes += to_head;
	len -= to_head;
	if (len > c->tail_max) {
		c->dropped += len - c->tail_max;
		bytes += len - c->tail_max;
		len = c->tail_max;
	}
	if (len > 0)
		add_to_ring(c, bytes, len);
}

bool
jr_capture_is_empty(const struct jr_capture *c)
{
	return c->head.len == 0 && c->ring_len == 0 && c->dropped == 0;
}

void
jr_capture_read(const struct jr_capture *c, struct jr_buf *out)
{
	size_t first = c->ring_size - c->ring_start;

	if (first > c->ring_len)
		first = c->ring_len;
	(void)jr_buf_add(out, c->head.data, c->head.len);
	if (c->dropped > 0) {
		if (c->head.len > 0 && c->head.data[c->head.len - 1] != '\n')
			(void)jr_buf_addc(out, '\n');
		(void)jr_buf_addf(out, "[... %llu bytes dropped ...]\n", (unsigned long long)c->dropped);
	}
	if (c->ring_len == 0)
		return;
	(void)jr_buf_add(out, c->ring + c->ring_start, first);
	(void)jr_buf_add(out, c->ring, c->ring_len - first);
}
