/*
 * copy: see copy.h.
 *
 * The server checks rows twice: COPY checks each row as it comes, and triggers check all rows of a part at its end. So
 * parts are short. During a COPY libpq does not report that the server has refused a row, and the server discards the
 * rows that follow, but its message makes the socket readable. So when the server has sent anything, the part is ended.
 * That returns the error if there is one; if there is none, the next row begins another part.
 *
 * What must hold: between two calls only `rows` waits to be sent, so memory is bounded by PUSH_BYTES and one row.
 */
#include "pg/copy.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "pg/pg_ask.h"

#define PROGRESS_MS 30000
#define PUSH_BYTES 65536
#define PART_ROWS 5000 /* each part costs a round trip and a trigger call */
#define PART_MS 1000   /* end the part when no row has come for so long */
#define PART_BYTES ((size_t)4 * 1048576)
#define ROWS_MAX ((size_t)32 * 1048576)

struct jr_copy {
	PGconn *conn;
	const char *sql, *relation;
	struct jr_buf rows; /* not sent yet */
	bool open;          /* a COPY has begun and not ended */
	bool heard;         /* the server has sent something since it began */
	int64_t before;     /* rows of the parts that have ended */
	int64_t part_rows;  /* rows of this part, sent or not */
	size_t part_bytes;
	int64_t refused;
};

struct jr_copy *
jr_copy_new(PGconn *conn, const char *sql, const char *relation)
{
	struct jr_copy *copy = jr_xcalloc(1, sizeof(*copy));

	copy->conn = conn;
	copy->sql = sql;
	copy->relation = relation;
	jr_buf_init(&copy->rows, ROWS_MAX);
	return copy;
}

void
jr_copy_free(struct jr_copy *copy)
{
	if (copy == NULL)
		return;
	jr_buf_release(&copy->rows);
	free(copy);
}

int64_t
jr_copy_refused(const struct jr_copy *copy)
{
	return copy->refused;
}

/* The line number at `text`; 0: there is none, or it is out of range. */
static int64_t
number_at(const char *text)
{
	long long row;

	errno = 0;
	row = strtoll(text, NULL, 10);
	return errno == 0 && row > 0 ? row : 0;
}

/*
 * "...\nCOPY new_runs, line 17, column payload: ...": the COPY is the outermost context and so the last line, since no
 * value contains a line feed. In every language the line number is the first number after the name.
 */
static int64_t
find_in_context(const PGresult *result, const char *relation)
{
	const char *context = PQresultErrorField(result, PG_DIAG_CONTEXT), *line;

	if (context == NULL)
		return 0;
	line = strrchr(context, '\n');
	line = line == NULL ? context : line + 1;
	if (strncmp(line, "COPY ", 5) != 0 || strncmp(line + 5, relation, strlen(relation)) != 0)
		return 0;
	line += 5 + strlen(relation);
	while (*line != '\0' && !isdigit((unsigned char)*line))
		line++;
	return number_at(line);
}

/* "line 17: ...": a trigger of the relation reports a row that COPY itself could read. Removes the prefix. */
static int64_t
take_from_message(struct jr_err *err)
{
	static const char mark[] = "line ";
	size_t at = sizeof(mark) - 1, digits = strspn(err->msg + at, "0123456789");
	struct jr_err old = *err;

	if (strncmp(err->msg, mark, at) != 0 || digits == 0 || strncmp(err->msg + at + digits, ": ", 2) != 0)
		return 0;
	memmove(err->msg, old.msg + at + digits + 2, strlen(old.msg + at + digits + 2) + 1);
	return number_at(old.msg + at);
}

static bool
judge(struct jr_copy *copy, const PGresult *result, struct jr_err *err)
{
	int64_t row;

	if (!jr_pg_is_error(result))
		return true;
	jr_pg_result_error(result, err);
	row = find_in_context(result, copy->relation);
	if (row == 0)
		row = take_from_message(err);
	copy->refused = row > 0 ? copy->before + row : 0;
	return false;
}

static bool
begin_part(struct jr_copy *copy, struct jr_err *err)
{
	PGresult *result = jr_pg_ask(copy->conn, copy->sql, 0, NULL, PROGRESS_MS, err);
	bool ok = result != NULL && PQresultStatus(result) == PGRES_COPY_IN;

	if (result != NULL && !ok)
		jr_fail(err, JR_E_BUG, "the statement is no COPY");
	PQclear(result);
	copy->open = ok;
	copy->heard = false;
	return ok;
}

static bool
end_part(struct jr_copy *copy, struct jr_err *err)
{
	PGresult *result = NULL;
	bool ok;

	copy->open = false;
	if (PQputCopyEnd(copy->conn, NULL) == 1)
		result = jr_pg_answer(copy->conn, PROGRESS_MS, err);
	else
		jr_pg_conn_error(copy->conn, "lost the connection to the database", err);
	ok = result != NULL && judge(copy, result, err);
	PQclear(result);
	copy->before += copy->part_rows;
	copy->part_rows = 0;
	copy->part_bytes = 0;
	return ok;
}

/* Read what the server has sent. libpq keeps it until the end of the part. */
static bool
listen_to(struct jr_copy *copy, struct jr_err *err)
{
	copy->heard = true;
	if (PQconsumeInput(copy->conn) == 1)
		return true;
	jr_pg_conn_error(copy->conn, "lost the connection to the database", err);
	return false;
}

/* Wait until libpq has nothing left to send. */
static bool
drain(struct jr_copy *copy, struct jr_err *err)
{
	int left;

	while ((left = PQflush(copy->conn)) > 0) {
		struct pollfd fd = {.fd = PQsocket(copy->conn), .events = POLLIN | POLLOUT};
		int ready = poll(&fd, 1, PROGRESS_MS);

		if (ready == 0)
			return jr_fail(
			    err, JR_E_TEMP, "the database did not take anything for %d s", PROGRESS_MS / 1000);
		if (ready < 0 && errno != EINTR)
			return jr_fail(err, JR_E_BUG, "poll: %s", strerror(errno));
		if (ready > 0 && (fd.revents & ~POLLOUT) != 0 && !listen_to(copy, err))
			return false;
	}
	if (left == 0)
		return true;
	jr_pg_conn_error(copy->conn, "could not send to the database", err);
	return false;
}

/* Send the buffered rows. End the part when it is long enough or when the server has sent something. */
static bool
push(struct jr_copy *copy, struct jr_err *err)
{
	if (copy->rows.len > 0) {
		if (!copy->open && !begin_part(copy, err))
			return false;
		if (PQputCopyData(copy->conn, copy->rows.data, (int)copy->rows.len) != 1) {
			jr_pg_conn_error(copy->conn, "could not send to the database", err);
			return false;
		}
		copy->part_bytes += copy->rows.len;
		jr_buf_clear(&copy->rows);
		if (!drain(copy, err))
			return false;
	}
	if (copy->open && (copy->heard || copy->part_rows >= PART_ROWS || copy->part_bytes >= PART_BYTES))
		return end_part(copy, err);
	return true;
}

static char
letter_of(char c)
{
	switch (c) {
	case '\\':
		return '\\';
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\t':
		return 't';
	default:
		return '\0';
	}
}

static void
add_value(struct jr_buf *rows, const struct jr_copy_value *value)
{
	size_t start = 0;

	if (value->data == NULL) {
		jr_buf_adds(rows, "\\N");
		return;
	}
	for (size_t i = 0; i < value->len; i++) {
		char letter = letter_of(value->data[i]);

		if (letter == '\0')
			continue;
		jr_buf_add(rows, value->data + start, i - start);
		jr_buf_addc(rows, '\\');
		jr_buf_addc(rows, letter);
		start = i + 1;
	}
	jr_buf_add(rows, value->data + start, value->len - start);
}

bool
jr_copy_row(struct jr_copy *copy, const struct jr_copy_value *values, size_t count, struct jr_err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			jr_buf_addc(&copy->rows, '\t');
		add_value(&copy->rows, &values[i]);
	}
	jr_buf_addc(&copy->rows, '\n');
	copy->part_rows++;
	if (copy->rows.overflow)
		return jr_fail(err, JR_E_BUG, "a row of more than %zu bytes", ROWS_MAX);
	if (copy->rows.len < PUSH_BYTES && copy->part_rows < PART_ROWS)
		return true;
	return push(copy, err);
}

bool
jr_copy_wait(struct jr_copy *copy, int fd, struct jr_err *err)
{
	struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.events = POLLIN}};
	int ready;

	if (poll(fds, 1, 0) > 0)
		return true;
	do {
		if (!push(copy, err))
			return false;
		fds[1].fd = PQsocket(copy->conn);
		ready = poll(fds, 2, copy->open ? PART_MS : -1);
		if (ready < 0 && errno != EINTR)
			return jr_fail(err, JR_E_BUG, "poll: %s", strerror(errno));
		if (ready > 0 && fds[1].revents != 0 && !listen_to(copy, err))
			return false;
		if (ready == 0 && !end_part(copy, err))
			return false;
	} while (ready <= 0 || fds[0].revents == 0);
	return true;
}

bool
jr_copy_end(struct jr_copy *copy, struct jr_err *err)
{
	if (!push(copy, err))
		return false;
	return !copy->open || end_part(copy, err);
}
