/*
 * payload: see payload.h.
 *
 * PostgreSQL names the line and quotes the text up to the error ("JSON data, line 2: ...text up to it..."). The place
 * in the payload where that text ends is the place of the error. Before PostgreSQL 14 the line is the one in which the
 * quoted text begins.
 */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#define CHUNK 65536

static bool
fail_too_long(const char *name, size_t max, struct jr_err *err)
{
	return jr_fail(err, JR_E_DATA, "%s: the %s is longer than %zu bytes, the limit", name,
	    max == JR_PAYLOAD_MAX ? "payload" : "file", max);
}

static bool
check_bytes(const char *name, const char *data, size_t len, struct jr_err *err)
{
	const char *nul = memchr(data, '\0', len);

	if (nul == NULL)
		return true;
	return jr_fail(
	    err, JR_E_DATA, "%s: there is a NUL at byte %zu, which no text has", name, (size_t)(nul - data) + 1);
}

static bool
read_all(int fd, const char *name, struct jr_buf *buf, struct jr_err *err)
{
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return jr_fail(err, JR_E_DATA, "cannot read %s: %s", name, strerror(errno));
		if (n == 0)
			return check_bytes(name, buf->data, buf->len, err);
		if (!jr_buf_add(buf, chunk, (size_t)n))
			return fail_too_long(name, buf->limit, err);
	}
}

/* Without a byte order mark. Takes `text` over. */
static char *
unmark(char *text)
{
	size_t len = strlen(text), mark = jr_text_mark(text, len);

	memmove(text, text + mark, len + 1 - mark);
	return text;
}

static char *
read_descriptor(int fd, const char *name, size_t max, struct jr_err *err)
{
	struct jr_buf buf;
	char *text = NULL;

	jr_buf_init(&buf, max);
	if (read_all(fd, name, &buf, err))
		text = unmark(jr_buf_detach(&buf));
	jr_buf_release(&buf);
	return text;
}

static char *
read_path(const char *path, size_t max, struct jr_err *err)
{
	char *text;
	int fd;

	if (path[0] == '\0') {
		jr_fail(err, JR_E_USAGE, "the name of the file is empty");
		return NULL;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		jr_fail(err, JR_E_DATA, "cannot open %s: %s", path, strerror(errno));
		return NULL;
	}
	text = read_descriptor(fd, path, max, err);
	close(fd);
	return text;
}

char *
jr_payload_read_file(const char *path, size_t max, struct jr_err *err)
{
	return strcmp(path, "-") == 0 ? read_descriptor(STDIN_FILENO, "stdin", max, err) : read_path(path, max, err);
}

char *
jr_payload_read(const char *argument, struct jr_err *err)
{
	if (strcmp(argument, "-") == 0)
		return read_descriptor(STDIN_FILENO, "stdin", JR_PAYLOAD_MAX, err);
	if (argument[0] == '@')
		return read_path(argument + 1, JR_PAYLOAD_MAX, err);
	if (strlen(argument) <= JR_PAYLOAD_MAX)
		return unmark(jr_xstrdup(argument));
	fail_too_long("PAYLOAD", JR_PAYLOAD_MAX, err);
	return NULL;
}

bool
jr_payload_is_name(const char *payload)
{
	struct jr_err unused;

	return jr_parse_job_type("PAYLOAD", payload, &unused);
}

/* The beginning of a line, counted from 1; NULL if there are fewer lines. */
static const char *
find_line(const char *text, long number)
{
	while (number > 1 && text != NULL) {
		text = strchr(text, '\n');
		if (text != NULL)
			text++;
		number--;
	}
	return number == 1 ? text : NULL;
}

/* Compare with the quoted text. In messages, spaces replace control bytes. */
static bool
is_same(const char *text, const char *quoted, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\0' || ((c < ' ' || c == 0x7F) ? ' ' : text[i]) != quoted[i])
			return false;
	}
	return true;
}

/*
 * Find the quoted text, which begins in this line, and return its end; NULL if it is not there. Since PostgreSQL 14 the
 * quoted text is within one line; before, it may go on in the next lines.
 */
static const char *
find_end(const char *line, const char *quoted, size_t len)
{
	size_t line_len = strcspn(line, "\n");

	for (size_t at = 0; len <= line_len && at <= line_len - len; at++) {
		if (is_same(line + at, quoted, len))
			return line + at + len;
	}
	for (size_t at = 0; at <= line_len; at++) {
		if (is_same(line + at, quoted, len))
			return line + at + len;
	}
	return NULL;
}

/* Move *line and *number to the line of `end`. Returns the number of characters in that line before `end`. */
static size_t
count_columns(const char **line, long *number, const char *end)
{
	size_t column = 0;

	for (const char *p = *line; p < end; p++) {
		if (*p == '\n' && p + 1 < end) {
			*line = p + 1;
			(*number)++;
			column = 0;
		} else
			column += ((unsigned char)*p & 0xC0) != 0x80;
	}
	return column;
}

static size_t
strip_dots(const char **quoted)
{
	size_t len = strlen(*quoted);

	if (len > 3 && memcmp(*quoted + len - 3, "...", 3) == 0)
		len -= 3;
	if (len > 3 && memcmp(*quoted, "...", 3) == 0) {
		*quoted += 3;
		len -= 3;
	}
	return len;
}

bool
jr_payload_locate_in(const char *what, const char *text, struct jr_err *err)
{
	static const char mark[] = "JSON data, line ";
	struct jr_err old = *err;
	char *context = strstr(old.msg, mark), *end;
	const char *quoted, *line, *stop;
	size_t len, column = 0;
	long number;

	if (strcmp(old.sqlstate, "54001") == 0) { /* the server advises to change max_stack_depth */
		jr_fail(err, old.code, "%s is nested too deeply", what);
		return true;
	}
	if (context == NULL || context < old.msg + 2)
		return false;
	number = strtol(context + sizeof(mark) - 1, &end, 10);
	if (*end != ':')
		return false;
	context[-2] = '\0';
	quoted = end + (end[1] == ' ' ? 2 : 1); /* at the end of a message the space is stripped */
	len = strip_dots(&quoted);
	line = find_line(text, number);
	stop = line == NULL || len == 0 ? NULL : find_end(line, quoted, len);
	if (stop != NULL)
		column = count_columns(&line, &number, stop);
	if (column > 0)
		jr_fail(err, old.code, "%s is not JSON: line %ld, column %zu: %s", what, number, column, old.msg);
	else
		jr_fail(err, old.code, "%s is not JSON: line %ld: %s", what, number, old.msg);
	memcpy(err->sqlstate, old.sqlstate, sizeof(err->sqlstate));
	return true;
}

bool
jr_payload_locate(const char *payload, struct jr_err *err)
{
	return jr_payload_locate_in("the payload", payload, err);
}
