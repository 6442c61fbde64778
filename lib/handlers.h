/*
 * handlers: the handlers directory.
 *
 * A handler is a file named after its job type. What makes a file refused rather than run: it, its directory or a parent
 * is owned by neither root nor the caller (as root: not by root), or can be written by somebody else (a sticky directory
 * such as /tmp is fine as a parent); symbolic links are checked at both ends. Files whose names begin with a dot or end
 * in ~, .bak, .swp, .dpkg-* or .rpm*, and files that are not executable, are passed over.
 */
#ifndef JR_HANDLERS_H
#define JR_HANDLERS_H

#include "handler.h"

struct jr_handlers {
	struct jr_handler *items; /* sorted by job type, in the order of strcmp */
	size_t count;
	char *directory; /* absolute */
	char **
	    problems; /* a line for each file that is not used though it looks as if it should be */
	size_t problem_count;
};

/*
 * The directory to use: `option` (--handlers) if not NULL, else JOBRUN_HANDLERS, else ~/.config/jobrun/handlers
 * (XDG_CONFIG_HOME is respected) if it exists, else /etc/jobrun/handlers. Caller frees.
 */
char *jr_handlers_directory(const char *option) JR_MUST;

/*
 * Read `directory`. JR_E_CONFIG when it does not exist, cannot be read, breaks the permission rules itself (the message
 * ends with the chmod or chown to type), or when no usable handler is in it. A single bad file does not fail the whole:
 * it is left out and has a line in `problems`; if all are bad the first problem is the error.
 */
bool jr_handlers_load(
    struct jr_handlers *handlers, const char *directory, struct jr_err *err) JR_MUST;
void jr_handlers_release(struct jr_handlers *handlers);

/* The handler of a job type, NULL if this host has none. Borrowed. */
const struct jr_handler *jr_handlers_find(const struct jr_handlers *handlers, const char *job_type);

/*
 * The permission rules for one file, checked again right before each start (what was safe a minute ago may have been
 * changed since). JR_E_CONFIG with the command that mends it.
 */
bool jr_handlers_check_file(const char *path, struct jr_err *err) JR_MUST;

#endif
