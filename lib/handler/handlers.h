/*
 * handlers: the handlers directory.
 *
 * A handler is a file named after its job type: an executable NAME, or a NAME.sql with one statement; NAME.json has
 * settings for either (settings.h), or is a handler of its own by "http" or "argv". What makes a file refused rather
 * than run: it, its directory or a parent is owned by neither root nor the caller (as root: not by root), or can be
 * written by somebody else (a sticky directory such as /tmp is fine as a parent); symbolic links are checked at both
 * ends. The same goes for files below the directory that "argv" names, and for the interpreter of a #! line. Files
 * whose names begin with a dot or end in ~, .bak, .swp, .dpkg-* or .rpm*, and other files that are not executable, are
 * passed over. A job type one of whose files is refused has no handler.
 */
#ifndef JR_HANDLERS_H
#define JR_HANDLERS_H

#include "handler/handler.h"

struct jr_handlers {
	struct jr_handler *items; /* sorted by job type, in the order of strcmp */
	size_t count;
	char *directory; /* absolute */
	char **problems; /* "FILE: why", sorted: files not used though they look as if they should be */
	size_t problem_count;
};

/*
 * The directory to use: `option` (--handlers) if not NULL, else JOBRUN_HANDLERS, else ~/.config/jobrun/handlers
 * (XDG_CONFIG_HOME is respected) if it exists, else /etc/jobrun/handlers. Caller frees.
 */
char *jr_handlers_directory(const char *option) JR_MUST;

/*
 * Read `directory`. JR_E_CONFIG when it does not exist, cannot be read or breaks the permission rules itself (the
 * message ends with the chmod or chown to type). A bad file does not fail the whole: it is left out and has a line in
 * `problems`.
 */
bool jr_handlers_read(struct jr_handlers *handlers, const char *directory, struct jr_err *err) JR_MUST;

/* Is there anything to run here? JR_E_CONFIG if not: with the first problem if all files are bad. */
bool jr_handlers_check(const struct jr_handlers *handlers, struct jr_err *err) JR_MUST;

/* Both: what a runner needs. */
bool jr_handlers_load(struct jr_handlers *handlers, const char *directory, struct jr_err *err) JR_MUST;
void jr_handlers_release(struct jr_handlers *handlers);

/*
 * One handler that is no file of a directory: the command line argv, NULL-terminated and not empty, run as it is for
 * the job type. Its first word is looked for as a shell does it; what is not found fails when it is started.
 */
void jr_handlers_of_command(struct jr_handlers *handlers, const char *job_type, char *const *argv);

/* What a shell would exit with if this command cannot be started: 127, there is none; 126. */
int jr_handlers_command_status(const struct jr_handler *handler) JR_MUST;

/* The handler of a job type, NULL if this host has none. Borrowed. */
const struct jr_handler *jr_handlers_find(const struct jr_handlers *handlers, const char *job_type);

/* Why a job type has no handler here: its line of `problems`, NULL if there is none. Borrowed. */
const char *jr_handlers_problem_of(const struct jr_handlers *handlers, const char *job_type) JR_MUST;

/* Free what the kinds keep in `host`, after the last work. */
void jr_handlers_close_host(struct jr_host *host);

#endif
