/*
 * jobrun: background jobs that live in PostgreSQL tables, woken by cron.
 *
 * This file finds the command, has its options parsed, answers --help and --version, runs the command, prints its error
 * once, and returns the exit status. Nothing else in the program exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libsmartcols.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/text.h"
#include "commands.h"
#include "handler/http.h"
#include "help.h"
#include "init.h"
#include "pager.h"
#include "terminal.h"
#include "waits.h"
#include "written.h"

#define CONNECT_TRIES 3
#define PLUGIN_UNKNOWN 3  /* exit status of a command with `fail` */
#define SUMMARY_COLUMN 13 /* the column in which the summary of a command begins */

#define COMMAND_REFERENCE(name) &jr_cmd_##name,
static const struct jr_cmd *const commands[] = {JR_COMMANDS(COMMAND_REFERENCE)};

static const struct jr_cmd *
find_command(const char *name)
{
	for (size_t i = 0; i < JR_COUNT(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static bool
fail_unknown_command(const char *name, struct jr_err *err)
{
	const char *names[JR_COUNT(commands)];

	for (size_t i = 0; i < JR_COUNT(commands); i++)
		names[i] = commands[i]->name;
	return jr_fail_unknown(err, "command", name, names, JR_COUNT(names), "'jobrun --help' lists them");
}

static void
print_summary(FILE *out, const struct jr_cmd *cmd)
{
	char *left = jr_xasprintf("  %s", cmd->name);

	jr_help_item(out, left, SUMMARY_COLUMN, cmd->summary);
	free(left);
}

static void
print_help(FILE *out)
{
	static const struct {
		enum jr_cmd_group group;
		const char *title;
	} groups[] = {{JR_GROUP_EVERYDAY, "Everyday"}, {JR_GROUP_SCHEDULE, "Schedule"}, {JR_GROUP_REPAIR, "Repair"},
	    {JR_GROUP_WATCH, "Watch"}, {JR_GROUP_SETUP, "Set up"}, {JR_GROUP_SCRIPTS, "In scripts"}};

	jr_help_text(out, "jobrun runs background jobs that live in PostgreSQL tables, woken by cron.\n\n"
			  "usage: jobrun [OPTION...] COMMAND [ARGUMENT...]\n"
			  "       jobrun --once [OPTION...]    the same as jobrun run\n");
	for (size_t g = 0; g < JR_COUNT(groups); g++) {
		fprintf(out, "\n%s\n", groups[g].title);
		for (size_t i = 0; i < JR_COUNT(commands); i++) {
			if (commands[i]->group == groups[g].group)
				print_summary(out, commands[i]);
		}
	}
	fputs("\nOptions of every command\n", out);
	jr_options_print(out, jr_global_options());
	jr_help_text(out,
	    "\nThe database: -d, else JOBRUN_DATABASE_URL, else DATABASE_URL (unless PGHOST, PGSERVICE or PGDATABASE\n"
	    "is set), else libpq's defaults.\n"
	    "Exit statuses: 0 done, 1 bad news, 64 usage, 65 bad data, 70 bug, 75 try later, 77 permission,\n"
	    "78 configuration or schema. 'jobrun COMMAND --help' says more, 'man jobrun-COMMAND' all.\n");
}

static void
print_command_help(FILE *out, const struct jr_cmd *cmd)
{
	char *title = jr_xasprintf("jobrun %s: %s\n\n", cmd->name, cmd->summary);
	char *command = jr_xasprintf("jobrun %s", cmd->name);

	jr_help_text(out, title);
	jr_help_usage(out, command, cmd->usage);
	free(title);
	free(command);
	if (cmd->details != NULL) {
		fputc('\n', out);
		jr_help_text(out, cmd->details);
	}
	if (cmd->options != NULL) {
		fputs("\nOptions\n", out);
		jr_options_print(out, cmd->options);
	}
	fputs("\nOptions of every command\n", out);
	jr_options_print(out, jr_global_options());
}

static void
print_version(void)
{
	const char *smartcols = NULL;

	scols_get_library_version(&smartcols);
	printf("jobrun %s (libpq %d.%d, libcurl %s, jansson %s, libsmartcols %s)\n", JR_VERSION, PQlibVersion() / 10000,
	    PQlibVersion() % 10000, jr_http_library(), jansson_version_str(), smartcols == NULL ? "?" : smartcols);
}

static struct jr_db *
connect_once(const struct jr_app *app, int64_t patience_ms, struct jr_err *err)
{
	const char *source;
	const char *conninfo = jr_db_conninfo(app->dbname, &source);
	const struct jr_db_waits waits = jr_waits_of(app);
	struct jr_db *db = jr_db_open(conninfo, patience_ms, &waits, err);

	if (db == NULL)
		return NULL;
	jr_db_needs_grant(db, app->kind);
	jr_log(JR_INFO, JR_EVENT_CONNECTED, JR_S("db", PQdb(jr_db_conn(db))), JR_S("host", PQhost(jr_db_conn(db))),
	    JR_S("reason", source));
	if (jr_db_need_schema(db, err))
		return db;
	jr_db_close(db);
	return NULL;
}

/* Are we inside a handler that has no connection string? A runner passes none on that has a password. */
static bool
lacks_database(const struct jr_app *app)
{
	static const char *const of_libpq[] = {"PGHOST", "PGSERVICE", "PGDATABASE"};
	const char *run_id = getenv("JOBRUN_RUN_ID");

	for (size_t i = 0; i < JR_COUNT(of_libpq); i++) {
		const char *value = getenv(of_libpq[i]);

		if (value != NULL && *value != '\0')
			return false;
	}
	return run_id != NULL && *run_id != '\0' && jr_db_conninfo(app->dbname, NULL) == NULL;
}

/* There is no connection, *err says why. Advice goes last; long reasons are truncated. */
static void
advise_database(const struct jr_app *app, struct jr_err *err)
{
	struct jr_err why = *err;

	if (!lacks_database(app)) {
		jr_waits_advise(app, err);
		return;
	}
	jr_fail(err, why.code,
	    "%.700s; set JOBRUN_HANDLER_DATABASE_URL for the runner, or keep the password in ~/.pgpass", why.msg);
	memcpy(err->sqlstate, why.sqlstate, sizeof(err->sqlstate));
}

/* If the connection is lost while the schema is checked, try again: nothing was written on it. */
struct jr_db *
jr_cmd_connect_within(const struct jr_app *app, int64_t patience_ms, struct jr_err *err)
{
	struct jr_err last;
	struct jr_db *db = connect_once(app, patience_ms, &last);

	for (int i = 1; db == NULL && jr_db_is_in_doubt(&last) && i < CONNECT_TRIES; i++)
		db = connect_once(app, patience_ms, &last);
	if (db == NULL) {
		*err = last;
		advise_database(app, err);
	}
	return db;
}

struct jr_db *
jr_cmd_connect(const struct jr_app *app, struct jr_err *err)
{
	return jr_cmd_connect_within(app, JR_CMD_PATIENCE_MS, err);
}

static void
apply_globals(const struct jr_app *app)
{
	enum jr_level level = app->verbose <= 0 ? JR_WARN : app->verbose == 1 ? JR_INFO : JR_DEBUG;
	bool json = app->log_format != NULL && strcmp(app->log_format, "json") == 0;

	jr_log_init(level, json ? JR_LOG_JSON : JR_LOG_TEXT, STDERR_FILENO);
}

bool
jr_cmd_bad_usage(const struct jr_cmd *cmd, struct jr_err *err, const char *what)
{
	char *usage = jr_help_first_usage(cmd->usage);
	bool only = strlen(usage) == strlen(cmd->usage);

	jr_fail(err, JR_E_USAGE, only ? "%s; usage: jobrun %s %s" : "%s; usage: jobrun %s %s; others: jobrun %s --help",
	    what, cmd->name, usage, cmd->name);
	free(usage);
	return false;
}

static bool
check_count(const struct jr_cmd *cmd, int count, char **args, struct jr_err *err)
{
	char *what;

	if (count < cmd->min_args)
		return jr_cmd_bad_usage(cmd, err, "an argument is missing");
	if (cmd->max_args < 0 || count <= cmd->max_args)
		return true;
	what = jr_xasprintf("an argument too many: \"%.100s\"", args[cmd->max_args]);
	jr_cmd_bad_usage(cmd, err, what);
	free(what);
	return false;
}

/* argv[0..argc-1]: the arguments without options and the command's name. */
static int
run_parsed(
    const struct jr_cmd *cmd, const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	if (app->help) {
		jr_pager_open(!app->no_pager);
		print_command_help(stdout, cmd);
		return 0;
	}
	if (app->version) {
		print_version();
		return 0;
	}
	if (!check_count(cmd, argc, argv, err))
		return (int)err->code;
	apply_globals(app);
	return cmd->run(app, values, argc, argv, err);
}

/* The index of "--"; argc if there is none. */
static int
find_dashes(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strcmp(argv[i], "--") != 0)
		i++;
	return i;
}

/* argv[0] is the name of the command. */
static int
run_command(const struct jr_cmd *cmd, struct jr_app *app, int argc, char **argv, struct jr_err *err)
{
	void *values = jr_xcalloc(1, cmd->size + 1);
	const struct jr_option_set sets[] = {{cmd->options, values}, {jr_global_options(), app}};
	int own = cmd->takes_command ? find_dashes(argc, argv) : argc;
	int first = 0, status;

	app->plugin = cmd->fail != NULL;
	app->passes_status = cmd->takes_command;
	if (cmd->size > 0)
		memcpy(values, cmd->defaults, cmd->size);
	if (jr_options_environment(&sets[0], err) &&
	    jr_options_parse(sets, JR_COUNT(sets), cmd->takes_command && own == argc, own, argv, &first, err)) {
		app->kind = cmd->needs_admin != NULL && cmd->needs_admin(values, argc - first) ? "admin" : cmd->kind;
		status = run_parsed(cmd, app, values, argc - first, argv + first, err);
	} else
		status = (int)err->code;
	if (cmd->fail != NULL && err->msg[0] != '\0') {
		status = cmd->fail(app, values, err);
		err->msg[0] = '\0';
	} else if (app->plugin && (app->help || app->version))
		status = PLUGIN_UNKNOWN;
	jr_options_release(&sets[0]);
	free(values);
	return status;
}

/* argv[0..argc-1]: a command's name and what follows it. */
static int
run_named(struct jr_app *app, int argc, char **argv, struct jr_err *err)
{
	bool asked = strcmp(argv[0], "help") == 0;
	const struct jr_cmd *cmd = NULL;

	if (asked) {
		app->help = true;
		argc--;
		argv++;
	}
	if (argc == 0) {
		jr_pager_open(!app->no_pager);
		print_help(stdout);
		return 0;
	}
	cmd = find_command(argv[0]);
	if (cmd == NULL) {
		fail_unknown_command(argv[0], err);
		return (int)err->code;
	}
	return run_command(cmd, app, argc, argv, err);
}

/* The index of "--once", which stands for the command run; argc if there is none. */
static int
find_once(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strcmp(argv[i], "--once") != 0)
		i++;
	return i < argc ? i : argc;
}

/* A global option or variable is wrong, before the command is known. Monitoring systems read only what check says. */
static int
fail_early(struct jr_app *app, int argc, char **argv, struct jr_err *err)
{
	const struct jr_cmd *cmd = NULL;
	int status;

	for (int i = 1; cmd == NULL && i < argc; i++)
		cmd = find_command(argv[i]);
	if (cmd == NULL || cmd->fail == NULL)
		return (int)err->code;
	app->plugin = true;
	status = cmd->fail(app, cmd->defaults, err);
	err->msg[0] = '\0';
	return status;
}

static int
dispatch_to(struct jr_app *app, int argc, char **argv, struct jr_err *err)
{
	const struct jr_option_set globals = {jr_global_options(), app};
	int once = find_once(argc, argv), first = 0;

	if (!jr_options_environment(&globals, err) || !jr_options_parse(&globals, 1, true, once, argv, &first, err))
		return fail_early(app, argc, argv, err);
	/* What stands before --once is taken for the name of the command, so that run sees the option. */
	if (first < argc && first == once)
		return run_command(&jr_cmd_run, app, argc - once + 1, argv + once - 1, err);
	if (first < argc)
		return run_named(app, argc - first, argv + first, err);
	if (app->version)
		print_version();
	else {
		jr_pager_open(app->help && !app->no_pager);
		print_help(app->help ? stdout : stderr);
	}
	return app->version || app->help ? 0 : JR_E_USAGE;
}

/* Before options are read: a connection string is masked in argv then. */
static char *
whole_line(char *const *argv)
{
	char *line = jr_xstrdup("");

	for (; *argv != NULL; argv++) {
		char *more = jr_xasprintf("%s %s", line, *argv);

		free(line);
		line = more;
	}
	return line;
}

/* What main needs to know of a command at its end: see struct jr_app. */
struct ending {
	bool plugin, passes_status;
};

static int
dispatch(int argc, char **argv, struct ending *ending, struct jr_err *err)
{
	struct jr_app app = {.line = whole_line(argv)};
	int status = dispatch_to(&app, argc, argv, err);

	*ending = (struct ending){app.plugin, app.passes_status};
	free(app.line);
	jr_options_release(&(struct jr_option_set){jr_global_options(), &app});
	return status;
}

/*
 * A file opened later must not become descriptor 0, 1 or 2. A closed stdout becomes a descriptor that cannot be
 * written, so that finish_output reports lost output.
 */
static bool
open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", fd == STDERR_FILENO ? O_RDWR : O_RDONLY) != fd)
			return false;
	}
	return true;
}

/*
 * Check that all output was written. What a plugin could not say: unknown. The status of a command that exec or effect
 * has run stays what it was.
 */
static int
finish_output(int status, const struct ending *ending, struct jr_err *err)
{
	if (jr_written(err))
		return status;
	if (ending->plugin)
		return PLUGIN_UNKNOWN;
	return ending->passes_status && status != 0 ? status : jr_worse_status(status, JR_E_TEMP);
}

/* Append text[0..len), with *** for the text between its first : and its last @. */
static void
add_authority(struct jr_buf *out, const char *text, size_t len)
{
	const char *at = memrchr(text, '@', len);
	const char *colon = at != NULL ? memchr(text, ':', (size_t)(at - text)) : NULL;

	if (colon != NULL) {
		(void)jr_buf_add(out, text, (size_t)(colon + 1 - text));
		(void)jr_buf_adds(out, "***");
		len -= (size_t)(at - text);
		text = at;
	}
	(void)jr_buf_add(out, text, len);
}

/*
 * If -d is missing or in the wrong place, the connection string is quoted as an unknown name, and cron mails the
 * message. So mask passwords in it. Caller frees.
 */
static char *
without_passwords(const char *text)
{
	static const char url[] = "://", word[] = "password=";
	struct jr_buf out;

	jr_buf_init(&out, 4 * strlen(text) + 1);
	while (*text != '\0') {
		bool is_url = strncmp(text, url, strlen(url)) == 0;
		bool is_word = strncasecmp(text, word, strlen(word)) == 0;
		size_t begin = is_url ? strlen(url) : is_word ? strlen(word) : 1;
		size_t len = is_url || is_word ? strcspn(text + begin, " \t\r\n\"") : 0;

		(void)jr_buf_add(&out, text, begin);
		if (is_url)
			add_authority(&out, text + begin, len);
		else if (len > 0)
			(void)jr_buf_adds(&out, "***");
		text += begin + len;
	}
	return jr_buf_detach(&out);
}

static void
print_error(const struct jr_err *err)
{
	char *safe = without_passwords(err->msg), *text = jr_text_visible(safe, false);

	fprintf(stderr, "jobrun: %s\n", text);
	free(text);
	free(safe);
}

int
main(int argc, char **argv)
{
	struct jr_err err = {.code = JR_E_BUG}, out_err = {.code = JR_E_BUG};
	struct ending ending;
	int status;

	/*
	 * Connection strings are in the memory and environment of this process and of the watchdog, which is forked
	 * from it. Other processes of this account, handlers above all, must not read them there (/proc, ptrace).
	 * execve resets this flag, so programs that we start are not affected.
	 * Until here, while the loader was at work, they were readable; a program cannot prevent that.
	 */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (jr_init_done(argv, &status))
		return status;
	if (!open_standard_descriptors())
		return JR_E_TEMP;
	jr_signals_ignore();
	jr_terminal_set_locale();
	status = dispatch(argc, argv, &ending, &err);
	jr_pager_close();
	if (err.msg[0] != '\0')
		print_error(&err);
	status = finish_output(status, &ending, &out_err);
	if (out_err.msg[0] != '\0')
		print_error(&out_err);
	return status;
}
