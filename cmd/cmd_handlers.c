/*
 * handlers: what this host can do, and what it cannot though somebody put a file there for it. Asks no database.
 *
 * settings.h says how settings are printed, in words and as JSON. What must hold: nothing is shown that may be secret.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "commands.h"
#include "handler/document.h"
#include "handler/handlers.h"
#include "print.h"

struct handlers_opts {
	const char *handlers;
	bool check, settings;
};

static const struct handlers_opts handlers_defaults = {.handlers = NULL};

#define AT(field) offsetof(struct handlers_opts, field)

/* clang-format off */
static const struct jr_option handlers_options[] = {
	{ .name = "handlers", .arg = "DIR", .help = "the handlers directory (~/.config/jobrun/handlers, else /etc/jobrun/handlers)",
	    .type = JR_OPT_STRING, .offset = AT(handlers), .env = "JOBRUN_HANDLERS", .not_empty = true },
	{ .name = "check", .help = "exit 1 when a file there is not used though it looks as if it should be, or a TYPE has no handler",
	    .type = JR_OPT_FLAG, .offset = AT(check) },
	{ .name = "settings", .help = "show the settings of NAME.json instead", .type = JR_OPT_FLAG, .offset = AT(settings) },
	JR_OPTIONS_END,
};

static const struct jr_column setting_columns[] = {
	{ "SETTING", JR_CELL_TEXT },
	{ "KIND", JR_CELL_TEXT },
	{ "MEANING", JR_CELL_WRAP },
};

static const struct jr_column columns[] = {
	{ "TYPE", JR_CELL_TEXT },
	{ "KIND", JR_CELL_TEXT },
	{ "SETTINGS", JR_CELL_TEXT },
	{ "FROM", JR_CELL_CUT },
};
/* clang-format on */

/* What is shown: all, or with TYPEs only what is about these. Both lists are borrowed. */
struct view {
	const struct jr_handler **handlers;
	size_t count;
	const char **problems;
	size_t problem_count;
};

/* The file, and its settings if they are in another. Caller frees; NULL: built-in. */
static char *
from_words(const struct jr_handler *handler)
{
	const char *settings = handler->settings_path;

	if (handler->path == NULL)
		return NULL;
	if (settings == NULL || strcmp(settings, handler->path) == 0)
		return jr_xstrdup(handler->path);
	return jr_xasprintf("%s, %s", handler->path, strrchr(settings, '/') + 1);
}

static void
print_table(const struct view *view)
{
	size_t count = view->count;
	char **words = jr_xcalloc(count * 2 + 1, sizeof(*words));
	const char **cells = jr_xcalloc(count * JR_COUNT(columns) + 1, sizeof(*cells));

	for (size_t i = 0; i < count; i++) {
		const struct jr_handler *handler = view->handlers[i];
		const char **row = &cells[i * JR_COUNT(columns)];

		words[i * 2] = jr_settings_words(&handler->settings);
		words[i * 2 + 1] = from_words(handler);
		row[0] = handler->job_type;
		row[1] = handler->kind->name;
		row[2] = words[i * 2];
		row[3] = words[i * 2 + 1];
	}
	jr_print_rows(cells, count, columns, JR_COUNT(columns));
	for (size_t i = 0; i < count * 2; i++)
		free(words[i]);
	free(words);
	free(cells);
}

static json_t *
path_of(const char *path)
{
	return path == NULL ? json_null() : jr_document_string(path, strlen(path));
}

static json_t *
handler_of(const struct jr_handler *handler)
{
	json_t *object = json_object();

	jr_document_set_text(object, "job_type", handler->job_type);
	jr_document_set_text(object, "kind", handler->kind->name);
	jr_document_set(object, "path", path_of(handler->path));
	jr_document_set(object, "settings_path", path_of(handler->settings_path));
	jr_document_set(object, "settings", jr_settings_document(&handler->settings));
	return object;
}

/* One more problem for each of these job types that has no handler here, nor a refused file. Caller: free_list. */
static char **
problems_of_types(const struct jr_handlers *handlers, int argc, char **argv)
{
	char **problems = jr_xcalloc((size_t)argc + 1, sizeof(*problems));
	size_t count = 0;

	for (int i = 0; i < argc; i++) {
		if (jr_handlers_find(handlers, argv[i]) == NULL && jr_handlers_problem_of(handlers, argv[i]) == NULL)
			problems[count++] =
			    jr_xasprintf("no handler for %s: put an executable file %s, or %s.sql or %s.json, into %s",
				argv[i], argv[i], argv[i], argv[i], handlers->directory);
	}
	return problems;
}

static void
free_list(char **texts)
{
	for (size_t i = 0; texts[i] != NULL; i++)
		free(texts[i]);
	free(texts);
}

static json_t *
problem_of(const char *text)
{
	json_t *object = json_object();

	jr_document_set_text(object, "text", text);
	return object;
}

static void
print_document(const char *directory, const struct view *view)
{
	json_t *root = json_object(), *items = json_array();
	json_t *problems = json_array();

	for (size_t i = 0; i < view->count; i++)
		jr_document_append(items, handler_of(view->handlers[i]));
	for (size_t i = 0; i < view->problem_count; i++)
		jr_document_append(problems, problem_of(view->problems[i]));
	jr_document_set_text(root, "directory", directory);
	jr_document_set(root, "handlers", items);
	jr_document_set(root, "problems", problems);
	jr_print_value(root);
	json_decref(root);
}

/* Why there is nothing to run here; NULL if there is something, or problems say it. */
static const char *
problem_of_all(const struct jr_handlers *handlers, struct jr_err *why)
{
	return jr_handlers_check(handlers, why) || handlers->problem_count > 0 ? NULL : why->msg;
}

struct setting_rows {
	const char **cells; /* the names are owned */
	size_t count;
};

static void
add_setting(void *ctx, const char *in, const char *name, const char *kind, const char *help)
{
	struct setting_rows *rows = ctx;
	const char **row;

	rows->cells = jr_xrealloc(rows->cells, (rows->count + 1) * JR_COUNT(setting_columns), sizeof(*rows->cells));
	row = &rows->cells[rows->count++ * JR_COUNT(setting_columns)];
	row[0] = jr_xasprintf("%s%s", in, name);
	row[1] = kind;
	row[2] = help;
}

static void
print_setting_rows(const struct setting_rows *rows, bool json)
{
	json_t *document = json_object(), *list = json_array();

	for (size_t i = 0; json && i < rows->count; i++) {
		const char *const *row = &rows->cells[i * JR_COUNT(setting_columns)];

		jr_document_append(list, json_pack("{ssssss}", "name", row[0], "kind", row[1], "meaning", row[2]));
	}
	jr_document_set(document, "settings", list);
	if (json)
		jr_print_value(document);
	else
		jr_print_rows(rows->cells, rows->count, setting_columns, JR_COUNT(setting_columns));
	json_decref(document);
}

static int
print_settings(bool json)
{
	struct setting_rows rows = {0};

	jr_settings_describe(add_setting, &rows);
	print_setting_rows(&rows, json);
	for (size_t i = 0; i < rows.count; i++)
		free((char *)(uintptr_t)rows.cells[i * JR_COUNT(setting_columns)]);
	free(rows.cells);
	return 0;
}

static void
print_lines(const struct view *view)
{
	if (view->count > 0)
		print_table(view);
	for (size_t i = 0; i < view->problem_count; i++)
		jr_print_line(stdout, "! ", view->problems[i]);
}

/* Is the handler, or the line of a problem, about one of these job types? Without types everything is. */
static bool
is_shown(const char *job_type, const char *problem, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (job_type != NULL ? strcmp(job_type, argv[i]) == 0 : jr_handlers_is_about(problem, argv[i]))
			return true;
	}
	return argc == 0;
}

/*
 * `nothing`: why there is nothing to run here, NULL if there is something; it and `missing` are more problems. With
 * --check all problems are shown, since each of them makes the exit status 1. Caller: release_view.
 */
static struct view
view_of(
    const struct jr_handlers *handlers, const char *nothing, char *const *missing, bool check, int argc, char **argv)
{
	struct view view = {.handlers = jr_xcalloc(handlers->count + 1, sizeof(const struct jr_handler *)),
	    .problems = jr_xcalloc(handlers->problem_count + (size_t)argc + 2, sizeof(const char *))};

	for (size_t i = 0; i < handlers->count; i++) {
		if (is_shown(handlers->items[i].job_type, NULL, argc, argv))
			view.handlers[view.count++] = &handlers->items[i];
	}
	for (size_t i = 0; i < handlers->problem_count; i++) {
		if (check || is_shown(NULL, handlers->problems[i], argc, argv))
			view.problems[view.problem_count++] = handlers->problems[i];
	}
	if (nothing != NULL && (check || argc == 0))
		view.problems[view.problem_count++] = nothing;
	for (size_t i = 0; missing[i] != NULL; i++)
		view.problems[view.problem_count++] = missing[i];
	return view;
}

static void
release_view(struct view *view)
{
	free(view->handlers);
	free(view->problems);
}

static int
show_handlers(const struct jr_app *app, const struct handlers_opts *opts, int argc, char **argv, struct jr_err *err)
{
	char *directory = jr_handlers_directory(opts->handlers), **missing;
	struct jr_err why = {.code = JR_E_CONFIG};
	struct jr_handlers handlers;
	struct view view;
	const char *nothing;
	bool done = jr_handlers_read(&handlers, directory, err);
	int status;

	free(directory);
	if (!done)
		return (int)err->code;
	nothing = problem_of_all(&handlers, &why);
	missing = problems_of_types(&handlers, argc, argv);
	status = opts->check && (nothing != NULL || missing[0] != NULL || handlers.problem_count > 0) ? JR_E_NEWS : 0;
	view = view_of(&handlers, nothing, missing, opts->check, argc, argv);
	if (app->json)
		print_document(handlers.directory, &view);
	else
		print_lines(&view);
	release_view(&view);
	free_list(missing);
	jr_handlers_release(&handlers);
	return status;
}

static int
handlers_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct handlers_opts *opts = values;

	if (opts->settings && argc > 0) {
		jr_fail(err, JR_E_USAGE, "--settings shows all settings, and takes no TYPE");
		return (int)err->code;
	}
	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return (int)err->code;
	}
	return opts->settings ? print_settings(app->json) : show_handlers(app, opts, argc, argv, err);
}

const struct jr_cmd jr_cmd_handlers = {
    .name = "handlers",
    .group = JR_GROUP_SETUP,
    .summary = "show what this host can do, with what settings, and what is wrong",
    .usage = "[OPTION...] [TYPE...]",
    .details = "Needs no database. A line that begins with ! is a file that is not used, and why, or one of the\n"
	       "TYPEs that has no handler here. With TYPEs only these are shown, with --check also what is wrong with\n"
	       "others, since each such line makes the exit status 1.\n",
    .options = handlers_options,
    .defaults = &handlers_defaults,
    .size = sizeof(handlers_defaults),
    .max_args = -1,
    .run = handlers_run,
};
