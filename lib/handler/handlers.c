/*
 * handlers: the handlers directory.
 *
 * It is read once, at start; handlers_judge.c decides which of the files are handlers. What must hold: whatever is in
 * the directory, the list is sorted and contains the built-in handlers.
 */
#include "handler/handlers.h"

#include "base/mem.h"
#include "handler/handlers_parts.h"
#include "process/perm.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct jr_handler_kind *const kinds[] = {JR_HANDLER_KINDS(JR_HANDLER_KIND_REFERENCE)};

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
 * ~/.config/jobrun/handlers if it exists, else NULL. Its specification says to ignore a relative XDG_CONFIG_HOME.
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

static void
free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
}

/* The names that are not ignored, unsorted. The caller frees *names in any case. */
static bool
read_names(const char *directory, DIR *dir, struct names *names, struct jr_err *err)
{
	for (;;) {
		struct dirent *entry;

		errno = 0; /* only errno shows whether readdir failed or reached the end */
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (jr_handlers_is_passed_over(entry->d_name))
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
	return true;
}

/* The handlers directory as an absolute path, by which it is checked. NULL: there is none. Caller frees. */
static char *
absolute(const char *path, struct jr_err *err)
{
	char *cwd, *result;

	if (path[0] == '/')
		return jr_xstrdup(path);
	cwd = getcwd(NULL, 0);
	if (cwd == NULL) {
		jr_fail(err, JR_E_CONFIG,
		    "cannot find the handlers directory %s: the current directory is gone, or cannot be read: %s; give its whole path",
		    path, strerror(errno));
		return NULL;
	}
	result = jr_xasprintf("%s/%s", cwd, path);
	free(cwd);
	return result;
}

/* Check the directory itself (it exists, can be read and may be trusted), and read its names. */
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

	*handlers = (struct jr_handlers){.directory = absolute(directory, err)};
	done = handlers->directory != NULL && read_directory(handlers->directory, &names, err);
	if (done)
		jr_handlers_judge(handlers, names.items, names.count);
	free_names(&names);
	if (!done) {
		jr_handlers_release(handlers);
		return false;
	}
	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		if (kinds[i]->built_in != NULL)
			jr_handlers_add(handlers, kinds[i]->built_in, NULL)->kind = kinds[i];
	}
	jr_handlers_sort(handlers);
	return true;
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
jr_handlers_close_host(struct jr_host *host)
{
	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		if (kinds[i]->close != NULL)
			kinds[i]->close(host);
	}
}
