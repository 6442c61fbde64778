/*
 * handlers_judge: which files of the directory are handlers.
 *
 * A job type may have up to three files: NAME, NAME.sql, NAME.json. So each file is first judged alone (what is it, is
 * it meant to be a handler) and recorded with its job type; then the files of each type are judged together. What must
 * hold: a type with a problem in one of its files has no handler, because it would run without a limit or an account
 * that somebody has set for it.
 */
#include "handler/handlers_parts.h"

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "handler/sql_scan.h"
#include "process/perm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESERVED "jobrun."
#define STATEMENT_MAX 1048576 /* bytes of a NAME.sql */

enum role {
	PROGRAM,
	STATEMENT,
	SETTINGS,
	ROLE_COUNT
};

static const struct jr_handler_kind *const kinds[] = {JR_HANDLER_KINDS(JR_HANDLER_KIND_REFERENCE)};

/* A file that is meant for `job_type`. */
struct entry {
	char *job_type;
	const char *name;
	enum role role;
	bool is_bad; /* its problem has been reported */
};

/* The files of one type: names, NULL where there is none. */
struct files {
	const char *job_type;
	const char *names[ROLE_COUNT];
};

static bool
has_suffix(const char *name, const char *suffix)
{
	size_t len = strlen(name);
	size_t suffix_len = strlen(suffix);

	return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

bool
jr_handlers_is_passed_over(const char *name)
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

static enum role
role_of(const char *name)
{
	if (has_suffix(name, ".sql"))
		return STATEMENT;
	return has_suffix(name, ".json") ? SETTINGS : PROGRAM;
}

/* A copy in lower case. Caller frees. */
static char *
lower(const char *text)
{
	char *copy = jr_xstrdup(text);

	for (char *at = copy; *at != '\0'; at++) {
		if (*at >= 'A' && *at <= 'Z')
			*at = (char)(*at - 'A' + 'a');
	}
	return copy;
}

/* Why a handler may not have the file name `name`; NULL if it may. Caller frees. */
static char *
problem_of_name(const char *name, const char *job_type)
{
	struct jr_err err;
	char *small, *problem;
	bool helps;

	if (strncmp(job_type, RESERVED, sizeof(RESERVED) - 1) == 0)
		return jr_xasprintf("%s: names that begin with \"jobrun.\" are reserved", name);
	if (jr_parse_job_type("", job_type, &err))
		return NULL;
	small = lower(job_type);
	helps = jr_parse_job_type("", small, &err);
	problem = jr_xasprintf("%s: not a job type: a to z, 0 to 9, then also _ . -, at most 63 characters%s%s%s", name,
	    helps ? ": rename it to " : "", helps ? small : "", helps ? name + strlen(job_type) : "");
	free(small);
	return problem;
}

/*
 * For a plain file that is not executable. NULL: it is not meant to be a handler (a README). Otherwise the problem: it
 * is a script that somebody forgot to make executable. Caller frees.
 */
static char *
problem_of_data(const char *name, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char begin[2] = {0};
	char *problem = NULL;

	if (fd < 0)
		return jr_xasprintf(
		    "%s: can be neither executed nor read: %s: chmod +rx %s", name, strerror(errno), path);
	if (read(fd, begin, sizeof(begin)) == 2 && begin[0] == '#' && begin[1] == '!')
		problem = jr_xasprintf("%s: a script that is not executable: chmod +x %s", name, path);
	(void)close(fd);
	return problem;
}

/*
 * Is the file meant to be part of a handler? If so, *problem says why it cannot be used, or is NULL. The caller frees
 * *problem.
 */
static bool
is_meant(const char *name, enum role role, const char *path, char **problem)
{
	struct stat st;

	*problem = NULL;
	if (stat(path, &st) < 0) {
		*problem = jr_xasprintf("%s: cannot use %s: %s", name, path, strerror(errno));
		return true;
	}
	if (S_ISDIR(st.st_mode))
		return false;
	if (!S_ISREG(st.st_mode)) {
		*problem = jr_xasprintf("%s: not a plain file", name);
		return true;
	}
	if (role == PROGRAM && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
		*problem = problem_of_data(name, path);
		return *problem != NULL;
	}
	return true;
}

/* Record the file in `entries` if it is meant to be part of a handler. */
static void
look_at(struct jr_handlers *handlers, const char *name, struct entry *entries, size_t *count)
{
	enum role role = role_of(name);
	size_t ending = role == STATEMENT ? strlen(".sql") : role == SETTINGS ? strlen(".json") : 0;
	char *job_type = jr_xmemdup0(name, strlen(name) - ending);
	char *path = jr_xasprintf("%s/%s", handlers->directory, name);
	char *problem;

	if (is_meant(name, role, path, &problem)) {
		if (problem == NULL)
			problem = problem_of_name(name, job_type);
		entries[(*count)++] = (struct entry){job_type, name, role, problem != NULL};
		job_type = NULL;
		if (problem != NULL)
			jr_handlers_add_problem(handlers, problem);
	}
	free(job_type);
	free(path);
}

static bool
is_utf8(const char *text)
{
	char *clean = jr_text_clean(text, strlen(text), (size_t)STATEMENT_MAX * 3);
	bool is_clean = strcmp(clean, text) == 0;

	free(clean);
	return is_clean;
}

/* text[0..len) is terminated. */
static bool
check_statement(const char *name, const char *text, size_t len, struct jr_err *err)
{
	struct jr_err why = {.code = JR_E_CONFIG};

	if (!jr_handler_sql_scan(text, len, &why))
		return jr_fail(err, JR_E_CONFIG, "%s:%s", name, why.msg);
	return is_utf8(text) || jr_fail(err, JR_E_CONFIG, "%s: it is not UTF-8", name);
}

/* The text of NAME.sql. NULL on failure; caller frees. */
static char *
read_statement(const char *name, const char *path, struct jr_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = jr_xmalloc(STATEMENT_MAX + 2);
	size_t len = 0;
	ssize_t got = -1;
	bool ok;

	while (fd >= 0 && len <= STATEMENT_MAX && (got = read(fd, text + len, STATEMENT_MAX + 1 - len)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	if (fd < 0 || got < 0)
		ok = jr_fail(err, JR_E_CONFIG, "%s: cannot read %s: %s", name, path, strerror(errno));
	else if (len > STATEMENT_MAX)
		ok = jr_fail(err, JR_E_CONFIG, "%s: it is larger than %d bytes", name, STATEMENT_MAX);
	else
		ok = check_statement(name, text, len, err);
	if (fd >= 0)
		(void)close(fd);
	if (ok)
		return text;
	free(text);
	return NULL;
}

/*
 * Check the program or the statement. On failure the message begins with the file's name. A program without settings is
 * left to the check of its kind; with settings that have a problem, that check is not reached.
 */
static bool
check_main(struct jr_handler *handler, const struct files *files, struct jr_err *err)
{
	const char *name = files->names[PROGRAM];

	if (name != NULL) {
		handler->kind = &jr_handler_exec;
		return files->names[SETTINGS] == NULL || jr_perm_check_file(handler->path, err) ||
		       jr_fail_in(err, name);
	}
	name = files->names[STATEMENT];
	handler->kind = &jr_handler_sql;
	if (!jr_perm_check_data(handler->path, err))
		return jr_fail_in(err, name);
	handler->sql = read_statement(name, handler->path, err);
	return handler->sql != NULL;
}

/* The kind of a NAME.json that is a handler of its own: the kind whose member the settings have. */
static const struct jr_handler_kind *
kind_alone(const struct jr_settings *settings)
{
	const struct jr_handler_kind *found = NULL;

	for (size_t i = 0; i < JR_COUNT(kinds) && found == NULL; i++) {
		if (kinds[i]->member != NULL && strcmp(kinds[i]->member, settings->makes) == 0)
			found = kinds[i];
	}
	assert(found != NULL);
	return found;
}

static bool
check_settings(struct jr_handler *handler, const struct files *files, struct jr_err *err)
{
	enum jr_settings_for what = files->names[PROGRAM] != NULL     ? JR_SETTINGS_EXEC
				    : files->names[STATEMENT] != NULL ? JR_SETTINGS_SQL
								      : JR_SETTINGS_ALONE;

	if (!jr_perm_check_data(handler->settings_path, err))
		return jr_fail_in(err, files->names[SETTINGS]);
	if (!jr_settings_read(&handler->settings, handler->settings_path, handler->directory, what, err))
		return false;
	if (what == JR_SETTINGS_ALONE)
		handler->kind = kind_alone(&handler->settings);
	return true;
}

/* Call the check of the kind. On failure the message begins with the name of the handler's file. */
static bool
check_kind(struct jr_handler *handler, const char *name, struct jr_err *err)
{
	return handler->kind->check == NULL || handler->kind->check(handler, err) || jr_fail_in(err, name);
}

/* Reports the problems of both files, not only of the first. */
static void
judge_type(struct jr_handlers *handlers, const struct files *files)
{
	const char *program = files->names[PROGRAM], *statement = files->names[STATEMENT];
	const char *settings = files->names[SETTINGS];
	const char *name = program != NULL ? program : statement != NULL ? statement : settings;
	struct jr_handler *handler;
	struct jr_err err = {.code = JR_E_CONFIG};
	bool good = true;

	if (program != NULL && statement != NULL) {
		jr_handlers_add_problem(handlers,
		    jr_xasprintf("%s: both %s and %s are here, and a job type has one handler: remove one of them",
			program, program, statement));
		return;
	}
	handler = jr_handlers_add(handlers, files->job_type, name);
	if (name != settings && !check_main(handler, files, &err)) {
		jr_handlers_add_problem(handlers, jr_xstrdup(err.msg));
		good = false;
	}
	if (settings != NULL) {
		handler->settings_path = jr_xasprintf("%s/%s", handlers->directory, settings);
		if (!check_settings(handler, files, &err)) {
			jr_handlers_add_problem(handlers, jr_xstrdup(err.msg));
			good = false;
		}
	}
	if (good && !check_kind(handler, name, &err)) {
		jr_handlers_add_problem(handlers, jr_xstrdup(err.msg));
		good = false;
	}
	if (!good)
		jr_handlers_drop(handlers);
}

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->job_type, ((const struct entry *)b)->job_type);
}

void
jr_handlers_judge(struct jr_handlers *handlers, char *const *names, size_t count)
{
	struct entry *entries = jr_xcalloc(count + 1, sizeof(*entries));
	size_t used = 0, next;

	for (size_t i = 0; i < count; i++)
		look_at(handlers, names[i], entries, &used);
	qsort(entries, used, sizeof(*entries), compare_entries);
	for (size_t i = 0; i < used; i = next) {
		struct files files = {.job_type = entries[i].job_type};
		bool is_bad = false;

		for (next = i; next < used && strcmp(entries[next].job_type, files.job_type) == 0; next++) {
			files.names[entries[next].role] = entries[next].name;
			is_bad = is_bad || entries[next].is_bad;
		}
		if (!is_bad)
			judge_type(handlers, &files);
	}
	for (size_t i = 0; i < used; i++)
		free(entries[i].job_type);
	free(entries);
}
