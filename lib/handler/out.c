/*
 * out: read the file that a handler writes, and keep the last line of each kind.
 *
 * The handler appends, and each call reads the new lines. A handler may also write with ">" instead of ">>": if the
 * file has changed without growing, or the last bytes that were read have changed, it is read from the beginning. What
 * must hold, whatever is in the file: memory is bounded by one line, the last line of each kind and the warnings; the
 * time of a call is bounded by JR_OUT_READ_MAX.
 */
#include "handler/out_parts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 16384
#define MARK_MAX 256 /* this many of the last bytes read are kept, to detect that the file was rewritten */
#define LINE_BYTES_MAX (JR_OUT_LINE_MAX + JR_OUT_LINE_SLACK)
#define WARNINGS_BYTES ((size_t)JR_OUT_WARNINGS_MAX * 1200 + 200)

struct said {
	char *line;
	bool is_new; /* not taken yet */
};

struct jr_out {
	struct jr_out_dir *dir;
	int fd;      /* -1: the handler has not created the file, as far as we have seen */
	bool absent; /* it has ended and has not created it */
	char *name, *path;
	char *checkpoint_name, *checkpoint_path; /* NULL: there was none */

	off_t offset;        /* the file has been read up to here */
	char mark[MARK_MAX]; /* the bytes before `offset` */
	size_t mark_len;
	struct timespec changed; /* the file's mtime at the last read */
	struct jr_buf line;      /* the beginning of a line that has no end yet */
	bool passing_over;       /* skip the rest of this line */
	int64_t line_number;     /* the number of the last complete line; -1: unknown */
	bool ended;

	struct said said[JR_SAYS_COUNT];
	int64_t retry_in_ms;
	struct jr_buf warnings;
	int64_t warning_count;
};

static void
warn(struct jr_out *out, const char *why)
{
	char *text;

	if (++out->warning_count > JR_OUT_WARNINGS_MAX)
		return;
	if (out->line_number > 0)
		text = jr_xasprintf("line %lld of JOBRUN_OUT: %s\n", (long long)out->line_number, why);
	else
		text = jr_xasprintf("a line of JOBRUN_OUT: %s\n", why);
	jr_buf_adds(&out->warnings, text);
	free(text);
}

static void
warn_of_file(struct jr_out *out, const char *why)
{
	if (++out->warning_count <= JR_OUT_WARNINGS_MAX)
		jr_buf_addf(&out->warnings, "JOBRUN_OUT: %s\n", why);
}

static bool
is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	}
	return true;
}

static void
take_line(struct jr_out *out, const char *text, size_t len)
{
	bool only_count = out->warning_count >= JR_OUT_WARNINGS_MAX;
	struct jr_out_line line;
	struct jr_err err;

	if (is_blank(text, len))
		return;
	if (!jr_out_line_read(text, len, &line, only_count ? NULL : &err)) {
		warn(out, only_count ? "" : err.msg);
		return;
	}
	for (size_t i = 0; i < JR_SAYS_COUNT; i++) {
		struct said *said = &out->said[i];

		if (!line.says[i] || i == JR_SAYS_RETRY_IN)
			continue;
		if (said->line != NULL && strncmp(said->line, text, len) == 0 && said->line[len] == '\0')
			continue;
		free(said->line);
		*said = (struct said){.line = jr_xmemdup0(text, len), .is_new = true};
	}
	if (line.says[JR_SAYS_RETRY_IN])
		out->retry_in_ms = line.retry_in_ms;
}

static void
end_line(struct jr_out *out)
{
	if (out->line_number >= 0)
		out->line_number++;
	if (out->line.overflow)
		warn(out, "longer than 1 MiB: it is not used");
	else if (!out->passing_over)
		take_line(out, out->line.data, out->line.len);
	out->passing_over = false;
	jr_buf_clear(&out->line);
}

static void
take_bytes(struct jr_out *out, const char *bytes, size_t len)
{
	while (len > 0) {
		const char *end = memchr(bytes, '\n', len);
		size_t part = end != NULL ? (size_t)(end - bytes) : len;

		if (!out->passing_over)
			jr_buf_add(&out->line, bytes, part);
		if (end == NULL)
			return;
		end_line(out);
		bytes += part + 1;
		len -= part + 1;
	}
}

/* Keep the last MARK_MAX bytes that were read, these included. */
static void
keep_mark(struct jr_out *out, const char *bytes, size_t len)
{
	size_t add = len < MARK_MAX ? len : MARK_MAX;
	size_t keep = out->mark_len < MARK_MAX - add ? out->mark_len : MARK_MAX - add;

	memmove(out->mark, out->mark + out->mark_len - keep, keep);
	memcpy(out->mark + keep, bytes + len - add, add);
	out->mark_len = keep + add;
}

/* pread, repeated if a signal interrupts it. */
static ssize_t
read_at(int fd, char *bytes, size_t len, off_t offset)
{
	ssize_t n;

	do
		n = pread(fd, bytes, len, offset);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool
is_mark_there(const struct jr_out *out)
{
	char bytes[MARK_MAX];

	return read_at(out->fd, bytes, out->mark_len, out->offset - (off_t)out->mark_len) == (ssize_t)out->mark_len &&
	       memcmp(bytes, out->mark, out->mark_len) == 0;
}

static void
go_to(struct jr_out *out, off_t offset)
{
	out->offset = offset;
	out->mark_len = 0;
	out->passing_over = offset > 0;
	out->line_number = offset > 0 ? -1 : 0;
	jr_buf_clear(&out->line);
}

/* Set the offset to read from: the beginning if the file was rewritten, and at most JR_OUT_READ_MAX before the end. */
static void
find_place(struct jr_out *out, const struct stat *st)
{
	off_t size = st->st_size;
	bool has_changed = st->st_mtim.tv_sec != out->changed.tv_sec || st->st_mtim.tv_nsec != out->changed.tv_nsec;

	if (size < out->offset || (size == out->offset && has_changed) || !is_mark_there(out))
		go_to(out, 0);
	out->changed = st->st_mtim;
	if (size - out->offset <= JR_OUT_READ_MAX)
		return;
	jr_buf_clear(&out->line);
	warn_of_file(out, "more than 4 MiB at once: only the end is read");
	go_to(out, size - JR_OUT_READ_MAX - 1); /* one byte more: a newline there means that a line begins after it */
}

static void
read_on(struct jr_out *out)
{
	char bytes[CHUNK];
	struct stat st;

	if (out->fd < 0 || fstat(out->fd, &st) < 0)
		return;
	find_place(out, &st);
	/* Stop at the size from fstat: a handler that writes all the time must not keep us here. */
	while (out->offset < st.st_size) {
		off_t left = st.st_size - out->offset;
		ssize_t n = read_at(out->fd, bytes, left < CHUNK ? (size_t)left : CHUNK, out->offset);

		if (n <= 0)
			return;
		take_bytes(out, bytes, (size_t)n);
		keep_mark(out, bytes, (size_t)n);
		out->offset += n;
	}
}

/* Open the file if the handler has created it meanwhile. `last`: it has ended. */
static void
find_file(struct jr_out *out, bool last)
{
	if (out->fd >= 0)
		return;
	out->fd = jr_out_dir_open(out->dir, out->name);
	if (out->fd >= 0 || !last)
		return;
	out->absent = errno == ENOENT;
	if (!out->absent)
		warn_of_file(
		    out, "it is not a plain file that can be read: nothing of it is used; append to it with >>");
}

/* The end of the attempt: a line without a newline counts, and the last warnings are added. */
static void
finish(struct jr_out *out)
{
	if (out->line.len > 0 || out->line.overflow)
		end_line(out);
	if (out->fd >= 0 && !jr_out_dir_has(out->dir, out->name, out->fd))
		warn_of_file(out,
		    "it was removed or replaced: only what was written to the first file is read; append to it with >>");
	if (out->warning_count > JR_OUT_WARNINGS_MAX)
		jr_buf_addf(&out->warnings, "JOBRUN_OUT: %lld more warning%s\n",
		    (long long)(out->warning_count - JR_OUT_WARNINGS_MAX),
		    jr_text_plural(out->warning_count - JR_OUT_WARNINGS_MAX));
	out->ended = true;
}

void
jr_out_read(struct jr_out *out, bool last)
{
	if (out->ended)
		return;
	find_file(out, last);
	read_on(out);
	if (last)
		finish(out);
}

static bool
make_checkpoint(struct jr_out *out, const char *checkpoint, const struct jr_limits *limits)
{
	char *text = jr_xasprintf("%s\n", checkpoint);
	int fd = jr_out_dir_make(out->dir, out->checkpoint_name, text, limits);

	free(text); /* does not change errno */
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

/*
 * JOBRUN_OUT is created here only for another account, which cannot create files in our directory. To create a file
 * that most handlers never write to costs more than the rest of their start. Whatever a handler of another run has left
 * under this name is removed, so that it is not read.
 */
static bool
make_files(struct jr_out *out, const char *checkpoint, const struct jr_limits *limits)
{
	if (out->dir->is_shared) {
		out->fd = jr_out_dir_make(out->dir, out->name, "", limits);
		if (out->fd < 0)
			return false;
	} else
		jr_out_dir_remove(out->dir, out->name);
	return checkpoint == NULL || make_checkpoint(out, checkpoint, limits);
}

/* The directory for an account. NULL on failure. */
static struct jr_out_dir *
directory_for(struct jr_outs *outs, const struct jr_limits *limits, struct jr_err *err)
{
	bool is_other = limits != NULL && limits->has_account;
	struct jr_out_dir *dir = is_other ? &outs->shared : &outs->own;

	if (!jr_out_dir_keep(dir, err))
		return NULL;
	if (!is_other || jr_out_dir_is_open(dir))
		return dir;
	jr_fail(err, JR_E_CONFIG,
	    "its account cannot reach %s: every directory above it must have x for others: set another TMPDIR for jobrun",
	    dir->path);
	return NULL;
}

struct jr_outs *
jr_outs_open(struct jr_err *err)
{
	struct jr_outs *outs = jr_xcalloc(1, sizeof(*outs));

	*outs = (struct jr_outs){.own = {.fd = -1}, .shared = {.fd = -1, .is_shared = true}};
	if (jr_out_dir_keep(&outs->own, err))
		return outs;
	free(outs);
	return NULL;
}

void
jr_outs_close(struct jr_outs *outs)
{
	if (outs == NULL)
		return;
	jr_out_dir_close(&outs->own);
	jr_out_dir_close(&outs->shared);
	free(outs);
}

struct jr_out *
jr_out_open(struct jr_outs *outs, int64_t run_id, int64_t claim_seq, const char *checkpoint,
    const struct jr_limits *limits, struct jr_err *err)
{
	struct jr_out_dir *dir = directory_for(outs, limits, err);
	struct jr_out *out;

	if (dir == NULL)
		return NULL;
	out = jr_xcalloc(1, sizeof(*out));
	out->dir = dir;
	out->fd = -1;
	jr_buf_init(&out->line, LINE_BYTES_MAX);
	jr_buf_init(&out->warnings, WARNINGS_BYTES);
	out->name = jr_xasprintf("%lld.%lld.out", (long long)run_id, (long long)claim_seq);
	out->path = jr_xasprintf("%s/%s", dir->path, out->name);
	if (checkpoint != NULL) {
		out->checkpoint_name = jr_xasprintf("%lld.%lld.checkpoint", (long long)run_id, (long long)claim_seq);
		out->checkpoint_path = jr_xasprintf("%s/%s", dir->path, out->checkpoint_name);
	}
	if (make_files(out, checkpoint, limits))
		return out;
	jr_fail(err, JR_E_TEMP, "could not make a file for JOBRUN_OUT or JOBRUN_CHECKPOINT in %s: %s", dir->path,
	    strerror(errno));
	jr_out_close(out);
	return NULL;
}

void
jr_out_close(struct jr_out *out)
{
	if (out == NULL)
		return;
	if (out->fd >= 0)
		(void)close(out->fd);
	if (!out->absent)
		jr_out_dir_remove(out->dir, out->name);
	if (out->checkpoint_name != NULL)
		jr_out_dir_remove(out->dir, out->checkpoint_name);
	for (size_t i = 0; i < JR_SAYS_COUNT; i++)
		free(out->said[i].line);
	jr_buf_release(&out->line);
	jr_buf_release(&out->warnings);
	free(out->name);
	free(out->path);
	free(out->checkpoint_name);
	free(out->checkpoint_path);
	free(out);
}

const char *
jr_out_path(const struct jr_out *out)
{
	return out->path;
}

const char *
jr_out_checkpoint_path(const struct jr_out *out)
{
	return out->checkpoint_path;
}

const char *
jr_out_progress(const struct jr_out *out)
{
	return out->said[JR_SAYS_PROGRESS].line;
}

const char *
jr_out_checkpoint(const struct jr_out *out)
{
	return out->said[JR_SAYS_CHECKPOINT].line;
}

const char *
jr_out_result(const struct jr_out *out)
{
	return out->said[JR_SAYS_RESULT].line;
}

static const char *
take_new(struct said *said)
{
	bool is_new = said->is_new;

	said->is_new = false;
	return is_new ? said->line : NULL;
}

void
jr_out_take_changes(struct jr_out *out, const char **progress, const char **checkpoint)
{
	*progress = take_new(&out->said[JR_SAYS_PROGRESS]);
	*checkpoint = take_new(&out->said[JR_SAYS_CHECKPOINT]);
}

int64_t
jr_out_retry_in_ms(const struct jr_out *out)
{
	return out->retry_in_ms;
}

const char *
jr_out_warnings(const struct jr_out *out)
{
	return out->warnings.data;
}
