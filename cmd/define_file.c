/*
 * define_file: a set of definitions from a file, all or none, told as a difference.
 *
 * The file goes to PostgreSQL as it is, which says whether it is JSON and what is wrong in it: payloads stay what they are.
 */
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "define.h"
#include "mem.h"
#include "payload.h"
#include "print.h"
#include "sql_text.h"
#include "text.h"

#define FILE_MAX_BYTES (16 * 1024 * 1024)

/* Of define_file.sql. */
enum {
	D_NAME,
	D_ACTION,
	D_LINES,
	D_DOC
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

/* 0: nothing to tell. */
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

static void
print_difference(const PGresult *result)
{
	bool any = false;

	for (int row = 0; row < PQntuples(result); row++) {
		char mark = mark_of(PQgetvalue(result, row, D_ACTION));

		if (mark == 0)
			continue;
		any = true;
		printf("%c %s\n", mark, PQgetvalue(result, row, D_NAME));
		jr_define_print_lines(jr_pg_text(result, row, D_LINES));
	}
	if (!any && jr_print_is_terminal(stdout))
		puts("nothing to change");
}

/* Is it a file of definitions? Asked first, since the name of the file is to be in the message. */
static bool
check_shape(const struct jr_app *app, const char *name, const char *text, struct jr_err *err)
{
	const char *values[] = {text};
	struct jr_db *db = jr_cmd_connect(app, err);
	PGresult *result = NULL;
	bool ok = false;

	if (db == NULL)
		return false;
	result = jr_db_query(db, jr_sql_define_shape, 1, values, JR_CMD_TIMEOUT_MS, err);
	if (result == NULL && err->code == JR_E_DATA)
		jr_payload_locate_in(name, text, err);
	else if (result != NULL && !PQgetisnull(result, 0, 0))
		jr_fail(err, JR_E_DATA, "%s: %s", name, PQgetvalue(result, 0, 0));
	else
		ok = result != NULL;
	PQclear(result);
	jr_db_close(db);
	return ok;
}

int
jr_define_file(const struct jr_app *app, const struct jr_define_opts *opts, struct jr_err *err)
{
	const char *name = strcmp(opts->file, "-") == 0 ? "stdin" : opts->file;
	char *text = jr_payload_read_file(opts->file, FILE_MAX_BYTES, err);
	const char *values[] = {text, opts->exact ? "true" : "false", opts->reason};
	const struct jr_statement statement = {jr_sql_define_file, JR_COUNT(values), values};
	PGresult *result = NULL;

	if (text != NULL && check_shape(app, name, text, err) &&
	    !jr_change(app, &statement, 1, opts->dry_run, &result, err) && err->code == JR_E_DATA)
		jr_fail_in(err, name);
	free(text);
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_documents(result, D_DOC);
	else
		print_difference(result);
	PQclear(result);
	return 0;
}
