/*
 * calls: where a command line of a shell calls jobrun.
 *
 * A call is a word jobrun, with or without a path, then global options, then the name of a command, or --once. So a
 * directory, a user or a database that is named jobrun calls nothing. Words in quotes that hold more than one word are
 * read as command lines, too: sh -c 'jobrun run'. The arguments of a call are not; what stands behind its "--" is.
 * The shell itself is not asked: what is in a variable or a script is not seen.
 */
#ifndef JR_CALLS_H
#define JR_CALLS_H

#include "base/base.h"

struct jr_call {
	char *program;       /* the word that names jobrun */
	const char *command; /* "run" also for --once */
	char **args;         /* the words behind it up to "--" or the end of the call; NULL-terminated */
};

struct jr_calls {
	struct jr_call *items;
	size_t count;
};

/* The calls of a command line, in their order. Release *calls. */
void jr_calls_find(struct jr_calls *calls, const char *command_line);
void jr_calls_release(struct jr_calls *calls);

#endif
