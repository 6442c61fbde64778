/*
 * log: see log.h.
 *
 * A line is built in fixed storage and written at once, so that lines of several processes do not mix in a pipe. Both
 * formats quote with the escapes of a JSON string. What must hold: a line is never longer than LINE_MAX_BYTES and a
 * value never longer than VALUE_MAX; a longer value is cut, and a field that does not fit into the line is left out.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096 /* PIPE_BUF of Linux: a write of up to this size to a pipe is atomic */
#define VALUE_MAX 1024      /* bytes of a value, escapes included */
#define CUT "..."           /* follows a value that was cut */

static struct {
	enum jr_level level;
	enum jr_log_format format;
	int fd;
	bool is_journal;
} sink = {JR_WARN, JR_LOG_TEXT, STDERR_FILENO, false};

/* A piece of a line. A text that does not fit completely is not added. */
struct piece {
	char text[LINE_MAX_BYTES];
	size_t len;
};

static bool
add(struct piece *piece, const char *text, size_t len, size_t limit)
{
	if (len > limit - piece->len)
		return false;
	memcpy(piece->text + piece->len, text, len);
	piece->len += len;
	return true;
}

static void
adds(struct piece *piece, const char *text)
{
	bool fits = add(piece, text, strlen(text), sizeof(piece->text));

	assert(fits); /* callers pass only short texts */
	(void)fits;
}

/* The allow-list: the keys that may stand in a log line. A new key goes here and into the manual page. */
static bool
is_known(const char *key)
{
	static const char *const keys[] = {"attempt", "claim", "code", "count", "db", "definition", "delay_ms", "error",
	    "fd", "from", "host", "ms", "n", "outcome", "path", "pid", "queue", "reason", "run", "signal", "slot",
	    "slots", "state", "to", "type"};

	for (size_t i = 0; i < JR_COUNT(keys); i++)
		if (keys[i][0] == key[0] && strcmp(keys[i], key) == 0)
			return true;
	return false;
}

/* Length in bytes of the character at s, which is valid UTF-8. */
static size_t
character(const char *s)
{
	unsigned char lead = (unsigned char)s[0];

	return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
}

/* C0, DEL, C1 and controls of text direction: a log is read on a terminal. */
static bool
is_escaped(const char *s, size_t len)
{
	unsigned char c = (unsigned char)s[0], second = (unsigned char)s[1];

	if (len == 1)
		return c < ' ' || c == 0x7F;
	if (c == 0xC2)
		return second < 0xA0;
	if (c == 0xD8)
		return second == 0x9C;
	if (len == 3 && c == 0xE2) {
		unsigned char third = (unsigned char)s[2];

		return (second == 0x80 && (third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE))) ||
		       (second == 0x81 && third >= 0xA6 && third <= 0xA9);
	}
	return false;
}

/* Write one character to `out` as it stands inside quotes. Returns the number of bytes. */
static size_t
escape(const char *s, size_t len, char out[8])
{
	static const char letters[][2] = {{'"', '"'}, {'\\', '\\'}, {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}};
	unsigned int code = (unsigned char)s[0];

	for (size_t i = 0; len == 1 && i < JR_COUNT(letters); i++) {
		if (s[0] == letters[i][0]) {
			out[0] = '\\';
			out[1] = letters[i][1];
			return 2;
		}
	}
	if (!is_escaped(s, len)) {
		memcpy(out, s, len);
		return len;
	}
	if (len == 2)
		code = (code & 0x1Fu) << 6 | ((unsigned char)s[1] & 0x3Fu);
	else if (len == 3)
		code = (code & 0x0Fu) << 12 | ((unsigned char)s[1] & 0x3Fu) << 6 | ((unsigned char)s[2] & 0x3Fu);
	return (size_t)snprintf(out, 8, "\\u%04x", code & 0xFFFFu);
}

static void
add_quoted(struct piece *piece, const char *text)
{
	size_t limit = piece->len + VALUE_MAX;

	adds(piece, "\"");
	for (const char *s = text; *s != '\0';) {
		size_t len = character(s);
		char out[8];
		size_t out_len = escape(s, len, out);

		if (!add(piece, out, out_len, limit)) {
			adds(piece, CUT);
			break;
		}
		s += len;
	}
	adds(piece, "\"");
}

/* Needs no quotes in logfmt: not empty, not too long, and no byte that logfmt gives a meaning. */
static bool
is_plain(const char *text)
{
	if (*text == '\0' || strlen(text) > VALUE_MAX)
		return false;
	for (const char *s = text; *s != '\0'; s += character(s))
		if (*s == ' ' || *s == '=' || *s == '"' || *s == '\\' || is_escaped(s, character(s)))
			return false;
	return true;
}

static void
add_value(struct piece *piece, const struct jr_field *field)
{
	char *text;

	if (field->type == JR_INT) {
		char number[24];

		(void)snprintf(number, sizeof(number), "%lld", (long long)field->num);
		adds(piece, number);
		return;
	}
	text = jr_text_clean(field->str, strlen(field->str), VALUE_MAX + 4); /* one character more shows the cut */
	if (sink.format == JR_LOG_TEXT && is_plain(text))
		adds(piece, text);
	else
		add_quoted(piece, text);
	free(text);
}

static void
add_field(struct piece *line, const struct jr_field *field)
{
	struct piece piece = {.len = 0};
	size_t reserve = 2; /* "}\n" */

	if (field->type == JR_STR && field->str == NULL)
		return;
	if (sink.format == JR_LOG_JSON) {
		adds(&piece, ",\"");
		adds(&piece, field->key);
		adds(&piece, "\":");
	} else {
		adds(&piece, " ");
		adds(&piece, field->key);
		adds(&piece, "=");
	}
	add_value(&piece, field);
	(void)add(line, piece.text, piece.len, sizeof(line->text) - reserve);
}

static void
add_head(struct piece *line, enum jr_level level, enum jr_event event)
{
	static const char *const words[] = {"error", "warn", "info", "debug"};
	static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"}; /* of syslog(3) */
#define X(name, word) word,
	static const char *const events[] = {JR_EVENTS(X)};
#undef X
	bool is_json = sink.format == JR_LOG_JSON;
	int64_t wall_ms = jr_clock_wall_ms();
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm = {0};
	char stamp[64];

	(void)gmtime_r(&seconds, &tm);
	(void)snprintf(stamp, sizeof(stamp), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
	    tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(wall_ms % 1000));
	adds(line, sink.is_journal ? priorities[level] : "");
	adds(line, is_json ? "{\"time\":\"" : "");
	adds(line, stamp);
	adds(line, is_json ? "\",\"level\":\"" : " ");
	adds(line, words[level]);
	adds(line, is_json ? "\",\"event\":\"" : " event=");
	adds(line, events[event]);
	adds(line, is_json ? "\"" : "");
}

/* JOURNAL_STREAM is "DEVICE:INODE" of the descriptor that was connected to the journal; this one may be another. */
static bool
is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat stat;
	char expected[48];

	if (stream == NULL || fstat(fd, &stat) != 0)
		return false;
	(void)snprintf(
	    expected, sizeof(expected), "%llu:%llu", (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino);
	return strcmp(stream, expected) == 0;
}

void
jr_log_init(enum jr_level level, enum jr_log_format format, int fd)
{
	sink.level = level;
	sink.format = format;
	sink.fd = fd;
	sink.is_journal = is_journal(fd);
}

bool
jr_log_is_on(enum jr_level level)
{
	return level <= sink.level;
}

void
jr_log_fields(enum jr_level level, enum jr_event event, const struct jr_field *fields, size_t count)
{
	struct piece line = {.len = 0};

	if (!jr_log_is_on(level))
		return;
	for (size_t i = 0; i < count; i++)
		assert(is_known(fields[i].key));
	add_head(&line, level, event);
	for (size_t i = 0; i < count; i++)
		add_field(&line, &fields[i]);
	adds(&line, sink.format == JR_LOG_JSON ? "}\n" : "\n");
	jr_fd_offer(sink.fd, line.text, line.len); /* a reader that does not read must not stop a runner */
}
