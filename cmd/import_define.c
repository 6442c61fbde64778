/*
 * import_define: lines of a crontab as a shell script that writes handlers and makes definitions.
 *
 * A handler does what cron does before it starts a shell: the variables, the home directory, the input. What must hold:
 * every text of the crontab stands in single quotes or in a here-document that it cannot end. A handler is as
 * private as a crontab, unless another user must be able to read it. The script replaces nothing that exists and
 * differs, and may be run again. It looks at definitions before it writes handlers: with a handler of its own for
 * the definition of another host, this host would run that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "import.h"
#include "zone.h"

#define TEXT_MAX ((size_t)64 << 20)

/* What cron itself uses for this line: CRON_TZ, else its own zone. Caller frees. */
static char *
time_zone(const struct jr_import *import)
{
	const char *set = jr_import_variable(import, "CRON_TZ");

	if (set == NULL || set[0] == '\0')
		return jr_zone_of_host();
	return jr_xstrdup(set + (set[0] == ':'));
}

static void
add_export(struct jr_buf *out, const char *name, const char *value)
{
	char *word = jr_crontab_word(value);

	jr_buf_addf(out, "export %s=%s\n", name, word);
	free(word);
}

/* Passwords of a database, which handlers do not inherit either: see environ.c. */
static bool
is_left_out(const char *name)
{
	return strcmp(name, "DATABASE_URL") == 0 || strcmp(name, "PGPASSWORD") == 0;
}

/* What is for jobrun itself, a handler gets from its runner. */
static void
add_variables(struct jr_buf *out, struct jr_import *import)
{
	add_export(out, "SHELL", jr_import_shell(import));
	if (jr_import_variable(import, "PATH") == NULL)
		add_export(out, "PATH", "/usr/bin:/bin");
	for (size_t i = 0; i < import->variable_count; i++) {
		struct jr_import_variable *variable = &import->variables[i];

		if (is_left_out(variable->name))
			variable->is_missed = true;
		else if (strcmp(variable->name, "SHELL") != 0 &&
			 strncmp(variable->name, "JOBRUN_", strlen("JOBRUN_")) != 0)
			add_export(out, variable->name, variable->value);
	}
}

/* Caller frees. */
static char *
handler_text(struct jr_import *import, const char *shell_command, const char *input)
{
	char *shell = jr_crontab_word(jr_import_shell(import)), *command, *quoted;
	struct jr_buf out;

	jr_buf_init(&out, TEXT_MAX);
	jr_buf_adds(&out, "#!/bin/sh\n");
	add_variables(&out, import);
	jr_buf_adds(&out, "cd 2>/dev/null || cd /\n");
	command = jr_crontab_quote(shell_command, strlen(shell_command));
	if (input == NULL)
		jr_buf_addf(&out, "exec %s -c %s </dev/null\n", shell, command);
	else {
		quoted = jr_crontab_quote(input, strlen(input));
		jr_buf_addf(&out, "printf %%s %s | %s -c %s\n", quoted, shell, command);
		free(quoted);
	}
	free(command);
	free(shell);
	return jr_buf_detach(&out);
}

/* A here-document with an end that is not in the text. */
static void
add_file(struct jr_buf *out, const char *name, const char *text)
{
	char *end = jr_xstrdup("JOBRUN_END");

	while (strstr(text, end) != NULL) {
		char *longer = jr_xasprintf("%s_", end);

		free(end);
		end = longer;
	}
	jr_buf_addf(out, "add %s <<'%s'\n", name, end);
	jr_buf_adds(out, text);
	jr_buf_addf(out, "%s\n", end);
	free(end);
}

static void
add_user(struct jr_buf *out, const char *name, const char *user)
{
	char *file = jr_xasprintf("%s.json", name), *text = jr_xasprintf("{\"user\": \"%s\"}\n", user);

	jr_buf_addf(out, "# Only root's jobrun run can start it as %s.\n", user);
	add_file(out, file, text);
	free(text);
	free(file);
}

/* Names, schedules and zones have no character that JSON must escape, but for what a crontab says about its zone. */
static void
add_definition(struct jr_import *import, const char *name, const char *schedule)
{
	char *zone = time_zone(import);

	for (char *c = zone; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?'; /* define refuses the zone and names it */
	}
	if (import->defined == 0)
		jr_buf_init(&import->definitions_text, TEXT_MAX);
	jr_buf_addf(&import->definitions_text,
	    "%s  {\"name\": \"%s\", \"schedule\": \"%s\", \"time_zone\": \"%s\", \"max_attempts\": 1, \"catch_up\": \"skip\"}",
	    import->defined++ > 0 ? ",\n" : "", name, schedule, zone);
	free(zone);
}

void
jr_import_define(
    struct jr_import *import, const struct jr_crontab_line *line, const char *shell_command, const char *input)
{
	const char *name = jr_import_name(import, shell_command);
	struct jr_buf *out = &import->out;
	char *text;

	if (line->user != NULL && line->user[strspn(line->user, "abcdefghijklmnopqrstuvwxyz"
								"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] != '\0') {
		jr_buf_addf(out, "\n# jobrun: %s is left out: a user with such a name cannot be set\n", name);
		return;
	}
	text = handler_text(import, shell_command, input);
	jr_buf_addc(out, '\n');
	add_file(out, name, text);
	jr_buf_addf(out, "chmod %s \"$handlers/%s\"\n", line->user != NULL ? "755" : "700", name);
	free(text);
	if (line->user != NULL) {
		add_user(out, name, line->user);
		import->readable++;
	}
	add_definition(import, name, line->schedule);
}

/* A directory in ~/.config, once it is there, hides the one in /etc from jobrun. */
static void
add_hiding(struct jr_buf *out)
{
	jr_buf_adds(out,
	    "etc=/etc/jobrun/handlers\n"
	    "if [ -z \"${JOBRUN_HANDLERS:-}\" ] && [ ! -d \"$handlers\" ] && [ -n \"$(ls \"$etc\" 2>/dev/null)\" ]; then\n"
	    "\techo \"nothing was written: jobrun run uses the handlers in $etc, and $handlers would hide them\"\n"
	    "\tif [ -w \"$etc\" ]; then echo \"to put the new ones beside them, type: JOBRUN_HANDLERS=$etc sh $0\"; fi\n"
	    "\techo \"to use the new ones alone, type: mkdir -p '$handlers'; sh $0\"\n"
	    "\texit 1\n"
	    "fi >&2\n");
}

/* Where jobrun run of this crontab will look: as its variable says, or else where jobrun looks by itself. */
static void
add_directory(struct jr_buf *out, const struct jr_import *import)
{
	const char *named = jr_import_variable(import, "JOBRUN_HANDLERS");

	if (named != NULL && named[0] != '\0') {
		char *word = jr_crontab_word(named);

		jr_buf_addf(out, "named=%s # by JOBRUN_HANDLERS in the crontab\n", word);
		jr_buf_adds(out, "handlers=${JOBRUN_HANDLERS:-$named}\n");
		free(word);
	} else if (import->system) /* other users cannot reach anything below the home directory of root */
		jr_buf_adds(out,
		    "# If root has ~/.config/jobrun/handlers, jobrun run reads that unless it gets this one by --handlers.\n"
		    "handlers=${JOBRUN_HANDLERS:-/etc/jobrun/handlers}\n");
	else {
		jr_buf_adds(out, "handlers=${JOBRUN_HANDLERS:-$HOME/.config/jobrun/handlers}\n");
		if (import->defined > 0)
			add_hiding(out);
	}
}

static void
add_head(struct jr_buf *out, const struct jr_import *import)
{
	jr_buf_adds(out,
	    "#!/bin/sh\n"
	    "# Made by jobrun import crontab --definitions. Read it, and run it. Then remove these lines from the crontab\n"
	    "# (keep those that are comments here, such as @reboot ones), and put in, the first unless a line of the\n"
	    "# crontab names the database:\n"
	    "#     JOBRUN_DATABASE_URL=postgresql://ROLE@HOST/DATABASE\n");
	jr_buf_addf(out, "#     * * * * * %s%s run\n", import->system ? "root " : "", import->program);
	jr_buf_adds(
	    out, "# From then on what they print is kept (jobrun logs), not mailed; only a run that is dead is.\n");
	jr_buf_addf(out, "set -eu\numask %s\n", import->system ? "022" : "077");
	add_directory(out, import);
}

/* The definitions, and what looks whether others have their names. */
static void
add_definitions(struct jr_buf *out, const struct jr_import *import)
{
	jr_buf_adds(out, "\ndefinitions() {\n\tcat <<'JOBRUN_END'\n{\"definitions\": [\n");
	jr_buf_adds(out, import->definitions_text.data);
	jr_buf_addf(out,
	    "\n]}\nJOBRUN_END\n}\n\n"
	    "# Definitions that exist and differ stay as they are.\n"
	    "if ! changes=$(definitions | %s define --dry-run --file - 2>&1); then\n"
	    "\tprintf '%%s\\n' \"$changes\" >&2\n"
	    "\texit 1\n"
	    "fi\n"
	    "set -- $(printf '%%s\\n' \"$changes\" | sed -n 's/^~ //p')\n"
	    "if [ $# -gt 0 ]; then\n"
	    "\techo \"nothing was written: there are other definitions named $*; change these names in the script\" >&2\n"
	    "\texit 1\n"
	    "fi\n",
	    import->program);
}

/* A file that has the name of a handler with ".sql" or ".json" is of the same handler. */
static void
add_writer(struct jr_buf *out)
{
	jr_buf_adds(out,
	    "\n# add NAME: stdin is the file. One that exists and differs stays as it is.\n"
	    "add() {\n"
	    "\tif [ -e \"$handlers/$1\" ]; then\n"
	    "\t\tif cmp -s - \"$handlers/$1\"; then return 0; fi\n"
	    "\telif [ ! -e \"$handlers/$1.sql\" ] && [ ! -e \"$handlers/$1.json\" ]; then\n"
	    "\t\tcat >\"$handlers/$1\"\n"
	    "\t\treturn 0\n"
	    "\tfi\n"
	    "\techo \"no definition was made: there is another $1 in $handlers; change this name in the script\" >&2\n"
	    "\texit 1\n"
	    "}\n"
	    "mkdir -p \"$handlers\"\n");
}

void
jr_import_define_end(struct jr_import *import)
{
	struct jr_buf handlers = import->out, *out = &import->out;

	jr_buf_init(out, handlers.limit);
	add_head(out, import);
	if (import->defined > 0) {
		import->unnamed += jr_import_names_database(import) ? 0 : 1; /* the line of jobrun run */
		add_definitions(out, import);
		add_writer(out);
	}
	jr_buf_add(out, handlers.data, handlers.len);
	if (import->defined > 0)
		jr_buf_addf(out, "\ndefinitions | %s define --file -\n", import->program);
	if (import->definitions_text.overflow || handlers.overflow)
		out->overflow = true;
	jr_buf_release(&handlers);
	jr_buf_release(&import->definitions_text);
}

/* The values may be passwords, so they are not printed. */
void
jr_import_define_tell(const struct jr_import *import)
{
	if (import->readable > 0)
		fputs("jobrun: warning: handlers of lines with a user are readable by all users, with any secrets in "
		      "their variables and commands\n",
		    stderr);
	for (size_t i = 0; i < import->variable_count; i++) {
		if (import->variables[i].is_missed)
			fprintf(stderr,
			    "jobrun: warning: %s is left out of handlers; a command that needs it gets it from \"env\" "
			    "in NAME.json\n",
			    import->variables[i].name);
	}
}
