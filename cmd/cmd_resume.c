/*
 * resume: end a pause. It is no error to resume what is not paused.
 */
#include "base/parse.h"
#include "pauses.h"
#include "print.h"
#include "sql_text.h"

struct resume_opts {
	struct jr_pauses what;
};

static const struct resume_opts resume_defaults = {.what = {.reason = NULL}};

/* clang-format off */
static const struct jr_option resume_options[] = {
	JR_PAUSES_OPTIONS(resume_opts),
	JR_OPTIONS_END,
};

/* Columns of resume.sql. */
enum { R_KIND, R_NAME, R_WAS_PAUSED, R_DOC };
/* clang-format on */

static int
resume_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct resume_opts *opts = values;
	PGresult *result = jr_pauses_ask(app, &opts->what, jr_sql_resume, 1, &opts->what.reason, err);

	(void)argc;
	(void)argv;
	if (result == NULL)
		return (int)err->code;
	if (app->json)
		jr_print_list("pauses", result, R_DOC);
	for (int row = 0; !app->json && row < PQntuples(result); row++)
		printf("%s%s%s: %s\n", PQgetvalue(result, row, R_KIND), PQgetisnull(result, row, R_NAME) ? "" : " ",
		    PQgetvalue(result, row, R_NAME),
		    !jr_pg_bool(result, row, R_WAS_PAUSED) ? "was not paused"
		    : opts->what.dry_run                   ? "would be resumed"
							   : "resumed");
	PQclear(result);
	return 0;
}

const struct jr_cmd jr_cmd_resume = {
    .name = "resume",
    .group = JR_GROUP_REPAIR,
    .summary = "end a pause",
    .usage = "[--type TYPE] [--queue QUEUE] [--definition NAME] [--host HOST] [--all] [OPTION...]",
    .options = resume_options,
    .defaults = &resume_defaults,
    .size = sizeof(resume_defaults),
    .kind = "admin",
    .run = resume_run,
};
