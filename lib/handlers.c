/*
 * handlers: the handlers directory.
 *
 * It is read once, at start: names are sorted first, so that items and problems come in the same
 * order everywhere. A file is judged in this order: is its name passed over, what is it, is it
 * meant to be a handler, may its name be a job type, may it be trusted. What must hold: items is
 * sorted for bsearch and always contains jobrun.noop.
 */
#include "handlers.h"

#include "mem.h"
#include "parse.h"
#include "perm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESERVED "jobrun."
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
	return ending != NULL &&
	       (strncmp(ending, ".dpkg-", 6) == 0 || strncmp(ending, ".rpm", 4) == 0);
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
			return jr_fail(err, JR_E_CONFIG,
			    "cannot use %s: more than %d files are in it", directory,
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

/* Takes `line`. */
static void
add_problem(struct jr_handlers *handlers, char *line)
{
	handlers->problems = jr_xrealloc(
	    handlers->problems, handlers->problem_count + 1, sizeof(*handlers->problems));
	handlers->problems[handlers->problem_count++] = line;
}

/* `path` may be NULL. */
static void
add_handler(struct jr_handlers *handlers, const char *job_type, const char *path,
    const struct jr_handler_kind *kind)
{
	handlers->items =
	    jr_xrealloc(handlers->items, handlers->count + 1, sizeof(*handlers->items));
	handlers->items[handlers->count++] = (struct jr_handler){
	    .job_type = jr_xstrdup(job_type),
	    .path = jr_xstrdup_or_null(path),
	    .directory = jr_xstrdup(handlers->directory),
	    .kind = kind,
	};
	jr_settings_init(&handlers->items[handlers->count - 1].settings);
}

/* A plain file nobody can execute: a README, or a script somebody forgot to make executable? */
static void
judge_other(struct jr_handlers *handlers, const char *name, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char begin[2] = {0};

	if (fd < 0) {
		add_problem(
		    handlers, jr_xasprintf("%s: can be neither executed nor read: %s: chmod +rx %s",
				  name, strerror(errno), path));
		return;
	}
	if (read(fd, begin, sizeof(begin)) == 2 && begin[0] == '#' && begin[1] == '!')
		add_problem(handlers,
		    jr_xasprintf("%s: a script that is not executable: chmod +x %s", name, path));
	(void)close(fd);
}

/* Why a name may not be that of a handler, NULL if it may. */
static const char *
problem_of_name(const char *name)
{
	struct jr_err err;

	if (strncmp(name, RESERVED, sizeof(RESERVED) - 1) == 0)
		return "names that begin with \"jobrun.\" are reserved";
	if (!jr_parse_job_type("", name, &err))
		return "not a job type: a to z, 0 to 9, then also _ . -, at most 63 characters";
	return NULL;
}

/* NULL unless this version does not know what the ending says. */
static const char *
problem_of_ending(const char *name)
{
	if (has_suffix(name, ".sql"))
		return "sql handlers are not known to this version";
	if (has_suffix(name, ".json"))
		return "settings of handlers are not known to this version";
	return NULL;
}

static void
judge_plain_file(struct jr_handlers *handlers, const char *name, const char *path)
{
	const char *problem = problem_of_ending(name);
	struct jr_err err;

	if (problem == NULL && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
		judge_other(handlers, name, path);
		return;
	}
	if (problem == NULL)
		problem = problem_of_name(name);
	if (problem != NULL)
		add_problem(handlers, jr_xasprintf("%s: %s", name, problem));
	else if (!jr_perm_check_file(path, &err))
		add_problem(handlers, jr_xasprintf("%s: %s", name, err.msg));
	else
		add_handler(handlers, name, path, &jr_handler_exec);
}

static void
judge(struct jr_handlers *handlers, const char *name)
{
	char *path = jr_xasprintf("%s/%s", handlers->directory, name);
	struct stat st;

	if (stat(path, &st) < 0)
		add_problem(
		    handlers, jr_xasprintf("%s: cannot use %s: %s", name, path, strerror(errno)));
	else if (S_ISREG(st.st_mode))
		judge_plain_file(handlers, name, path);
	else if (!S_ISDIR(st.st_mode))
		add_problem(handlers, jr_xasprintf("%s: not a plain file", name));
	free(path);
}

static int
compare_handlers(const void *a, const void *b)
{
	return strcmp(
	    ((const struct jr_handler *)a)->job_type, ((const struct jr_handler *)b)->job_type);
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
		    "cannot read the handlers directory %s: %s: mkdir -p %s, or "
		    "~/.config/jobrun/handlers, or name another with --handlers",
		    directory, strerror(errno), directory);
	if (dir == NULL)
		return jr_fail(err, JR_E_CONFIG, "cannot read the handlers directory %s: %s",
		    directory, strerror(errno));
	done = jr_perm_check_directory(directory, err) && read_names(directory, dir, names, err);
	(void)closedir(dir);
	return done;
}

bool
jr_handlers_load(struct jr_handlers *handlers, const char *directory, struct jr_err *err)
{
	struct names names = {0};
	bool done;

	*handlers = (struct jr_handlers){.directory = absolute(directory)};
	done = read_directory(handlers->directory, &names, err);
	for (size_t i = 0; done && i < names.count; i++)
		judge(handlers, names.items[i]);
	free_strings(names.items, names.count);
	if (done && handlers->count == 0)
		done = handlers->problem_count > 0
			   ? jr_fail(err, JR_E_CONFIG, "%s", handlers->problems[0])
			   : jr_fail(err, JR_E_CONFIG,
				 "no handler is in %s: put an executable file there, named after "
				 "its job type",
				 handlers->directory);
	if (!done) {
		jr_handlers_release(handlers);
		return false;
	}
	add_handler(handlers, NOOP, NULL, &jr_handler_builtin);
	qsort(handlers->items, handlers->count, sizeof(*handlers->items), compare_handlers);
	return true;
}

void
jr_handlers_release(struct jr_handlers *handlers)
{
	for (size_t i = 0; i < handlers->count; i++) {
		free(handlers->items[i].job_type);
		free(handlers->items[i].path);
		free(handlers->items[i].directory);
	}
	free(handlers->items);
	free(handlers->directory);
	free_strings(handlers->problems, handlers->problem_count);
	*handlers = (struct jr_handlers){0};
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
