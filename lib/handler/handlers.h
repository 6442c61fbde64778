/*
 * handlers: the handlers directory.
 *
 * A handler is a file named after its job type: an executable NAME, or a NAME.sql with one statement. NAME.json has
 * settings for either (settings.h), or is a handler of its own if it has "http" or "argv".
 *
 * Permission rules: a file, its directory and all parents must belong to root or to the caller (if the caller is root:
 * to root), and nobody else may be able to write to them (a sticky directory such as /tmp is fine as a parent).
 * Symbolic links are checked at both ends. The rules also hold for files below the directory that "argv" names, and for
 * the interpreters of #! lines. A file that breaks them is refused, and a job type with a refused file has no handler.
 *
 * Ignored are files whose names begin with a dot or end in ~, .bak, .swp, .dpkg-* or .rpm*, and other files that are
 * not executable.
 */
#ifndef JR_HANDLERS_H
#define JR_HANDLERS_H

#include "handler/handler.h"

struct jr_handlers {
	struct jr_handler *items; /* sorted by job type, in the order of strcmp */
	size_t count;
	char *directory; /* absolute */
	char **problems; /* "FILE: why", sorted: files that look like handlers but cannot be used */
	size_t problem_count;
};

/*
 * The directory to use: `option` (--handlers) if not NULL, else JOBRUN_HANDLERS, else ~/.config/jobrun/handlers
 * (or below XDG_CONFIG_HOME) if that exists, else /etc/jobrun/handlers. Caller frees.
 */
char *jr_handlers_directory(const char *option) JR_MUST;

/*
 * Read `directory`. JR_E_CONFIG if it does not exist, cannot be read or breaks the permission rules itself (the message
 * ends with the chmod or chown to type). A bad file is no error here: it is left out and gets a line in `problems`.
 */
bool jr_handlers_read(struct jr_handlers *handlers, const char *directory, struct jr_err *err) JR_MUST;

/* Is there a handler besides those that are built in? JR_E_CONFIG if not, with the first problem if there is one. */
bool jr_handlers_check(const struct jr_handlers *handlers, struct jr_err *err) JR_MUST;

/* Read and check, for a runner. */
bool jr_handlers_load(struct jr_handlers *handlers, const char *directory, struct jr_err *err) JR_MUST;
void jr_handlers_release(struct jr_handlers *handlers);

/*
 * Make one handler from a command line instead of a file: argv, NULL-terminated and not empty. Its first word is looked
 * up in PATH, as a shell does. If it is not found, starting it fails.
 */
void jr_handlers_of_command(struct jr_handlers *handlers, const char *job_type, char *const *argv);

/* The exit status of a shell that cannot start this command: 127 if it does not exist, else 126. */
int jr_handlers_command_status(const struct jr_handler *handler) JR_MUST;

/* The handler of a job type, NULL if this host has none. Borrowed. */
const struct jr_handler *jr_handlers_find(const struct jr_handlers *handlers, const char *job_type);

/* Why a job type has no handler here: its line of `problems`, NULL if there is none. Borrowed. */
const char *jr_handlers_problem_of(const struct jr_handlers *handlers, const char *job_type) JR_MUST;

/* Is this line of `problems` about a file that would be the handler of this job type, if case did not matter? */
bool jr_handlers_is_about(const char *problem, const char *job_type) JR_MUST;

/* After the last work: free the state of all kinds in `host`. */
void jr_handlers_close_host(struct jr_host *host);

#endif
