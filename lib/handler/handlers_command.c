/*
 * handlers_command: a command line as a handler, for jobrun exec.
 *
 * What must hold: the command is looked up as execvp does it. So an old line of a crontab starts the same program after
 * somebody has put "jobrun exec NAME --" before it.
 */
#include "handler/handlers_parts.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOT_EXECUTABLE 126
#define NOT_FOUND 127

/* 0 or an errno. */
static int
judge(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno == ENOTDIR ? ENOENT : errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return eaccess(path, X_OK) == 0 ? 0 : errno;
}

/* PATH, or the system's default if it is not set. Caller frees. */
static char *
search_path(void)
{
	const char *path = getenv("PATH");
	size_t len = path == NULL ? confstr(_CS_PATH, NULL, 0) : 0;
	char *standard;

	if (len == 0)
		return jr_xstrdup(path != NULL ? path : "/bin:/usr/bin");
	standard = jr_xmalloc(len);
	(void)confstr(_CS_PATH, standard, len);
	return standard;
}

/*
 * The first match in PATH that can be executed; else the first match that cannot, so that the error is about that file;
 * else the name itself. Caller frees.
 */
static char *
find_command(const char *name)
{
	char *path, *refused = NULL, *rest, *directory;

	if (strchr(name, '/') != NULL || name[0] == '\0')
		return jr_xstrdup(name);
	path = rest = search_path();
	while ((directory = strsep(&rest, ":")) != NULL) {
		char *file = directory[0] == '\0' ? jr_xasprintf("./%s", name) : jr_xasprintf("%s/%s", directory, name);
		int error = judge(file);

		if (error == 0) {
			free(path);
			free(refused);
			return file;
		}
		if (error == EACCES && refused == NULL)
			refused = file;
		else
			free(file);
	}
	free(path);
	return refused != NULL ? refused : jr_xstrdup(name);
}

static char **
copy_line(char *const *argv)
{
	size_t count = 0;
	char **copy;

	while (argv[count] != NULL)
		count++;
	copy = jr_xcalloc(count + 1, sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = jr_xstrdup(argv[i]);
	return copy;
}

void
jr_handlers_of_command(struct jr_handlers *handlers, const char *job_type, char *const *argv)
{
	struct jr_handler *handler;

	*handlers = (struct jr_handlers){.directory = jr_xstrdup(".")};
	handler = jr_handlers_add(handlers, job_type, NULL);
	handler->kind = &jr_handler_exec;
	handler->as_is = true;
	handler->path = find_command(argv[0]);
	handler->settings.argv = copy_line(argv);
}

int
jr_handlers_command_status(const struct jr_handler *handler)
{
	bool is_name = strchr(handler->path, '/') == NULL;

	return is_name || judge(handler->path) == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}
