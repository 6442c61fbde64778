/*
 * import: print a crontab with its lines as lines of jobrun exec, or as definitions and handlers. Changes nothing.
 *
 * What must hold: the printed crontab runs the same commands with the same input. A line for which that is not certain
 * is printed unchanged, below a comment that says why.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crontab.h"
#include "base/mem.h"
#include "base/parse.h"
#include "calls.h"
#include "commands.h"
#include "import.h"
#include "payload.h"
#include "print.h"

#define FILE_MAX_BYTES ((size_t)4 << 20)
#define OUT_MAX_BYTES ((size_t)256 << 20)
#define SHORT_COMMAND 998 /* Debian's cron refuses the whole file for a longer command */

struct import_opts {
	bool definitions, system;
};

static const struct import_opts import_defaults = {.system = false};

#define AT(field) offsetof(struct import_opts, field)

/* clang-format off */
static const struct jr_option import_options[] = {
	{ .name = "definitions", .help = "a shell script that writes handlers and makes definitions; jobrun starts them, not cron",
	    .type = JR_OPT_FLAG, .offset = AT(definitions) },
	{ .name = "system", .help = "lines have a user, as in /etc/crontab and /etc/cron.d (known by these paths)",
	    .type = JR_OPT_FLAG, .offset = AT(system) },
	JR_OPTIONS_END,
};
/* clang-format on */

/* --- names --- */

static void
take(struct jr_import *import, char *name)
{
	import->names = jr_xrealloc(import->names, import->name_count + 1, sizeof(*import->names));
	import->names[import->name_count++] = name;
}

static bool
is_taken(const struct jr_import *import, const char *name)
{
	for (size_t i = 0; i < import->name_count; i++) {
		if (strcmp(import->names[i], name) == 0)
			return true;
	}
	return false;
}

const char *
jr_import_name(struct jr_import *import, const char *shell_command)
{
	char *base = jr_crontab_name(shell_command), *name = jr_xstrdup(base);

	for (int n = 2; is_taken(import, name); n++) {
		free(name);
		name = jr_xasprintf("%s-%d", base, n);
	}
	free(base);
	take(import, name);
	return name;
}

/* An argument of exec may be its name. If it is that of an option, a name more is taken, which harms nothing. */
static void
take_names_of(struct jr_import *import, const char *shell_command)
{
	struct jr_calls calls;
	struct jr_err unused;

	jr_calls_find(&calls, shell_command);
	for (size_t i = 0; i < calls.count; i++) {
		const struct jr_call *call = &calls.items[i];

		for (size_t k = 0; strcmp(call->command, "exec") == 0 && call->args[k] != NULL; k++) {
			if (jr_parse_definition("name", call->args[k], &unused) && !is_taken(import, call->args[k]))
				take(import, jr_xstrdup(call->args[k]));
		}
	}
	jr_calls_release(&calls);
}

/* Of lines that are converted already, which may stand below those that are not. */
static void
take_names(struct jr_import *import, const char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");
		struct jr_crontab_line line;

		jr_crontab_read(&line, text, len, import->system);
		if (line.kind == JR_CRONTAB_ENTRY) {
			char *shell_command = NULL, *input = NULL;

			jr_crontab_translate(line.command, &shell_command, &input);
			take_names_of(import, shell_command);
			free(shell_command);
			free(input);
		}
		jr_crontab_release(&line);
		text += len + (text[len] == '\n');
	}
}

/* --- the variables --- */

/* In this shell a word in single quotes means what is between them. */
static bool
is_posix(const char *shell)
{
	static const char *const known[] = {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"};
	const char *slash = strrchr(shell, '/');

	for (size_t i = 0; i < JR_COUNT(known); i++) {
		if (strcmp(slash == NULL ? shell : slash + 1, known[i]) == 0)
			return true;
	}
	return false;
}

const char *
jr_import_variable(const struct jr_import *import, const char *name)
{
	for (size_t i = import->variable_count; i > 0; i--) {
		if (strcmp(import->variables[i - 1].name, name) == 0)
			return import->variables[i - 1].value;
	}
	return NULL;
}

const char *
jr_import_shell(const struct jr_import *import)
{
	const char *shell = jr_import_variable(import, "SHELL");

	return shell != NULL && shell[0] != '\0' ? shell : "/bin/sh";
}

/* The value holds for the lines below. Takes name and value of *line. */
static void
take_variable(struct jr_import *import, struct jr_crontab_line *line)
{
	struct jr_import_variable *found = NULL;

	for (size_t i = 0; i < import->variable_count; i++) {
		if (strcmp(import->variables[i].name, line->name) == 0)
			found = &import->variables[i];
	}
	if (found == NULL) {
		import->variables =
		    jr_xrealloc(import->variables, import->variable_count + 1, sizeof(*import->variables));
		found = &import->variables[import->variable_count++];
		*found = (struct jr_import_variable){.name = line->name};
		line->name = NULL;
	}
	free(found->value);
	found->value = line->value;
	line->value = NULL;
}

static void
release(struct jr_import *import)
{
	for (size_t i = 0; i < import->name_count; i++)
		free(import->names[i]);
	for (size_t i = 0; i < import->variable_count; i++) {
		free(import->variables[i].name);
		free(import->variables[i].value);
	}
	free(import->names);
	free(import->variables);
	free(import->program);
	jr_buf_release(&import->out);
}

/* --- lines --- */

static const char *
why_not(const struct jr_import *import, const struct jr_crontab_line *line, const char *shell_command)
{
	static const char *const nicknames[] = {
	    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"};

	if (strcmp(line->schedule, "@reboot") == 0)
		return "jobrun has no @reboot, so cron keeps this line";
	for (size_t i = 0; i < JR_COUNT(nicknames) && line->schedule[0] == '@'; i++) {
		if (strcmp(line->schedule, nicknames[i]) == 0)
			break;
		if (i + 1 == JR_COUNT(nicknames))
			return "jobrun does not know this time";
	}
	if (!is_posix(jr_import_shell(import)))
		return "the shell of this line (SHELL=) has quotes of its own";
	if (shell_command[0] == '\0')
		return "there is no command";
	return NULL;
}

static void
add_unchanged(struct jr_import *import, const char *text, size_t len, const char *why)
{
	if (why != NULL)
		jr_buf_addf(&import->out, "# jobrun: %s\n", why);
	if (import->definitions)
		jr_buf_adds(&import->out, "# ");
	jr_buf_add(&import->out, text, len);
	jr_buf_addc(&import->out, '\n');
}

/* The first variable that names a database for jobrun, of the crontab or (NULL) of this process. NULL: none does. */
static const char *
variable_of_database(const struct jr_import *import)
{
	static const char *const names[] = {"JOBRUN_DATABASE_URL", "DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE"};

	for (size_t i = 0; i < JR_COUNT(names); i++) {
		const char *value = import == NULL ? getenv(names[i]) : jr_import_variable(import, names[i]);

		if (value != NULL && value[0] != '\0')
			return names[i];
	}
	return NULL;
}

bool
jr_import_names_database(const struct jr_import *import)
{
	return variable_of_database(import) != NULL;
}

/* The command is quoted as it stands: cron still finds "%" and "\%" in it, before any shell does. Caller frees. */
static char *
exec_command(struct jr_import *import, const struct jr_crontab_line *line, const char *shell_command)
{
	const char *name = jr_import_name(import, shell_command), *command = line->command;
	size_t len = jr_crontab_command_len(command);
	char *quoted, *shell, *text;

	if (jr_crontab_is_plain(shell_command))
		return jr_xasprintf("%s exec %s -- %s", import->program, name, command);
	quoted = jr_crontab_quote(command, len);
	shell = jr_crontab_word(jr_import_shell(import));
	text = jr_xasprintf("%s exec %s -- %s -c %s%s", import->program, name, shell, quoted, command + len);
	free(shell);
	free(quoted);
	return text;
}

static void
add_exec(struct jr_import *import, const struct jr_crontab_line *line, const char *text, size_t len,
    const char *shell_command)
{
	char *command = exec_command(import, line, shell_command);

	if (strlen(command) > SHORT_COMMAND && strlen(line->command) <= SHORT_COMMAND)
		add_unchanged(import, text, len, "with jobrun exec the command is too long for some crons (998 bytes)");
	else {
		jr_buf_add(&import->out, text, line->before);
		jr_buf_adds(&import->out, command);
		jr_buf_addc(&import->out, '\n');
		import->unnamed += jr_import_names_database(import) ? 0 : 1;
	}
	free(command);
}

/* "root  cd /": the line of a system crontab, or the command of one that begins with a name like "sync". */
static bool
begins_with_user(const char *command)
{
	size_t len = strcspn(command, " \t");
	char *word = jr_xasprintf("%.*s", (int)len, command);
	bool is_user = command[len] != '\0' && getpwnam(word) != NULL;

	free(word);
	return is_user;
}

static bool
has_user(const struct jr_crontab_line *line)
{
	return line->user != NULL ? getpwnam(line->user) != NULL : begins_with_user(line->command);
}

/* No line is taken for another kind than it was said to be: the file decides. */
static void
tell_system(const struct jr_import *import, const struct import_opts *opts)
{
	if (!import->system && import->entries > 0 && import->with_user == import->entries)
		fputs("jobrun: warning: the command of each line begins with a user of this host; if this is a system "
		      "crontab, add --system\n",
		    stderr);
	else if (opts->system && import->entries > 0 && import->with_user == 0)
		fputs(
		    "jobrun: warning: no line names a user of this host before its command; if this is the crontab of "
		    "a user, leave out --system\n",
		    stderr);
}

/* A value may have a password, so it is not printed. */
static void
tell_database(const struct jr_import *import)
{
	const char *own = variable_of_database(NULL);

	if (import->unnamed > 0)
		fprintf(stderr,
		    "jobrun: warning: the crontab does not say which database%s%s%s; put this line at its top: "
		    "JOBRUN_DATABASE_URL=postgresql://ROLE@HOST/DATABASE\n",
		    own == NULL ? "" : ", and cron does not have ", own == NULL ? "" : own,
		    own == NULL ? "" : " of this shell");
}

static bool
calls_jobrun(const char *shell_command)
{
	struct jr_calls calls;
	bool found;

	jr_calls_find(&calls, shell_command);
	found = calls.count > 0;
	jr_calls_release(&calls);
	return found;
}

static void
add_entry(struct jr_import *import, const struct jr_crontab_line *line, const char *text, size_t len)
{
	char *shell_command = NULL, *input = NULL;
	const char *why;

	import->entries++;
	import->with_user += has_user(line) ? 1 : 0;
	jr_crontab_translate(line->command, &shell_command, &input);
	why = why_not(import, line, shell_command);
	if (why != NULL || calls_jobrun(shell_command))
		add_unchanged(import, text, len, why);
	else if (import->definitions)
		jr_import_define(import, line, shell_command, input);
	else
		add_exec(import, line, text, len, shell_command);
	free(shell_command);
	free(input);
}

static void
add_line(struct jr_import *import, const char *text, size_t len)
{
	struct jr_crontab_line line;

	jr_crontab_read(&line, text, len, import->system);
	if (line.kind == JR_CRONTAB_VARIABLE)
		take_variable(import, &line);
	else if (line.kind == JR_CRONTAB_UNKNOWN)
		add_unchanged(import, text, len,
		    import->system ? "this is no line of a crontab with users" : "this is no line of a crontab");
	else if (line.kind == JR_CRONTAB_ENTRY)
		add_entry(import, &line, text, len);
	if (!import->definitions && (line.kind == JR_CRONTAB_NOTHING || line.kind == JR_CRONTAB_VARIABLE))
		add_unchanged(import, text, len, NULL);
	jr_crontab_release(&line);
}

/* --- the whole --- */

static void
add_lines(struct jr_import *import, const char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");

		add_line(import, text, len);
		text += len + (text[len] == '\n');
	}
	if (import->definitions)
		jr_import_define_end(import);
}

/* This program by its path, since cron's PATH is short; as a word of a shell in a crontab. Caller frees. */
static char *
own_path(void)
{
	char path[4096], *word;
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[len > 0 ? len : 0] = '\0';
	word = jr_crontab_word(path[0] != '\0' && strchr(path, '%') == NULL ? path : "jobrun");
	return word;
}

static bool
is_system(const char *path)
{
	static const char directory[] = "/etc/cron.d/";

	return strcmp(path, "/etc/crontab") == 0 || strncmp(path, directory, strlen(directory)) == 0;
}

static int
import_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct import_opts *opts = values;
	const char *path = argc > 1 ? argv[1] : "-";
	struct jr_import import = {.definitions = opts->definitions, .system = opts->system || is_system(path)};
	char *text;

	(void)app;
	if (strcmp(argv[0], "crontab") != 0)
		jr_fail(err, JR_E_USAGE, "what is imported is a crontab: jobrun import crontab [FILE]");
	else if (argc == 1 && isatty(STDIN_FILENO))
		jr_fail(err, JR_E_USAGE, "give a FILE, or write: crontab -l | jobrun import crontab");
	if (err->msg[0] != '\0')
		return (int)err->code;
	text = jr_payload_read_file(path, FILE_MAX_BYTES, err);
	if (text == NULL)
		return (int)err->code;
	import.program = own_path();
	jr_buf_init(&import.out, OUT_MAX_BYTES);
	take_names(&import, text);
	add_lines(&import, text);
	if (import.out.overflow)
		jr_fail(err, JR_E_DATA, "%s: it is too long", path);
	else {
		jr_print_output(stdout, import.out.data);
		tell_system(&import, opts);
		tell_database(&import);
		jr_import_define_tell(&import);
	}
	free(text);
	release(&import);
	return err->msg[0] == '\0' ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_import = {
    .name = "import",
    .group = JR_GROUP_SETUP,
    .summary = "print a crontab with its lines as lines of jobrun exec, or as definitions",
    .usage = "[--definitions] [--system] crontab [FILE]",
    .details =
	"Reads FILE, or without one or with \"-\" stdin (crontab -l | jobrun import crontab), and prints the new\n"
	"crontab. It changes nothing and needs no database. Each line keeps its time, its user, and the bytes of its\n"
	"command; variables and comments stay where they are. A line that is not converted is printed unchanged, and a\n"
	"comment says why; lines that call jobrun are left alone. Names are made from the commands, and no other line\n"
	"has them, those of jobrun exec included. Two hosts whose lines have the same name share one definition, so that\n"
	"only one of them runs at a time.\n"
	"The new lines need the database: put JOBRUN_DATABASE_URL=... at the top of the crontab, since cron does not\n"
	"have the variables of a shell. Without such a line a warning says so.\n"
	"\n"
	"With --definitions the time zone is CRON_TZ= of the crontab, else TZ of your shell, else that of this\n"
	"host. Read the script before you run it. It replaces no handler and no definition: where another one has the\n"
	"name, it ends.\n",
    .options = import_options,
    .defaults = &import_defaults,
    .size = sizeof(import_defaults),
    .min_args = 1,
    .max_args = 2,
    .run = import_run,
};
