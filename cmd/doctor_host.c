/*
 * doctor_host: the checks of this host, which need no database.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crontab.h"
#include "base/mem.h"
#include "doctor.h"
#include "handler/trust.h"
#include "process/state.h"

#define CRON_PATH "/usr/bin:/bin"
#define LINE_MAX_BYTES 65536

/* --- .pgpass --- */

/* Where libpq looks. Caller frees; NULL: nowhere. */
static char *
pgpass_path(const char *conninfo)
{
	const char *variable = getenv("PGPASSFILE"), *home = getenv("HOME");
	char *path = jr_doctor_parameter(conninfo, "passfile");
	const struct passwd *account;

	if (path != NULL)
		return path;
	if (variable != NULL && variable[0] != '\0')
		return jr_xstrdup(variable);
	account = home == NULL || home[0] == '\0' ? getpwuid(geteuid()) : NULL;
	if (account != NULL)
		home = account->pw_dir;
	return home == NULL ? NULL : jr_xasprintf("%s/.pgpass", home);
}

/* Why libpq does not read the file; NULL: it does. Caller frees. */
static char *
problem_of_pgpass(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return jr_xasprintf("%s is no plain file", path);
	if ((st->st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return jr_xasprintf("%s has mode %04o, others can read it", path, st->st_mode & 07777);
	return access(path, R_OK) == 0 ? NULL : jr_xasprintf("cannot read %s: %s", path, strerror(errno));
}

static void
judge_pgpass(struct jr_doctor *doctor, const char *path)
{
	char *word = jr_crontab_word(path), *text, *command;
	struct stat st;
	bool is_there = stat(path, &st) == 0;
	char *problem = is_there ? problem_of_pgpass(path, &st) : NULL;

	if (is_there)
		text = jr_xasprintf("%s can be used", path);
	else if (errno == ENOENT)
		text = jr_xasprintf("there is no %s", path);
	else
		text = jr_xasprintf("cannot use %s: %s", path, strerror(errno));
	command = jr_xasprintf(
	    "%s %s", is_there && S_ISREG(st.st_mode) && access(path, R_OK) == 0 ? "chmod 600" : "ls -ld", word);
	if (problem != NULL)
		jr_doctor_add(
		    doctor, JR_HEALTH_WARN, problem, "libpq ignores it, and has no password from it", command);
	else
		jr_doctor_add(doctor, JR_HEALTH_OK, text, NULL, NULL);
	free(word);
	free(problem);
	free(text);
	free(command);
}

void
jr_doctor_look_pgpass(struct jr_doctor *doctor)
{
	char *path = pgpass_path(doctor->conninfo);

	if (path == NULL)
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, "this account has no home directory", NULL, NULL);
	else
		judge_pgpass(doctor, path);
	free(path);
}

/* --- handlers --- */

/* Where the part of a problem begins that says what to type: ": chmod go-w /x". NULL: there is none. */
static const char *
advice_in(const char *problem)
{
	static const char *const begins[] = {"; type: ", ": chmod ", ": chown ", ": mkdir "};
	const char *found = NULL;

	for (size_t i = 0; i < JR_COUNT(begins) && found == NULL; i++) {
		for (const char *at = problem; (at = strstr(at, begins[i])) != NULL; at++)
			found = at;
	}
	return found;
}

/* The command of such a part; of "chmod 700 /x, or ..." the first one. Caller frees. */
static char *
command_of(const char *advice)
{
	const char *begin = strncmp(advice, "; type: ", 8) == 0 ? advice + 8 : advice + 2;
	const char *more = strstr(begin, ", or ");

	return more == NULL ? jr_xstrdup(begin) : jr_xmemdup0(begin, (size_t)(more - begin));
}

static void
add_problem(struct jr_doctor *doctor, enum jr_health health, const char *problem, const char *consequence,
    const char *otherwise)
{
	const char *advice = advice_in(problem);
	char *text = advice == NULL ? jr_xstrdup(problem) : jr_xmemdup0(problem, (size_t)(advice - problem));
	char *command = advice == NULL ? jr_xstrdup_or_null(otherwise) : command_of(advice);

	jr_doctor_add(doctor, health, text, consequence, command);
	free(text);
	free(command);
}

void
jr_doctor_look_handlers(struct jr_doctor *doctor)
{
	const struct jr_handlers *handlers = &doctor->handlers;
	struct jr_err why = {.msg = ""};
	char *text;

	if (doctor->handlers_err.msg[0] != '\0') {
		add_problem(doctor,
		    doctor->needs_handlers || doctor->starters.count > 0 ? JR_HEALTH_FAIL : JR_HEALTH_WARN,
		    doctor->handlers_err.msg, "this host runs nothing", "jobrun handlers");
		return;
	}
	for (size_t i = 0; i < handlers->problem_count; i++)
		add_problem(doctor, JR_HEALTH_FAIL, handlers->problems[i], "this host does not run this job type",
		    "jobrun handlers --check");
	if (handlers->problem_count > 0)
		return;
	if (!jr_handlers_check(handlers, &why)) {
		jr_doctor_add(doctor, JR_HEALTH_WARN, why.msg, "this host runs nothing but housekeeping", NULL);
		return;
	}
	text = jr_xasprintf("%zu in %s, with what is built in", handlers->count, handlers->directory);
	jr_doctor_add(doctor, JR_HEALTH_OK, text, NULL, NULL);
	free(text);
}

/* --- the PATH of cron --- */

/* PATH in the settings of the handler, else what cron or the timer gives. */
static const char *
path_for(const struct jr_doctor *doctor, const struct jr_handler *handler)
{
	for (char *const *env = handler->settings.env; env != NULL && *env != NULL; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return doctor->starters.count > 0 ? doctor->starters.items[0].path : CRON_PATH;
}

static void
look_for(struct jr_doctor *doctor, const struct jr_handler *handler)
{
	char *name = handler->kind == &jr_handler_exec ? jr_trust_sought(handler) : NULL;
	const char *path = path_for(doctor, handler);
	char *text, *word, *command;

	if (name == NULL || jr_starters_is_in_path(name, path)) {
		free(name);
		return;
	}
	text = jr_xasprintf(
	    "%s starts %s, which is not in the PATH that it gets from cron, %s", handler->job_type, name, path);
	word = jr_crontab_word(name);
	command = jr_xasprintf("command -v %s", word);
	free(word);
	jr_doctor_add(doctor, JR_HEALTH_FAIL, text,
	    "its runs fail with 127; put the directory of this program into PATH= of the crontab", command);
	free(text);
	free(command);
	free(name);
}

void
jr_doctor_look_path(struct jr_doctor *doctor)
{
	size_t before = doctor->count;

	if (doctor->handlers_err.msg[0] != '\0') {
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, "the handlers could not be read", NULL, NULL);
		return;
	}
	for (size_t i = 0; i < doctor->handlers.count; i++)
		look_for(doctor, &doctor->handlers.items[i]);
	if (doctor->count == before)
		jr_doctor_add(doctor, JR_HEALTH_OK, "what handlers start by name is in the PATH of cron", NULL, NULL);
}

/* --- permits --- */

void
jr_doctor_look_state(struct jr_doctor *doctor)
{
	struct jr_state state;
	struct jr_err err;
	struct jr_buf text;

	if (!jr_state_look(&state, doctor->state_dir, &err)) {
		add_problem(doctor, JR_HEALTH_FAIL, err.msg, "no runner starts on this host", NULL);
		return;
	}
	jr_buf_init(&text, LINE_MAX_BYTES);
	jr_buf_adds(&text, "permits are in ");
	for (size_t i = 0; i < state.count; i++)
		jr_buf_addf(&text, "%s%s", i > 0 ? ", " : "", state.directories[i]);
	jr_doctor_add(doctor, JR_HEALTH_OK, text.data, NULL, NULL);
	jr_buf_release(&text);
	jr_state_release(&state);
}

/* --- what starts runners --- */

/* Ours as one word of a shell. Caller frees. */
static char *
own_program(void)
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[len > 0 ? len : 0] = '\0';
	return jr_crontab_word(
	    len > 0 && access(path, X_OK) == 0 ? path : "jobrun"); /* not if it was replaced meanwhile */
}

/* "JOBRUN_DATABASE_URL": the variable that names the database, and that cron would not have. NULL: none does. */
static const char *
variable_of_database(const struct jr_doctor *doctor)
{
	return doctor->conninfo == NULL || strcmp(doctor->source, "-d") == 0 ? NULL : doctor->source;
}

/* Add a line of a crontab that sets the variable to this path. cron starts in another directory than this one. */
static void
add_path_line(struct jr_buf *lines, const char *variable, const char *path)
{
	char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	char *line =
	    here == NULL ? jr_xasprintf("%s=%s", variable, path) : jr_xasprintf("%s=%s/%s", variable, here, path);
	char *word = jr_crontab_word(line);

	jr_buf_addf(lines, " %s", word);
	free(word);
	free(line);
	free(here);
}

/* Add a line of a crontab for each variable that runners need and cron does not have. */
static void
add_variable_lines(struct jr_buf *lines, const struct jr_doctor *doctor)
{
	const char *database = variable_of_database(doctor);

	if (database != NULL)
		jr_buf_addf(lines, " \"%s=$%s\"", database, database);
	if (doctor->handlers_dir != NULL)
		add_path_line(lines, "JOBRUN_HANDLERS", doctor->handlers_dir);
	if (doctor->state_dir != NULL)
		add_path_line(lines, "JOBRUN_STATE_DIR", doctor->state_dir);
}

/* The command that gives the caller's crontab the lines for this database, as words of a shell. Caller frees. */
static char *
new_crontab_lines(const struct jr_doctor *doctor)
{
	char *program = own_program(), *once = jr_doctor_jobrun(doctor, "--once");
	char *shell_command = jr_xasprintf("%s%s", program, once + strlen("jobrun"));
	char *entry = jr_crontab_entry(shell_command), *line = jr_xasprintf("* * * * * %s", entry);
	char *word = jr_crontab_quote(line, strlen(line)), *command;
	struct jr_buf lines;

	jr_buf_init(&lines, LINE_MAX_BYTES);
	add_variable_lines(&lines, doctor);
	command = jr_xasprintf("(crontab -l 2>/dev/null; printf '%%s\\n'%s %s) | crontab -", lines.data, word);
	jr_buf_release(&lines);
	free(program);
	free(once);
	free(shell_command);
	free(entry);
	free(line);
	free(word);
	return command;
}

static void
add_no_starter(struct jr_doctor *doctor)
{
	char *command;

	if (!jr_doctor_runs_jobs(doctor)) {
		jr_doctor_add(
		    doctor, JR_HEALTH_OK, "nothing starts runners here, and this host has no handlers", NULL, NULL);
	} else {
		command = new_crontab_lines(doctor);
		jr_doctor_add(doctor, JR_HEALTH_WARN,
		    "no line of a crontab and no timer of systemd that could be read starts jobrun run",
		    "unless something else does, nothing runs on this host", command);
		free(command);
	}
}

/* The line that edits it. Caller frees; NULL: there is none. */
static char *
edit(const struct jr_starter *starter)
{
	char *word, *command;

	if (starter->where[0] != '/')
		return strncmp(starter->where, "your", 4) == 0 ? jr_xstrdup("crontab -e") : NULL;
	word = jr_crontab_word(starter->where);
	command = jr_xasprintf("${EDITOR:-vi} %s", word);
	free(word);
	return command;
}

/* It starts a program that is not there. */
static void
add_lost_program(struct jr_doctor *doctor, const struct jr_starter *starter, const char *program)
{
	char *own = own_program(), *command = edit(starter);
	char *text = jr_xasprintf("%s starts %s, which is %s", starter->where, program,
	    strchr(program, '/') != NULL ? "no program here" : "not in its PATH");
	char *consequence = jr_xasprintf("nothing starts; write %s", own);

	jr_doctor_add(doctor, JR_HEALTH_FAIL, text, consequence, command);
	free(own);
	free(command);
	free(text);
	free(consequence);
}

/* "timer NAME of systemd --user" */
static void
add_disabled_timer(struct jr_doctor *doctor, const struct jr_starter *starter)
{
	const char *name = strchr(starter->where, ' ') + 1;
	char *text = jr_xasprintf("%s is not enabled", starter->where);
	char *command = jr_xasprintf("systemctl%s enable --now %.*s", strstr(name, " --user") != NULL ? " --user" : "",
	    (int)strcspn(name, " "), name);

	jr_doctor_add(doctor, JR_HEALTH_FAIL, text, "it starts nothing after the next boot", command);
	free(text);
	free(command);
}

/* The database is known here by a variable that cron does not have. */
static bool
is_unnamed(const struct jr_doctor *doctor, const struct jr_starter *starter)
{
	return !starter->names_database && strcmp(doctor->source, "-d") != 0 && !jr_db_is_unnamed(NULL);
}

static void
add_unnamed(struct jr_doctor *doctor, const struct jr_starter *starter)
{
	char *text = jr_xasprintf("%s names no database, and this shell does", starter->where);
	char *command = edit(starter);

	jr_doctor_add(doctor, JR_HEALTH_WARN, text,
	    "its runners may use another database than this one; set JOBRUN_DATABASE_URL there", command);
	free(text);
	free(command);
}

/* What is said never has the whole command: a connection string in it may have a password. */
static void
judge_starter(struct jr_doctor *doctor, const struct jr_starter *starter)
{
	char *program = jr_starters_program(starter->command, starter->path), *text;

	if (!jr_starters_is_in_path(program, starter->path))
		add_lost_program(doctor, starter, program);
	else if (!starter->is_enabled)
		add_disabled_timer(doctor, starter);
	else if (is_unnamed(doctor, starter))
		add_unnamed(doctor, starter);
	else {
		text = jr_xasprintf("%s starts %s", starter->where, program);
		jr_doctor_add(doctor, JR_HEALTH_OK, text, NULL, NULL);
		free(text);
	}
	free(program);
}

void
jr_doctor_look_cron(struct jr_doctor *doctor)
{
	const struct jr_starters *starters = &doctor->starters;

	for (size_t i = 0; i < starters->count; i++)
		judge_starter(doctor, &starters->items[i]);
	if (starters->count == 0)
		add_no_starter(doctor);
	for (size_t i = 0; i < starters->unread_count; i++)
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, starters->unread[i], NULL, NULL);
}
