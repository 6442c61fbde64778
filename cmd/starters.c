/*
 * starters: see starters.h. What cron does not read is not read here either: files in /etc/cron.d with a dot in the
 * name.
 */
#include "starters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crontab.h"
#include "base/mem.h"
#include "base/text.h"
#include "calls.h"
#include "command_output.h"
#include "starters_parts.h"

#define FILE_MAX_BYTES 1048576
#define FILES_MAX 1000
#define CRONTAB_MS 2000
#define CRON_PATH "/usr/bin:/bin"

static bool
is_runner(const struct jr_call *call)
{
	return strcmp(call->command, "run") == 0;
}

bool
jr_starters_starts_runner(const char *command)
{
	struct jr_calls calls;
	bool starts = false;

	jr_calls_find(&calls, command);
	for (size_t i = 0; i < calls.count; i++)
		starts = starts || is_runner(&calls.items[i]);
	jr_calls_release(&calls);
	return starts;
}

bool
jr_starters_names_database(const char *text)
{
	static const char *const signs[] = {
	    "DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE", "EnvironmentFile", " -d", "--dbname"};

	for (size_t i = 0; i < JR_COUNT(signs); i++) {
		if (strstr(text, signs[i]) != NULL)
			return true;
	}
	return false;
}

struct jr_starter *
jr_starters_add(struct jr_starters *starters, char *where, char *command, const char *path)
{
	struct jr_starter *starter;

	starters->items = jr_xrealloc(starters->items, starters->count + 1, sizeof(*starters->items));
	starter = &starters->items[starters->count++];
	starter->where = where;
	starter->command = command;
	starter->path = jr_xstrdup(path);
	starter->is_enabled = true;
	starter->names_database = true;
	return starter;
}

void
jr_starters_add_unread(struct jr_starters *starters, char *line)
{
	starters->unread = jr_xrealloc(starters->unread, starters->unread_count + 2, sizeof(*starters->unread));
	starters->unread[starters->unread_count++] = line;
	starters->unread[starters->unread_count] = NULL;
}

void
jr_starters_release(struct jr_starters *starters)
{
	for (size_t i = 0; i < starters->count; i++) {
		free(starters->items[i].where);
		free(starters->items[i].command);
		free(starters->items[i].path);
	}
	free(starters->items);
	jr_strings_free(starters->unread);
	*starters = (struct jr_starters){.count = 0};
}

/* --- files --- */

static void
add_unreadable(struct jr_starters *starters, const char *path)
{
	if (errno != ENOENT && errno != ENOTDIR)
		jr_starters_add_unread(starters, jr_xasprintf("%s: %s", path, strerror(errno)));
}

/* The reason why it is not a text that we can read; NULL: it is. */
static const char *
read_text(int fd, struct jr_buf *text)
{
	char bytes[4096];
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st) < 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a plain file";
	do {
		len = read(fd, bytes, sizeof(bytes));
	} while (len > 0 && jr_buf_add(text, bytes, (size_t)len));
	if (len < 0)
		return strerror(errno);
	return text->overflow ? "too long" : strlen(text->data) != text->len ? "not a text" : NULL;
}

char *
jr_starters_read_file(struct jr_starters *starters, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *problem;
	struct jr_buf text;

	if (fd < 0) {
		add_unreadable(starters, path);
		return NULL;
	}
	jr_buf_init(&text, FILE_MAX_BYTES);
	problem = read_text(fd, &text);
	(void)close(fd);
	if (problem == NULL)
		return jr_buf_detach(&text);
	jr_starters_add_unread(starters, jr_xasprintf("%s: %s", path, problem));
	jr_buf_release(&text);
	return NULL;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **
jr_starters_names(struct jr_starters *starters, const char *path, bool (*wanted)(const char *name))
{
	DIR *dir = opendir(path);
	char **names = NULL;
	size_t count = 0;
	const struct dirent *entry;

	if (dir == NULL) {
		add_unreadable(starters, path);
		return NULL;
	}
	while (count < FILES_MAX && (entry = readdir(dir)) != NULL) {
		if (!wanted(entry->d_name))
			continue;
		names = jr_xrealloc(names, count + 2, sizeof(*names));
		names[count++] = jr_xstrdup(entry->d_name);
		names[count] = NULL;
	}
	(void)closedir(dir);
	if (names != NULL)
		qsort(names, count, sizeof(*names), compare_names);
	return names;
}

/* --- crontabs --- */

/* The name of a file that cron reads. */
static bool
is_crontab(const char *name)
{
	return name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

/* A line that cannot be judged without a shell may name one in a file that it reads. */
static void
add_entry(
    struct jr_starters *starters, const char *where, const struct jr_crontab_line *line, const char *path, bool named)
{
	char *command, *input;
	struct jr_starter *starter;

	jr_crontab_translate(line->command, &command, &input);
	free(input);
	if (!jr_starters_starts_runner(command)) {
		free(command);
		return;
	}
	starter = jr_starters_add(starters, jr_xstrdup(where), command, path);
	starter->names_database = named || jr_starters_names_database(command) || strpbrk(command, ";&|$`") != NULL;
}

static void
read_crontab(struct jr_starters *starters, const char *where, const char *text, bool system)
{
	char *path = jr_xstrdup(CRON_PATH);
	bool named = false;

	for (const char *at = text; *at != '\0';) {
		size_t len = strcspn(at, "\n");
		struct jr_crontab_line line;

		jr_crontab_read(&line, at, len, system);
		if (line.kind == JR_CRONTAB_VARIABLE && strcmp(line.name, "PATH") == 0) {
			free(path);
			path = jr_xstrdup(line.value);
		} else if (line.kind == JR_CRONTAB_VARIABLE)
			named = named || jr_starters_names_database(line.name);
		else if (line.kind == JR_CRONTAB_ENTRY)
			add_entry(starters, where, &line, path, named);
		jr_crontab_release(&line);
		at += len + (at[len] != '\0');
	}
	free(path);
}

static void
read_system_crontab(struct jr_starters *starters, const struct jr_starter_places *places, const char *path)
{
	char *whole = jr_xasprintf("%s%s", places->root, path);
	char *text = jr_starters_read_file(starters, whole);

	if (text != NULL)
		read_crontab(starters, path, text, true);
	free(text);
	free(whole);
}

/* "no crontab for ada" is no failure, and a host without the program has none. */
static void
read_own_crontab(struct jr_starters *starters)
{
	static char program[] = "crontab", list[] = "-l";
	char *const argv[] = {program, list, NULL};
	int status;
	char *text = jr_command_output(argv, CRONTAB_MS, FILE_MAX_BYTES, &status);

	if (status == 0)
		read_crontab(starters, "your crontab", text, false);
	else if (status == -1)
		jr_starters_add_unread(starters, jr_xstrdup("your crontab: crontab -l did not end within 2s"));
	else if (status == -2 && strcmp(text, strerror(ENOENT)) != 0)
		jr_starters_add_unread(starters, jr_xasprintf("your crontab: cannot run crontab -l: %s", text));
	else if (status > 0 && strstr(text, "no crontab for") == NULL) {
		char *last = jr_text_last_line(text, 200);

		jr_starters_add_unread(starters, jr_xasprintf("your crontab: crontab -l: %s", last));
		free(last);
	}
	free(text);
}

void
jr_starters_find(struct jr_starters *starters, const struct jr_starter_places *places)
{
	char *directory = jr_xasprintf("%s/etc/cron.d", places->root);
	char **names;

	*starters = (struct jr_starters){.count = 0};
	if (places->own_crontab)
		read_own_crontab(starters);
	read_system_crontab(starters, places, "/etc/crontab");
	names = jr_starters_names(starters, directory, is_crontab);
	for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
		char *path = jr_xasprintf("/etc/cron.d/%s", names[i]);

		read_system_crontab(starters, places, path);
		free(path);
	}
	jr_strings_free(names);
	free(directory);
	jr_starters_find_timers(starters, places);
}

/* --- programs --- */

static bool
is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool
jr_starters_is_in_path(const char *name, const char *path)
{
	char *copy, *rest, *directory;
	bool found = false;

	if (strchr(name, '/') != NULL)
		return is_program(name);
	copy = rest = jr_xstrdup(path);
	while (!found && (directory = strsep(&rest, ":")) != NULL) {
		char *program = jr_xasprintf("%s/%s", directory[0] == '\0' ? "." : directory, name);

		found = is_program(program);
		free(program);
	}
	free(copy);
	return found;
}

char *
jr_starters_program(const char *command, const char *path)
{
	const char *found = NULL;
	struct jr_calls calls;
	char *program;
	bool is_there = false;

	jr_calls_find(&calls, command);
	for (size_t i = 0; !is_there && i < calls.count; i++) {
		if (!is_runner(&calls.items[i]))
			continue;
		is_there = jr_starters_is_in_path(calls.items[i].program, path);
		if (is_there || found == NULL)
			found = calls.items[i].program;
	}
	program = jr_xstrdup(found != NULL ? found : "jobrun");
	jr_calls_release(&calls);
	return program;
}
