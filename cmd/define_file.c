/*
 * define_file: apply a file of definitions, all or none, and print the differences.
 *
 * The file is sent to PostgreSQL unchanged, which checks it. So payloads keep their exact text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "change.h"
#include "define.h"
#include "known.h"
#include "payload.h"
#include "print.h"
#include "sql_text.h"
#include "zone.h"

#define FILE_MAX_BYTES ((size_t)16 << 20)

/* Columns of define_file.sql. */
enum {
	D_NAME,
	D_ACTION,
	D_LINES,
	D_DOC,
	D_WRONG,
	D_IN_UTC
};

void
jr_define_print_lines(const char *lines)
{
	while (lines != NULL && *lines != '\0') {
		size_t len = strcspn(lines, "\n");
		char *line = jr_xmemdup0(lines, len);

		jr_print_line(stdout, "  ", line);
		free(line);
		lines += len + (lines[len] == '\n');
	}
}

/* The mark in front of the name; 0: the definition is unchanged and not printed. */
static char
mark_of(const char *action)
{
	static const struct {
		const char *action;
		char mark;
	} marks[] = {{"created", '+'}, {"changed", '~'}, {"removed", '-'}};

	for (size_t i = 0; i < JR_COUNT(marks); i++) {
		if (strcmp(marks[i].action, action) == 0)
			return marks[i].mark;
	}
	return 0;
}

static bool
differs(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		if (mark_of(PQgetvalue(result, row, D_ACTION)) != 0)
			return true;
	}
	return false;
}

static void
print_difference(const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		char mark = mark_of(PQgetvalue(result, row, D_ACTION));

		if (mark == 0)
			continue;
		printf("%c %s\n", mark, PQgetvalue(result, row, D_NAME));
		jr_define_print_lines(jr_pg_text(result, row, D_LINES));
	}
	if (!differs(result) && jr_print_is_terminal(stdout))
		puts("nothing to change");
}

/* Report what the server has refused: for a JSON error its place in the file, else the server's message. */
static int
fail_refused(const char *name, const char *text, struct jr_err *err)
{
	if (err->code == JR_E_DATA && !jr_payload_locate_in(name, text, err))
		jr_fail_in(err, name);
	return (int)err->code;
}

/* As for a single definition: somebody who knows cron may have meant the zone of this host. One line for all. */
static void
warn_of_zone(const char *name, const char *in_utc)
{
	char *zone = in_utc == NULL ? NULL : jr_zone_but_utc(), *text;
	bool several = zone != NULL && strchr(in_utc, ',') != NULL;

	if (zone == NULL)
		return;
	text = jr_xasprintf("%s: the schedule%s of %s %s in UTC, and this host is in %s: say \"time_zone\": \"%s\", or "
			    "\"time_zone\": \"UTC\"",
	    name, several ? "s" : "", in_utc, several ? "are" : "is", zone, zone);
	jr_print_line(stderr, "jobrun: warning: ", text);
	free(text);
	free(zone);
}

static int
tell(const struct jr_app *app, const char *name, const PGresult *result, struct jr_err *err)
{
	if (PQntuples(result) > 0 && !PQgetisnull(result, 0, D_WRONG)) {
		jr_fail(err, JR_E_DATA, "%s: %s", name, PQgetvalue(result, 0, D_WRONG));
		return (int)err->code;
	}
	if (app->json)
		jr_print_list("definitions", result, D_DOC);
	else
		print_difference(result);
	if (PQntuples(result) > 0)
		warn_of_zone(name, jr_pg_text(result, 0, D_IN_UTC));
	return 0;
}

/* An exec definition needs no handler, and nothing tells it from the defaults of a job type that is named like it. */
void
jr_define_warn_types(const PGresult *types)
{
	for (int row = 0; row < PQntuples(types); row++)
		jr_known_warn_type(PQgetvalue(types, row, 0), jr_pg_text(types, row, 1), !jr_pg_bool(types, row, 2));
}

int
jr_define_file(const struct jr_app *app, const struct jr_define_opts *opts, struct jr_err *err)
{
	const char *name = strcmp(opts->file, "-") == 0 ? "stdin" : opts->file;
	char *text = jr_payload_read_file(opts->file, FILE_MAX_BYTES, err);
	const char *values[] = {text, opts->exact ? "true" : "false", opts->reason};
	const char *all = NULL;
	const struct jr_statement statements[] = {
	    {jr_sql_define_file, JR_COUNT(values), values}, {jr_sql_define_types, 1, &all}};
	const struct jr_change change = {.app = app, .dry_run = opts->dry_run};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	int status;

	if (text == NULL)
		return (int)err->code;
	if (jr_change(&change, statements, JR_COUNT(statements), results, err)) {
		status = tell(app, name, results[0], err);
		if (differs(results[0]))
			jr_define_warn_types(results[1]);
	} else
		status = fail_refused(name, text, err);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	free(text);
	return status;
}
