/*
 * complete: see complete.h. The line is read as getopt would read it, up to the word before the last; that decides what
 * the last one may be: a command, an option, the argument of an option, or an argument of the command.
 */
#include "complete.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/mem.h"
#include "base/text.h"
#include "handler/handlers.h"
#include "sql_text.h"

#define DATABASE_MS 300

#define COMMAND_REFERENCE(name) &jr_cmd_##name,
static const struct jr_cmd *const commands[] = {JR_COMMANDS(COMMAND_REFERENCE)};

struct line {
	const struct jr_cmd *cmd;       /* NULL: not named yet */
	const struct jr_option *option; /* the last word is its argument */
	const char *dbname;             /* of -d */
	const char *before; /* begins with what is printed before each word: "--option=", "id,", or nothing */
	int before_len;
	const char *begun;        /* the last word as far as it is written */
	int arguments;            /* of the command, before the last word */
	bool after_dashes;        /* a program and its arguments */
	struct jr_words *printed; /* a word is printed once */
};

static const struct jr_cmd *
find_command(const char *name)
{
	if (strcmp(name, "--once") == 0)
		return &jr_cmd_run;
	for (size_t i = 0; i < JR_COUNT(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static const struct jr_option *
find_in(const struct jr_option *options, const char *word, size_t len)
{
	for (; options != NULL && options->name != NULL; options++) {
		if (len > 2 && word[1] == '-' && strlen(options->name) == len - 2 &&
		    strncmp(options->name, word + 2, len - 2) == 0)
			return options;
		if (len == 2 && options->letter != 0 && options->letter == word[1])
			return options;
	}
	return NULL;
}

/* The option word[0..len), with an argument of its own in the next word; NULL: none. */
static const struct jr_option *
find_option(const struct line *line, const char *word, size_t len)
{
	const struct jr_option *found = line->cmd == NULL ? NULL : find_in(line->cmd->options, word, len);

	if (found == NULL)
		found = find_in(jr_global_options(), word, len);
	return found == NULL || found->arg == NULL ? NULL : found;
}

static void
read_option(struct line *line, const char *word)
{
	const char *value = strchr(word, '=');

	if (strncmp(word, "-d", 2) == 0 && word[2] != '\0')
		line->dbname = word + 2;
	else if (value == NULL)
		line->option = find_option(line, word, strlen(word));
	else if (strncmp(word, "--dbname=", strlen("--dbname=")) == 0)
		line->dbname = value + 1;
}

/* A word before the last one. bash makes three words of --option=value; "=" is one of them. */
static void
read_word(struct line *line, const char *word)
{
	if (line->option != NULL && strcmp(word, "=") == 0)
		return;
	if (line->option != NULL) {
		if (strcmp(line->option->name, "dbname") == 0)
			line->dbname = word;
		line->option = NULL;
	} else if (strcmp(word, "--") == 0)
		line->after_dashes = true;
	else if (line->cmd == NULL && (*word != '-' || strcmp(word, "--once") == 0)) {
		line->cmd = find_command(word);
		line->after_dashes = line->cmd == NULL && strcmp(word, "help") != 0;
	} else if (*word == '-' && word[1] != '\0')
		read_option(line, word);
	else
		line->arguments++;
}

static void
read_line(struct line *line, char *const *words, int count)
{
	const char *last = words[count - 1], *value = strchr(last, '=');

	*line = (struct line){.before = last, .begun = last};
	for (int i = 0; i < count - 1 && !line->after_dashes; i++)
		read_word(line, words[i]);
	if (line->option != NULL && strcmp(last, "=") == 0)
		line->begun = last + 1;
	else if (line->option == NULL && strncmp(last, "--", 2) == 0 && value != NULL) {
		line->option = find_option(line, last, (size_t)(value - last));
		line->begun = value + 1;
	}
	if (line->option != NULL && line->option->type == JR_OPT_WORDS && strrchr(line->begun, ',') != NULL)
		line->begun = strrchr(line->begun, ',') + 1;
	if (strcmp(last, "=") != 0)
		line->before_len = (int)(line->begun - last);
}

static void
print_word(const struct line *line, const char *word, const char *meaning)
{
	if (strncmp(word, line->begun, strlen(line->begun)) != 0)
		return;
	for (size_t i = 0; i < line->printed->count; i++) {
		if (strcmp(line->printed->items[i], word) == 0)
			return;
	}
	line->printed->items = jr_xrealloc(line->printed->items, line->printed->count + 1, sizeof(char *));
	line->printed->items[line->printed->count++] = jr_xstrdup(word);
	printf("%.*s%s%s%s\n", line->before_len, line->before, word, meaning == NULL ? "" : "\t",
	    meaning == NULL ? "" : meaning);
}

static void
print_options(const struct line *line, const struct jr_option *options)
{
	for (; options != NULL && options->name != NULL; options++) {
		char *word = jr_xasprintf("--%s", options->name);

		print_word(line, word, options->help);
		free(word);
	}
}

/* The words behind separators of a text that are names in lower case. */
static void
print_names(const struct line *line, const char *text, const char *separators)
{
	char *copy = jr_xstrdup(text), *rest = copy;

	for (char *word; (word = strsep(&rest, separators)) != NULL;) {
		if (*word != '\0' && strspn(word, "abcdefghijklmnopqrstuvwxyz") == strlen(word))
			print_word(line, word, NULL);
	}
	free(copy);
}

/* Lines of the database: a word, and perhaps a tab and what it means. What has other characters is left out. */
static void
print_lines(const struct line *line, char *lines)
{
	for (char *word; (word = strsep(&lines, "\n")) != NULL;) {
		char *meaning = word;
		const char *name = strsep(&meaning, "\t");
		char *safe = meaning == NULL ? NULL : jr_text_visible(meaning, false);

		if (*name != '\0' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == strlen(name))
			print_word(line, name, safe);
		free(safe);
	}
}

static void
print_handlers(const struct line *line)
{
	char *directory = jr_handlers_directory(NULL);
	struct jr_handlers handlers;
	struct jr_err unused;

	if (jr_handlers_load(&handlers, directory, &unused)) {
		for (size_t i = 0; i < handlers.count; i++)
			print_word(line, handlers.items[i].job_type, NULL);
		jr_handlers_release(&handlers);
	}
	free(directory);
}

/*
 * Name lookups have no deadline of their own, so the kernel keeps this one. A parent may have ignored or blocked the
 * signal.
 */
static void
end_after(long ms)
{
	const struct itimerval limit = {.it_value = {.tv_usec = ms * 1000}};
	sigset_t alarms;

	(void)sigemptyset(&alarms);
	(void)sigaddset(&alarms, SIGALRM);
	(void)signal(SIGALRM, SIG_DFL);
	(void)sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	(void)setitimer(ITIMER_REAL, &limit, NULL);
}

static void
print_rows(const struct jr_app *app, const struct line *line, const char *kind)
{
	const char *conninfo = jr_db_conninfo(line->dbname == NULL ? app->dbname : line->dbname, NULL);
	struct jr_err unused;
	PGresult *result = NULL;
	struct jr_db *db;

	fflush(stdout);
	end_after(DATABASE_MS);
	db = jr_db_open(conninfo, DATABASE_MS, NULL, &unused);
	if (db != NULL)
		result = jr_db_query(db, jr_sql_complete, 1, &kind, DATABASE_MS, &unused);
	if (result != NULL && !PQgetisnull(result, 0, 0)) {
		char *lines = jr_xstrdup(PQgetvalue(result, 0, 0));

		print_lines(line, lines);
		free(lines);
	}
	PQclear(result);
	jr_db_close(db);
}

/* kind: TYPE, QUEUE, NAME or ID. */
static void
print_values(const struct jr_app *app, const struct line *line, const char *kind)
{
	if (strcmp(kind, "TYPE") == 0)
		print_handlers(line);
	print_rows(app, line, kind);
}

static bool
is_file(const char *kind)
{
	return strcmp(kind, "FILE") == 0 || strcmp(kind, "DIR") == 0 || strstr(kind, "@FILE") != NULL;
}

static bool
complete_option_argument(const struct jr_app *app, struct line *line)
{
	static const char *const rows[] = {"TYPE", "QUEUE", "NAME", "ID"};
	const struct jr_option *option = line->option;

	for (size_t i = 0; i < JR_COUNT(rows); i++) {
		if (strcmp(option->arg, rows[i]) == 0) {
			print_values(app, line, rows[i]);
			return true;
		}
	}
	if (option->choices != NULL)
		print_names(line, option->choices, " ");
	for (size_t i = 0; option->word != NULL && option->word(i) != NULL; i++)
		print_word(line, option->word(i), NULL);
	return !is_file(option->arg);
}

/*
 * Does the usage name this argument? Brackets and bars count as spaces, and "--option VALUE" is left out. *repeated: it
 * ends with "...".
 */
static bool
usage_has(const char *usage, const char *kind, bool *repeated)
{
	char *copy = jr_xstrdup(usage), *rest = copy;
	bool found = false, skip = false;

	for (char *word; !found && (word = strsep(&rest, " []|")) != NULL;) {
		size_t len = strcspn(word, ".");

		if (len == 0)
			continue;
		found = !skip && strlen(kind) == len && strncmp(word, kind, len) == 0;
		*repeated = found && word[len] == '.';
		skip = strncmp(word, "--", 2) == 0;
	}
	free(copy);
	return found;
}

static bool
complete_argument(const struct jr_app *app, const struct line *line)
{
	static const char *const rows[] = {"TYPE", "ID", "NAME"};
	const struct jr_cmd *cmd = line->cmd;
	bool repeated = false, known;

	/* "bash|zsh|fish", "crontab": these words themselves */
	if (line->arguments == 0)
		print_names(line, cmd->usage, " []|");
	for (size_t i = 0; cmd->word != NULL && cmd->word(line->arguments, i) != NULL; i++)
		print_word(line, cmd->word(line->arguments, i), NULL);
	known = line->printed->count > 0;
	for (size_t i = 0; i < JR_COUNT(rows); i++) {
		if (!usage_has(cmd->usage, rows[i], &repeated) || (line->arguments > 0 && !repeated))
			continue;
		print_values(app, line, cmd == &jr_cmd_queue ? "QUEUE" : rows[i]);
		known = true;
	}
	return known || !(usage_has(cmd->usage, "FILE", &repeated) || strstr(cmd->usage, "@FILE") != NULL);
}

static void
print_commands(const struct line *line)
{
	for (size_t i = 0; i < JR_COUNT(commands); i++)
		print_word(line, commands[i]->name, commands[i]->summary);
	print_word(line, "help", "print the help of a command");
}

bool
jr_complete(const struct jr_app *app, char *const *words, int count)
{
	struct jr_words printed = {.count = 0};
	struct line line;
	bool known = true;

	read_line(&line, words, count);
	line.printed = &printed;
	if (line.after_dashes)
		known = false;
	else if (line.option != NULL)
		known = complete_option_argument(app, &line);
	else if (*line.begun == '-') {
		print_options(&line, line.cmd == NULL ? NULL : line.cmd->options);
		print_options(&line, jr_global_options());
	} else if (line.cmd == NULL)
		print_commands(&line);
	else
		known = complete_argument(app, &line);
	for (size_t i = 0; i < printed.count; i++)
		free(printed.items[i]);
	free(printed.items);
	return known;
}
