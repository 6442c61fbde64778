/*
 * http_answer: receive an answer, with bounded memory.
 *
 * libcurl passes header lines one by one, including those of interim answers (1xx) and trailers, and the body in
 * pieces. Two header values of the final answer are kept, and the first bytes of the body. What must hold: memory does
 * not grow with the length of the answer, and nothing is decompressed. A transfer coding other than chunked is refused,
 * because libcurl would decompress it without being asked, and the sender would decide how much memory that needs.
 */
#include "handler/http_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_S (JR_RETRY_AFTER_MAX_MS / 1000)

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The value of a header line without blanks around it; NULL if the line has another name. Caller frees. */
static char *
value_of(const char *line, size_t len, const char *name)
{
	size_t start = strlen(name);

	if (len <= start || strncasecmp(line, name, start) != 0 || line[start] != ':')
		return NULL;
	start++;
	while (start < len && is_blank(line[start]))
		start++;
	while (len > start && is_blank(line[len - 1]))
		len--;
	return jr_xmemdup0(line + start, len - start);
}

static void
keep(char **slot, char *value)
{
	if (value == NULL)
		return;
	free(*slot);
	*slot = value;
}

static void
forget_headers(struct jr_incoming *in)
{
	free(in->retry_after);
	free(in->date);
	in->retry_after = in->date = NULL;
	in->headers_done = false;
}

void
jr_incoming_release(struct jr_incoming *in)
{
	forget_headers(in);
	free(in->body);
	*in = (struct jr_incoming){.cut = JR_CUT_NOT};
}

/* A header line of the answer: after the status line, before the body. */
static void
take_line(struct jr_incoming *in, const char *line, size_t len)
{
	char *coding = value_of(line, len, "Transfer-Encoding");

	if (coding != NULL && strcasecmp(coding, "chunked") != 0 && strcasecmp(coding, "identity") != 0)
		in->cut = JR_CUT_CODING;
	free(coding);
	keep(&in->retry_after, value_of(line, len, "Retry-After"));
	keep(&in->date, value_of(line, len, "Date"));
}

/* "HTTP/1.1 103 Early Hints": the final answer follows, at any time. */
static bool
is_interim(const char *data, size_t len)
{
	const char *blank = memchr(data, ' ', len);

	return blank != NULL && blank + 1 < data + len && blank[1] == '1';
}

size_t
jr_incoming_header(char *data, size_t size, size_t count, void *transfer)
{
	struct jr_incoming *in = &((struct jr_transfer *)transfer)->in;
	size_t len = size * count;

	in->header_bytes += len;
	if (in->heard_ms != 0)
		in->heard_ms = jr_clock_now_ms();
	if (in->header_bytes > JR_ANSWER_HEADERS_MAX)
		in->cut = JR_CUT_HEADERS;
	else if (len >= 5 && memcmp(data, "HTTP/", 5) == 0 && in->body_total == 0) {
		forget_headers(in);
		if (!is_interim(data, len))
			in->heard_ms = jr_clock_now_ms();
	} else if (len > 0 && (data[0] == '\r' || data[0] == '\n')) /* not a blank: a folded line */
		in->headers_done = true;
	else if (!in->headers_done)
		take_line(in, data, len);
	return in->cut == JR_CUT_NOT ? len : 0;
}

size_t
jr_incoming_body(char *data, size_t size, size_t count, void *transfer)
{
	struct jr_incoming *in = &((struct jr_transfer *)transfer)->in;
	size_t len = size * count;
	size_t room = JR_ANSWER_KEPT - in->body_len;
	size_t take = len < room ? len : room;

	if (in->body == NULL)
		in->body = jr_xmalloc(JR_ANSWER_KEPT);
	memcpy(in->body + in->body_len, data, take);
	in->body_len += take;
	in->body_total += (int64_t)len;
	in->heard_ms = jr_clock_now_ms();
	if (in->body_total < JR_ANSWER_MAX)
		return len;
	in->cut = JR_CUT_ENOUGH;
	return 0;
}

/* The number of seconds, at most MAX_S. -1: not only digits. */
static int64_t
seconds_of(const char *value)
{
	int64_t seconds = 0;

	for (; *value != '\0'; value++) {
		if (*value < '0' || *value > '9')
			return -1;
		if (seconds <= MAX_S)
			seconds = seconds * 10 + (*value - '0');
	}
	return seconds < MAX_S ? seconds : MAX_S;
}

/* All three forms of an HTTP date begin with the name of a day. curl_getdate alone would accept many other texts. */
static int64_t
date_of(const char *value)
{
	static const char *const days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
	struct jr_err err;

	for (size_t i = 0; i < JR_COUNT(days); i++) {
		if (strncmp(value, days[i], 3) == 0 && jr_curl_load(&err))
			return (int64_t)jr_curl.getdate(value, NULL);
	}
	return -1;
}

int64_t
jr_retry_after_ms(const char *value, const char *date, int64_t now_s)
{
	int64_t then_s, date_s, wait_s;

	if (value[0] >= '0' && value[0] <= '9') {
		wait_s = seconds_of(value);
		return wait_s < 0 ? -1 : wait_s * 1000;
	}
	then_s = date_of(value);
	date_s = date != NULL ? date_of(date) : -1;
	if (date_s >= 0)
		now_s = date_s;
	if (then_s < 0 || now_s < 0)
		return -1;
	wait_s = then_s - now_s;
	return (wait_s < 0 ? 0 : wait_s < MAX_S ? wait_s : MAX_S) * 1000;
}
