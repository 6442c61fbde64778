/*
 * handlers: the handlers directory.
 *
 * It is read once, at start: names are sorted first, so that items and problems come in the same
 * order everywhere; handlers_judge.c says what each of them is. What must hold: items is sorted for
 * jr_handlers_find and always contains what is built in.
 */
#include "handler/handlers.h"

#include "base/mem.h"
#include "handler/handlers_parts.h"
#include "process/perm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOOP "jobrun.noop"

struct names {
	char **items;
	size_t count;
};

static bool
is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/*
 * ~/.config/jobrun/handlers, or NULL. A relative XDG_CONFIG_HOME is to be ignored, says its
 * specification.
 */
static char *
own_directory(void)
{
	const char *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;

	if (config != NULL && config[0] == '/')
		path = jr_xasprintf("%s/jobrun/handlers", config);
	else if (home != NULL && home[0] == '/')
		path = jr_xasprintf("%s/.config/jobrun/handlers", home);
	if (path != NULL && is_there(path))
		return path;
	free(path);
	return NULL;
}

char *
jr_handlers_directory(const char *option)
{
	const char *variable = getenv("JOBRUN_HANDLERS");
	char *own;

	if (option != NULL)
		return jr_xstrdup(option);
	if (variable != NULL && variable[0] != '\0')
		return jr_xstrdup(variable);
	own = own_directory();
	return own != NULL ? own : jr_xstrdup("/etc/jobrun/handlers");
}

static bool
has_suffix(const char *name, const char *suffix)
{
	size_t len = strlen(name);
	size_t suffix_len = strlen(suffix);

	return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

/* What editors and packages leave behind. */
static bool
is_passed_over(const char *name)
{
	static const char *const suffixes[] = {"~", ".bak", ".swp"};
	const char *ending = strrchr(name, '.');

	if (name[0] == '.')
		return true;
	for (size_t i = 0; i < JR_COUNT(suffixes); i++) {
		if (has_suffix(name, suffixes[i]))
			return true;
	}
	return ending != NULL && (strncmp(ending, ".dpkg-", 6) == 0 || strncmp(ending, ".rpm", 4) == 0);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
free_strings(char **strings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(strings[i]);
	free(strings);
}

/* The names worth a look. *names is for the caller to free in any case. */
static bool
read_names(const char *directory, DIR *dir, struct names *names, struct jr_err *err)
{
	for (;;) {
		struct dirent *entry;

		errno = 0; /* readdir tells the end from a failure by errno alone */
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (is_passed_over(entry->d_name))
			continue;
		if (names->count == JR_HANDLERS_MAX)
			return jr_fail(err, JR_E_CONFIG, "cannot use %s: more than %d files are in it", directory,
			    JR_HANDLERS_MAX);
		if (names->items == NULL)
			names->items = jr_xcalloc(JR_HANDLERS_MAX, sizeof(*names->items));
		names->items[names->count++] = jr_xstrdup(entry->d_name);
	}
	if (errno != 0)
		return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", directory, strerror(errno));
	if (names->count > 0)
		qsort(names->items, names->count, sizeof(*names->items), compare_names);
	return true;
}

struct jr_handler *
jr_handlers_add(struct jr_handlers *handlers, const char *job_type, const char *name)
{
	struct jr_handler *handler;

	handlers->items = jr_xrealloc(handlers->items, handlers->count + 1, sizeof(*handlers->items));
	handler = &handlers->items[handlers->count++];
	*handler = (struct jr_handler){
	    .job_type = jr_xstrdup(job_type),
	    .path = name != NULL ? jr_xasprintf("%s/%s", handlers->directory, name) : NULL,
	    .directory = jr_xstrdup(handlers->directory),
	};
	jr_settings_init(&handler->settings);
	return handler;
}

void
jr_handlers_drop(struct jr_handlers *handlers)
{
	struct jr_handler *handler = &handlers->items[--handlers->count];

	free(handler->job_type);
	free(handler->path);
	free(handler->settings_path);
	free(handler->directory);
	free(handler->sql);
	jr_settings_release(&handler->settings);
}

static int
compare_handlers(const void *a, const void *b)
{
	return strcmp(((const struct jr_handler *)a)->job_type, ((const struct jr_handler *)b)->job_type);
}

static char *
absolute(const char *path)
{
	char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);
	char *result;

	if (cwd == NULL)
		return jr_xstrdup(path);
	result = jr_xasprintf("%s/%s", cwd, path);
	free(cwd);
	return result;
}

/* The directory itself: it is there, can be read and may be trusted. */
static bool
read_directory(const char *directory, struct names *names, struct jr_err *err)
{
	DIR *dir = opendir(directory);
	bool done;

	if (dir == NULL && errno == ENOENT)
		return jr_fail(err, JR_E_CONFIG,
		    "cannot read the handlers directory %s: %s: mkdir -p %s, or ~/.config/jobrun/handlers, or name another with --handlers",
		    directory, strerror(errno), directory);
	if (dir == NULL)
		return jr_fail(
		    err, JR_E_CONFIG, "cannot read the handlers directory %s: %s", directory, strerror(errno));
	done = jr_perm_check_directory(directory, err) && read_names(directory, dir, names, err);
	(void)closedir(dir);
	return done;
}

bool
jr_handlers_read(struct jr_handlers *handlers, const char *directory, struct jr_err *err)
{
	struct names names = {0};
	bool done;

	*handlers = (struct jr_handlers){.directory = absolute(directory)};
	done = read_directory(handlers->directory, &names, err);
	if (done)
		jr_handlers_judge(handlers, names.items, names.count);
	free_strings(names.items, names.count);
	if (!done) {
		jr_handlers_release(handlers);
		return false;
	}
	jr_handlers_add(handlers, NOOP, NULL)->kind = &jr_handler_builtin;
	jr_handlers_add(handlers, JR_PRUNE_TYPE, NULL)->kind = &jr_handler_prune;
	qsort(handlers->items, handlers->count, sizeof(*handlers->items), compare_handlers);
	return true;
}

bool
jr_handlers_check(const struct jr_handlers *handlers, struct jr_err *err)
{
	for (size_t i = 0; i < handlers->count; i++) {
		if (handlers->items[i].path != NULL)
			return true;
	}
	if (handlers->problem_count > 0)
		return jr_fail(err, JR_E_CONFIG, "%s", handlers->problems[0]);
	return jr_fail(err, JR_E_CONFIG,
	    "no handler is in %s: put an executable file, a .sql or a .json there, named after its job type",
	    handlers->directory);
}

bool
jr_handlers_load(struct jr_handlers *handlers, const char *directory, struct jr_err *err)
{
	if (!jr_handlers_read(handlers, directory, err))
		return false;
	if (jr_handlers_check(handlers, err))
		return true;
	jr_handlers_release(handlers);
	return false;
}

void
jr_handlers_release(struct jr_handlers *handlers)
{
	while (handlers->count > 0)
		jr_handlers_drop(handlers);
	free(handlers->items);
	free(handlers->directory);
	free_strings(handlers->problems, handlers->problem_count);
	*handlers = (struct jr_handlers){0};
}

/* A line begins with the file's name, which is the job type or that with an ending. */
static bool
is_about(const char *line, const char *job_type)
{
	static const char *const endings[] = {":", ".sql:", ".json:"};
	size_t len = strlen(job_type);

	if (strncmp(line, job_type, len) != 0)
		return false;
	for (size_t i = 0; i < JR_COUNT(endings); i++) {
		if (strncmp(line + len, endings[i], strlen(endings[i])) == 0)
			return true;
	}
	return false;
}

const char *
jr_handlers_problem_of(const struct jr_handlers *handlers, const char *job_type)
{
	for (size_t i = 0; i < handlers->problem_count; i++) {
		if (is_about(handlers->problems[i], job_type))
			return handlers->problems[i];
	}
	return NULL;
}

const struct jr_handler *
jr_handlers_find(const struct jr_handlers *handlers, const char *job_type)
{
	size_t low = 0, high = handlers->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(job_type, handlers->items[middle].job_type);

		if (order == 0)
			return &handlers->items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

bool
jr_handlers_check_file(const char *path, struct jr_err *err)
{
	return jr_perm_check_file(path, err);
}

void
jr_handlers_close_host(struct jr_host *host)
{
	static const struct jr_handler_kind *const kinds[] = {
	    &jr_handler_exec, &jr_handler_http, &jr_handler_sql, &jr_handler_builtin, &jr_handler_prune};

	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		if (kinds[i]->close != NULL)
			kinds[i]->close(host);
	}
}
