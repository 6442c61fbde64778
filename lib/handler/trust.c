/*
 * trust: the files that a handler runs: its program, scripts that its arguments name, and the interpreters of #! lines.
 * Whoever can change one of these files decides what runs, so the same permission rules hold for them.
 *
 * An argument is checked if it names a plain file below the handlers directory: either its path goes through that
 * directory, however the path is spelled, or its symbolic links lead there. A #! line is read as the kernel reads it.
 * The file that it names is checked, and then the #! line of that file. "#!/usr/bin/env python3" names env. The python3
 * that env finds is not checked, since whoever starts jobrun chooses PATH.
 *
 * What must hold: a judgement remembers how each file looked before it was judged. So a change meanwhile shows, too.
 */
#include "handler/trust.h"

#include "base/clock.h"
#include "base/mem.h"
#include "process/perm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_READ 256      /* the kernel reads this much: BINPRM_BUF_SIZE; before 5.1 half of it */
#define INTERPRETERS_MAX 5 /* scripts as interpreters of scripts; with more, execve fails with ELOOP */

/* A file that was judged, and how it looked before. */
struct file {
	char *path;
	bool is_there;
	struct stat st;
};

struct jr_trust {
	int64_t until_ms; /* the judgement is used again before this time; 0: there is none */
	struct file *files;
	size_t count;
};

struct jr_trust *
jr_trust_new(void)
{
	return jr_xcalloc(1, sizeof(struct jr_trust));
}

static void
forget(struct jr_trust *trust)
{
	for (size_t i = 0; i < trust->count; i++)
		free(trust->files[i].path);
	free(trust->files);
	trust->files = NULL;
	trust->count = 0;
	trust->until_ms = 0;
}

void
jr_trust_free(struct jr_trust *trust)
{
	if (trust == NULL)
		return;
	forget(trust);
	free(trust);
}

static void
remember(struct jr_trust *trust, const char *path)
{
	struct file *file;

	trust->files = jr_xrealloc(trust->files, trust->count + 1, sizeof(*trust->files));
	file = &trust->files[trust->count++];
	*file = (struct file){.path = jr_xstrdup(path)};
	file->is_there = stat(path, &file->st) == 0;
}

static bool
is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool
is_unchanged(const struct file *file)
{
	const struct stat *old = &file->st;
	struct stat now;

	return file->is_there && stat(file->path, &now) == 0 && now.st_dev == old->st_dev &&
	       now.st_ino == old->st_ino && now.st_uid == old->st_uid && now.st_gid == old->st_gid &&
	       now.st_mode == old->st_mode && now.st_size == old->st_size &&
	       is_same_time(&now.st_mtim, &old->st_mtim) && is_same_time(&now.st_ctim, &old->st_ctim);
}

static bool
still_holds(const struct jr_trust *trust, int64_t now_ms)
{
	bool holds = now_ms < trust->until_ms;

	for (size_t i = 0; holds && i < trust->count; i++)
		holds = is_unchanged(&trust->files[i]);
	return holds;
}

/* The first bytes of a file, terminated, and their number. "" and -1 if we may not read it, though the kernel could. */
static ssize_t
read_beginning(const char *path, char bytes[LINE_READ + 1])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd >= 0 ? read(fd, bytes, LINE_READ) : -1;

	bytes[len > 0 ? len : 0] = '\0';
	if (fd >= 0)
		(void)close(fd);
	return len;
}

static bool
is_text(const char *bytes, ssize_t len)
{
	for (ssize_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if (c == '\0' || c == 0x7f || (c < ' ' && strchr("\t\n\v\f\r", c) == NULL))
			return false;
	}
	return true;
}

/* Is the first line "#!" with something behind it? */
static bool
names_interpreter(const char *bytes)
{
	const char *name = bytes + 2;

	if (strncmp(bytes, "#!", 2) != 0)
		return false;
	name += strspn(name, " \t");
	return *name != '\0' && *name != '\n';
}

/*
 * Shells run a text without a #! line, so it works when typed and from a crontab line. The kernel refuses it, and each
 * run of it would be charged its attempts.
 */
static bool
check_format(const char *path, struct jr_err *err)
{
	char bytes[LINE_READ + 1];
	ssize_t len = read_beginning(path, bytes);

	if (len == 0)
		return jr_fail(err, JR_E_CONFIG, "cannot execute %s: it is empty", path);
	if (len <= 0 || names_interpreter(bytes) || !is_text(bytes, len))
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "cannot execute %s: a script must begin with a line such as #!/bin/sh, and this one does not", path);
}

/* The path of `name` for a process in `cwd`. Caller frees. */
static char *
path_of(const char *cwd, const char *name)
{
	return name[0] == '/' ? jr_xstrdup(name) : jr_xasprintf("%s/%s", cwd, name);
}

/* The path after "#!", NULL if there is none. Caller frees. */
static char *
interpreter_of(const char *path, const char *cwd)
{
	char line[LINE_READ + 1], *name;

	(void)read_beginning(path, line);
	if (strncmp(line, "#!", 2) != 0)
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	name = line + 2 + strspn(line + 2, " \t");
	name[strcspn(name, " \t")] = '\0';
	if (name[0] == '\0')
		return NULL; /* the kernel refuses it too */
	return path_of(cwd, name);
}

static bool
check_interpreter(struct jr_trust *trust, const char *path, struct jr_err *err)
{
	remember(trust, path);
	if (path[strlen(path) - 1] == '\r')
		return jr_fail(err, JR_E_CONFIG, "it ends with a carriage return: save the file with Unix line ends");
	return jr_perm_check_file(path, err);
}

/* Check the interpreter of the program at `path`, then the interpreter of that one, and so on. */
static bool
check_interpreters(struct jr_trust *trust, const char *path, const char *cwd, struct jr_err *err)
{
	char *of = jr_xstrdup(path), *interpreter;
	bool ok = true;

	for (int i = 0; ok && i < INTERPRETERS_MAX && (interpreter = interpreter_of(of, cwd)) != NULL; i++) {
		ok = check_interpreter(trust, interpreter, err) || jr_fail_in(err, "its #! line");
		free(of);
		of = interpreter;
	}
	free(of);
	return ok;
}

static bool
is_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strncmp(path, directory, len) == 0 && path[len] == '/';
}

/* Is it the directory, or below it? Both paths are without symbolic links. */
static bool
is_within(const char *path, const char *directory)
{
	return strcmp(path, directory) == 0 || is_below(path, directory);
}

/* Does the path go through the directory, however that is spelled, without leaving it by ".."? */
static bool
leads_through(const char *path, const char *real_directory)
{
	char *way = jr_xstrdup(path);
	bool inside = false;

	for (char *slash = strchr(way + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		char *real;

		*slash = '\0';
		real = realpath(way, NULL);
		if (real != NULL && is_within(real, real_directory))
			inside = true;
		else if (slash - way >= 3 && strcmp(slash - 3, "/..") == 0)
			inside = false;
		free(real);
		*slash = '/';
	}
	free(way);
	return inside;
}

/* Does it name a plain file below the directory? If we cannot reach the file, a handler cannot either. */
static bool
names_script(const char *path, const char *directory)
{
	char *real = realpath(path, NULL), *real_directory = realpath(directory, NULL);
	struct stat st;
	bool below = real != NULL && real_directory != NULL && stat(real, &st) == 0 && S_ISREG(st.st_mode) &&
		     (is_below(real, real_directory) || leads_through(path, real_directory));

	free(real);
	free(real_directory);
	return below;
}

/* The program may execute a script that is executable, so the script's own #! line is checked too. */
static bool
check_script(struct jr_trust *trust, const char *path, const char *cwd, struct jr_err *err)
{
	remember(trust, path);
	if (!jr_perm_check_data(path, err))
		return false;
	return access(path, X_OK) != 0 || check_interpreters(trust, path, cwd, err);
}

static bool
judge(struct jr_trust *trust, const struct jr_handler *handler, struct jr_err *err)
{
	const struct jr_settings *settings = &handler->settings;
	const char *program = settings->argv != NULL ? settings->argv[0] : handler->path;
	const char *cwd = settings->cwd != NULL ? settings->cwd : handler->directory;
	bool ok;

	remember(trust, program);
	ok = jr_perm_check_file(program, err) && check_format(program, err) &&
	     check_interpreters(trust, program, cwd, err);
	for (size_t i = 1; ok && settings->argv != NULL && settings->argv[i] != NULL; i++) {
		char *path = path_of(cwd, settings->argv[i]);

		if (names_script(path, handler->directory))
			ok = check_script(trust, path, cwd, err);
		free(path);
	}
	return ok;
}

bool
jr_trust_check(const struct jr_handler *handler, struct jr_err *err)
{
	struct jr_trust *trust = handler->trust;
	int64_t now_ms = jr_clock_now_ms();

	if (handler->as_is || still_holds(trust, now_ms))
		return true;
	forget(trust);
	if (judge(trust, handler, err)) {
		trust->until_ms = jr_clock_after(now_ms, JR_TRUST_MS);
		return true;
	}
	forget(trust);
	return false;
}

static bool
is_env(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && strcmp(slash, "/env") == 0;
}

/* Is it what env looks up, and no option or variable of its own? */
static bool
is_sought(const char *word)
{
	return word[0] != '\0' && word[0] != '-' && strchr(word, '=') == NULL;
}

/* The same as of a command, but in one line. */
static char *
sought_by_line(const char *path)
{
	char line[LINE_READ + 1], *rest = line + 2, *word, *found = NULL;

	(void)read_beginning(path, line);
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "#!", 2) != 0)
		return NULL;
	rest += strspn(rest, " \t");
	word = strsep(&rest, " \t");
	if (!is_env(word))
		return NULL;
	while (found == NULL && (word = strsep(&rest, " \t")) != NULL) {
		if (is_sought(word))
			found = word;
	}
	return found != NULL && strchr(found, '/') == NULL ? jr_xstrdup(found) : NULL;
}

char *
jr_trust_sought(const struct jr_handler *handler)
{
	char *const *argv = handler->settings.argv;

	if (argv == NULL || !is_env(argv[0]))
		return sought_by_line(argv == NULL ? handler->path : argv[0]);
	for (size_t i = 1; argv[i] != NULL; i++) {
		if (is_sought(argv[i]))
			return strchr(argv[i], '/') == NULL ? jr_xstrdup(argv[i]) : NULL;
	}
	return NULL;
}
