/*
 * enqueue_batch: see enqueue_batch.h.
 *
 * Each line is sent unchanged (batch_lines); only the server parses it. What must hold: each line, an empty one too, is
 * added exactly once, so that the number of a refused one is the number of its line.
 */
#include "enqueue_batch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "batch_lines.h"
#include "doubt.h"
#include "known.h"
#include "pg/db.h"
#include "pg/pg_ask.h"
#include "print.h"
#include "sql_text.h"
#include "written.h"
#include "zone.h"

#define LINE_MAX_BYTES 2097152
#define CHUNK 65536
#define PROGRESS_MS 500

struct batch {
	const struct jr_app *app;
	const struct jr_enqueue_opts *opts;
	const char *type;
	const char *name; /* of the file, for messages */
	int fd;
	char *options; /* of all runs */
	PGconn *conn;
	char number[32]; /* of the transaction */
	struct jr_batch_lines *sent;
	struct jr_buf line; /* the beginning of a line whose end is not read yet */
	int64_t lines;
	int64_t started_ms, shown_ms;
	bool shows;
	struct jr_batch_counts counts;
};

static bool
fail_at(const struct batch *b, int64_t line, struct jr_err *err)
{
	char *where = jr_xasprintf("%s: line %" PRId64, b->name, line);

	jr_fail_in(err, where);
	free(where);
	return false;
}

/* A line was refused, or the stream has failed as a whole. */
static bool
fail_stream(const struct batch *b, struct jr_err *err)
{
	int64_t line = jr_batch_lines_refused(b->sent);

	return line > 0 && fail_at(b, line, err);
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

static bool
take_line(struct batch *b, const char *text, size_t len, struct jr_err *err)
{
	size_t mark = b->lines == 0 ? jr_text_mark(text, len) : 0;

	text += mark;
	len -= mark;
	b->lines++;
	return jr_batch_lines_add(b->sent, is_blank(text, len) ? NULL : text, len, err) || fail_stream(b, err);
}

/* Keep the beginning of a line whose end is not read yet. */
static bool
keep(struct batch *b, const char *text, size_t len, struct jr_err *err)
{
	if (jr_buf_add(&b->line, text, len))
		return true;
	jr_fail(err, JR_E_DATA, "it is longer than %d bytes", LINE_MAX_BYTES);
	return fail_at(b, b->lines + 1, err);
}

static bool
take_kept(struct batch *b, struct jr_err *err)
{
	bool ok = take_line(b, b->line.data, b->line.len, err);

	jr_buf_clear(&b->line);
	return ok;
}

static bool
take_chunk(struct batch *b, const char *text, size_t len, struct jr_err *err)
{
	while (len > 0) {
		const char *eol = memchr(text, '\n', len);
		size_t part = eol == NULL ? len : (size_t)(eol - text);

		if (eol == NULL)
			return keep(b, text, part, err);
		if (b->line.len > 0 ? !keep(b, text, part, err) || !take_kept(b, err) : !take_line(b, text, part, err))
			return false;
		text += part + 1;
		len -= part + 1;
	}
	return true;
}

static void
show_progress(struct batch *b)
{
	int64_t now = jr_clock_now_ms(), took = now - b->started_ms;

	if (!b->shows || now - b->shown_ms < PROGRESS_MS)
		return;
	b->shown_ms = now;
	fprintf(
	    stderr, "\r%" PRId64 " lines, %" PRId64 " per second ", b->lines, took > 0 ? b->lines * 1000 / took : 0);
}

static void
end_progress(const struct batch *b)
{
	if (b->shows && b->shown_ms != b->started_ms)
		fputs("\r\033[K", stderr);
}

static bool
stream(struct batch *b, struct jr_err *err)
{
	char chunk[CHUNK];

	for (;;) {
		ssize_t n;

		if (!jr_batch_lines_wait(b->sent, b->fd, err))
			return fail_stream(b, err);
		n = read(b->fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return jr_fail(err, JR_E_DATA, "cannot read %s: %s", b->name, strerror(errno));
		if (n == 0)
			break;
		if (!take_chunk(b, chunk, (size_t)n, err))
			return false;
		show_progress(b);
	}
	if (b->line.len > 0 && !take_kept(b, err))
		return false;
	return jr_batch_lines_end(b->sent, err) || fail_stream(b, err);
}

static PGresult *
ask(struct batch *b, const char *sql, size_t count, const char *const *values, struct jr_err *err)
{
	return jr_pg_ask(b->conn, sql, count, values, JR_CMD_TIMEOUT_MS, err);
}

static bool
say(struct batch *b, const char *sql, size_t count, const char *const *values, struct jr_err *err)
{
	return jr_pg_say(b->conn, sql, count, values, JR_CMD_TIMEOUT_MS, err);
}

/* The server reads times without a zone in the lines in the same zone as --at. */
static bool
set_zone(struct batch *b, struct jr_err *err)
{
	const char *zone[2];
	char *host;
	bool ok;

	if (!b->opts->per_run)
		return true;
	host = jr_enqueue_request_zone(b->opts, zone);
	ok = say(b, jr_sql_enqueue_zone, JR_COUNT(zone), zone, err);
	free(host);
	return ok || (jr_zone_blame_zone(b->opts->time_zone, err) && false);
}

static bool
begin(struct batch *b, struct jr_err *err)
{
	char lock_ms[24];
	const char *parameters[] = {lock_ms, "0", "on"};
	PGresult *result;

	snprintf(lock_ms, sizeof(lock_ms), "%d", JR_DB_LOCK_MS);
	if (!say(b, jr_sql_begin, 0, NULL, err) || !say(b, jr_sql_parameters, JR_COUNT(parameters), parameters, err) ||
	    !set_zone(b, err))
		return false;
	result = ask(b, jr_sql_enqueue_bulk_begin, 0, NULL, err);
	if (result != NULL)
		snprintf(b->number, sizeof(b->number), "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	return result != NULL;
}

/* Everything before COMMIT. After a failure here nothing is queued. */
static bool
fill(struct batch *b, struct jr_err *err)
{
	const struct jr_batch_common common = {b->type, b->options, b->opts->per_run};
	bool ok;

	if (PQstatus(b->conn) != CONNECTION_OK) {
		jr_pg_conn_error(b->conn, "lost the connection to the database", err);
		return false;
	}
	b->sent = jr_batch_lines_new(b->conn, &common);
	b->started_ms = b->shown_ms = jr_clock_now_ms();
	ok = begin(b, err) && stream(b, err);
	end_progress(b);
	b->counts = jr_batch_lines_counts(b->sent);
	jr_batch_lines_free(b->sent);
	if (!ok && err->code == JR_E_TEMP) {
		struct jr_err old = *err;

		jr_fail(err, old.code, "%s; nothing was queued", old.msg);
	}
	return ok;
}

static bool
finish(struct batch *b, struct jr_err *err)
{
	struct jr_db *db = NULL;
	enum jr_fate fate;
	struct jr_err why;

	if (say(b, b->opts->dry_run ? jr_sql_rollback : jr_sql_commit, 0, NULL, &why) ||
	    b->opts->dry_run) /* if the connection is lost, the server rolls back, too */
		return true;
	if (PQtransactionStatus(b->conn) == PQTRANS_IDLE) { /* refused */
		*err = why;
		return false;
	}
	fate = jr_doubt_resolve(b->app, &db, b->number, &why);
	jr_db_close(db);
	if (fate == JR_FATE_ABORTED)
		return jr_fail(err, JR_E_TEMP, "lost the connection to the database at the end; nothing was queued");
	if (fate == JR_FATE_UNKNOWN)
		return jr_fail(err, JR_E_TEMP,
		    "%s; it is not known whether the %" PRId64
		    " run%s queued: look with jobrun list, or give the lines idempotency keys",
		    why.msg, b->counts.created, b->counts.created == 1 ? " was" : "s were");
	return true;
}

/* With --strict the error says what was there already. */
static void
tell(const struct batch *b)
{
	const char *verb = b->opts->dry_run ? "would queue" : "queued";

	if (b->app->json)
		printf("{\"version\":" JR_PRINT_VERSION ",\"queued\":%" PRId64 ",\"existed\":%" PRId64 "}\n",
		    b->counts.created, b->counts.existed);
	else if (b->counts.existed == 0 || b->opts->strict)
		printf("%s %" PRId64 " run%s\n", verb, b->counts.created, jr_text_plural(b->counts.created));
	else
		printf("%s %" PRId64 " run%s, %" PRId64 " %s there already\n", verb, b->counts.created,
		    jr_text_plural(b->counts.created), b->counts.existed, b->counts.existed == 1 ? "was" : "were");
}

/* The runs are queued; a failure here is none of the command. */
static void
warn_type(struct batch *b)
{
	const char *asked[] = {b->type, NULL};
	struct jr_err unused;
	PGresult *result = ask(b, jr_sql_other_types, JR_COUNT(asked), asked, &unused);

	if (result != NULL)
		jr_known_warn_type(b->type, jr_pg_text(result, 0, 0), false);
	PQclear(result);
}

static int
send_all(struct batch *b, struct jr_enqueue_request *request, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(b->app, err);
	bool ok;

	if (db == NULL)
		return (int)err->code;
	if (jr_request_resolve_at(db, b->opts, request, err))
		b->options = jr_enqueue_request_options(request, err);
	if (b->options == NULL) {
		jr_db_close(db);
		return (int)err->code;
	}
	b->conn = jr_db_detach(db);
	ok = fill(b, err) && finish(b, err);
	if (ok) {
		tell(b);
		warn_type(b);
	}
	PQfinish(b->conn); /* after a failure the server rolls back */
	if (!ok)
		return (int)err->code;
	if (!b->opts->dry_run && !jr_written(err)) {
		jr_fail_in(err, "the batch was committed");
		return JR_E_TEMP;
	}
	if (!b->opts->strict || b->counts.existed == 0)
		return 0;
	jr_fail(err, JR_E_NEWS, "%" PRId64 " %s there already", b->counts.existed,
	    b->counts.existed == 1 ? "run was" : "runs were");
	return JR_E_NEWS;
}

int
jr_enqueue_batch(const struct jr_app *app, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request,
    struct jr_err *err)
{
	bool is_stdin = strcmp(opts->batch, "-") == 0;
	struct batch b = {.app = app,
	    .opts = opts,
	    .type = request->values[JR_REQUEST_TYPE],
	    .name = is_stdin ? "stdin" : opts->batch,
	    .fd = is_stdin ? STDIN_FILENO : open(opts->batch, O_RDONLY | O_CLOEXEC)};
	int status;

	if (b.fd < 0) {
		jr_fail(err, JR_E_DATA, "cannot open %s: %s", opts->batch, strerror(errno));
		return JR_E_DATA;
	}
	b.shows = jr_print_is_terminal(stderr);
	jr_buf_init(&b.line, LINE_MAX_BYTES);
	status = send_all(&b, request, err);
	jr_buf_release(&b.line);
	free(b.options);
	if (!is_stdin)
		close(b.fd);
	return status;
}
