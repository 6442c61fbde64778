/*
 * batch_lines: see batch_lines.h.
 *
 * One part is with the server (`sent_at` >= 0), another is filled meanwhile. It is sent when it is full, or a second
 * after its first line, so that a bad line of a slow stream is reported soon. Before that the answer to the earlier one
 * is read.
 *
 * What must hold: two parts are all that is kept, each of at most PART_BYTES and one line.
 */
#include "batch_lines.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_ask.h"
#include "sql_text.h"

#define ANSWER_MS 30000
#define PART_LINES 5000 /* each part costs a round trip, a plan and a subtransaction */
#define PART_BYTES ((size_t)4 * 1048576)
#define PART_MS 1000
#define BYTES_MAX ((size_t)32 * 1048576)
#define BYTEA_OID 17

/* What a binary array begins with: integers of 32 bits, the highest byte first. */
struct header {
	uint32_t dimensions, has_nulls, type, count, first;
};

struct jr_batch_lines {
	PGconn *conn;
	struct jr_batch_common common;
	struct jr_buf part;             /* a header and the lines that are not sent yet */
	int64_t part_lines, part_texts; /* empty ones are no texts */
	int64_t part_began_ms;
	int64_t before;  /* lines of earlier parts */
	int64_t sent_at; /* lines before the part that is with the server; -1: there is none */
	struct jr_batch_counts counts;
	int64_t refused;
};

static void
clear_part(struct jr_batch_lines *lines)
{
	const struct header none = {0};

	lines->before += lines->part_lines;
	lines->part_lines = lines->part_texts = 0;
	jr_buf_clear(&lines->part);
	jr_buf_add(&lines->part, &none, sizeof(none));
}

struct jr_batch_lines *
jr_batch_lines_new(PGconn *conn, const struct jr_batch_common *common)
{
	struct jr_batch_lines *lines = jr_xcalloc(1, sizeof(*lines));

	lines->conn = conn;
	lines->common = *common;
	lines->sent_at = -1;
	jr_buf_init(&lines->part, BYTES_MAX);
	clear_part(lines);
	return lines;
}

void
jr_batch_lines_free(struct jr_batch_lines *lines)
{
	if (lines == NULL)
		return;
	jr_buf_release(&lines->part);
	free(lines);
}

int64_t
jr_batch_lines_refused(const struct jr_batch_lines *lines)
{
	return lines->refused;
}

struct jr_batch_counts
jr_batch_lines_counts(const struct jr_batch_lines *lines)
{
	return lines->counts;
}

/* "line 17: ...": the number; the prefix is removed. 0: the message does not begin so. */
static int64_t
take_number(struct jr_err *err)
{
	static const char mark[] = "line ";
	size_t at = sizeof(mark) - 1, digits = strspn(err->msg + at, "0123456789");
	struct jr_err old = *err;

	if (strncmp(err->msg, mark, at) != 0 || digits == 0 || strncmp(err->msg + at + digits, ": ", 2) != 0)
		return 0;
	memmove(err->msg, old.msg + at + digits + 2, strlen(old.msg + at + digits + 2) + 1);
	return strtoll(old.msg + at, NULL, 10);
}

/* Wait for the answer to the part that is with the server, if there is one. */
static bool
take_answer(struct jr_batch_lines *lines, struct jr_err *err)
{
	PGresult *result;
	int64_t row;

	if (lines->sent_at < 0)
		return true;
	result = jr_pg_answer(lines->conn, ANSWER_MS, err);
	if (result == NULL)
		return false;
	if (jr_pg_is_error(result)) {
		jr_pg_result_error(result, err);
		jr_pg_advise(err, "enqueue", lines->conn);
		row = take_number(err);
		lines->refused = row > 0 ? lines->sent_at + row : 0;
		PQclear(result);
		return false;
	}
	lines->counts.created += jr_pg_int(result, 0, 0, 0);
	lines->counts.existed += jr_pg_int(result, 0, 1, 0);
	lines->sent_at = -1;
	PQclear(result);
	return true;
}

/* Wait until all of the part is sent, so that the server can begin; it has nothing else to do. */
static bool
flush_part(struct jr_batch_lines *lines, struct jr_err *err)
{
	int64_t deadline = jr_clock_after(jr_clock_now_ms(), ANSWER_MS);
	int left;

	while ((left = PQflush(lines->conn)) > 0) {
		struct pollfd fd = {.fd = PQsocket(lines->conn), .events = POLLIN | POLLOUT};
		int64_t rest = deadline - jr_clock_now_ms();
		int ready = rest <= 0 ? 0 : poll(&fd, 1, (int)rest);

		if (rest <= 0)
			return jr_fail(err, JR_E_TEMP, "the database did not take anything for %d s", ANSWER_MS / 1000);
		if (ready < 0 && errno != EINTR)
			return jr_fail(err, JR_E_BUG, "poll: %s", strerror(errno));
		if (ready > 0 && (fd.revents & ~POLLOUT) != 0 && PQconsumeInput(lines->conn) != 1)
			break;
	}
	if (left == 0)
		return true;
	jr_pg_conn_error(lines->conn, "could not send to the database", err);
	return false;
}

static bool
send_part(struct jr_batch_lines *lines, struct jr_err *err)
{
	const struct header header = {
	    htonl(1), htonl(1), htonl(BYTEA_OID), htonl((uint32_t)lines->part_lines), htonl(1)};
	const struct jr_batch_common *common = &lines->common;
	const char *values[] = {common->type, lines->part.data, common->options, common->per_run ? "t" : "f"};
	const int lengths[] = {0, (int)lines->part.len, 0, 0}, formats[] = {0, 1, 0, 0};

	memcpy(lines->part.data, &header, sizeof(header));
	if (PQsendQueryParams(
		lines->conn, jr_sql_enqueue_bulk, (int)JR_COUNT(values), NULL, values, lengths, formats, 0) != 1) {
		jr_pg_conn_error(lines->conn, "could not send to the database", err);
		return false;
	}
	lines->sent_at = lines->before;
	return flush_part(lines, err);
}

static bool
push(struct jr_batch_lines *lines, struct jr_err *err)
{
	if (!take_answer(lines, err) || (lines->part_texts > 0 && !send_part(lines, err)))
		return false;
	clear_part(lines);
	return true;
}

bool
jr_batch_lines_add(struct jr_batch_lines *lines, const char *text, size_t len, struct jr_err *err)
{
	uint32_t length = htonl(text == NULL ? UINT32_MAX : (uint32_t)len); /* -1: a null */

	if (lines->part_lines == 0)
		lines->part_began_ms = jr_clock_now_ms();
	lines->part_lines++;
	jr_buf_add(&lines->part, &length, sizeof(length));
	if (text != NULL) {
		lines->part_texts++;
		jr_buf_add(&lines->part, text, len);
	}
	if (lines->part.overflow)
		return jr_fail(err, JR_E_BUG, "a line of more than %zu bytes", BYTES_MAX);
	if (lines->part_lines < PART_LINES && lines->part.len < PART_BYTES)
		return true;
	return push(lines, err);
}

/* The server has said something: the answer, or, unasked, that it ends the connection. */
static bool
listen_to(struct jr_batch_lines *lines, struct jr_err *err)
{
	if (lines->sent_at >= 0)
		return take_answer(lines, err);
	if (PQconsumeInput(lines->conn) == 1)
		return true;
	jr_pg_conn_error(lines->conn, "lost the connection to the database", err);
	return false;
}

/* Milliseconds until the part is to be sent; -1: there is nothing to do. */
static int
wait_ms(const struct jr_batch_lines *lines)
{
	int64_t left = lines->part_began_ms + PART_MS - jr_clock_now_ms();

	if (lines->part_texts == 0)
		return lines->sent_at >= 0 ? ANSWER_MS : -1;
	return left <= 0 ? 0 : (int)left;
}

bool
jr_batch_lines_wait(struct jr_batch_lines *lines, int fd, struct jr_err *err)
{
	struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.events = POLLIN}};

	for (;;) {
		int ms = wait_ms(lines), ready;

		if (ms == 0 && !push(lines, err))
			return false;
		fds[1].fd = PQsocket(lines->conn);
		ready = poll(fds, 2, ms);
		if (ready < 0 && errno != EINTR)
			return jr_fail(err, JR_E_BUG, "poll: %s", strerror(errno));
		if (ready > 0 && fds[1].revents != 0 && !listen_to(lines, err))
			return false;
		if (ready > 0 && fds[0].revents != 0)
			return true;
		if (ready == 0 && !push(lines, err))
			return false;
	}
}

bool
jr_batch_lines_end(struct jr_batch_lines *lines, struct jr_err *err)
{
	return push(lines, err) && take_answer(lines, err);
}
