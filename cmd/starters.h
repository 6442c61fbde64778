/*
 * starters: what starts runners on this host: lines of crontabs, and systemd timers.
 *
 * The crontab of the caller is asked of crontab(1), within a time limit. /etc/crontab, /etc/cron.d and the units of
 * systemd are read as files. A line, or the ExecStart= of a timer's service, counts if it calls jobrun run or
 * jobrun --once (calls.h). A script that calls jobrun is not seen.
 */
#ifndef JR_STARTERS_H
#define JR_STARTERS_H

#include "base/base.h"

struct jr_starter {
	char *where;         /* "your crontab", "/etc/cron.d/jobrun", "timer jobrun.timer of systemd", "... --user" */
	char *command;       /* what the shell gets, or the service executes */
	char *path;          /* the PATH that it gets */
	bool is_enabled;     /* a timer may not be */
	bool names_database; /* it, or the file, says which one; true also if that cannot be known */
};

struct jr_starters {
	struct jr_starter *items;
	size_t count;
	char **unread; /* what could not be read, and why; NULL-terminated, or NULL */
	size_t unread_count;
};

/* Where to look. */
struct jr_starter_places {
	const char *root; /* stands before /etc/crontab, /etc/cron.d and the directories of systemd */
	const char *home; /* of the caller's units: a directory that has systemd/user; NULL: not looked for */
	bool own_crontab;
};

void jr_starters_find(struct jr_starters *starters, const struct jr_starter_places *places);
void jr_starters_release(struct jr_starters *starters);

/*
 * Is there an executable file of that name in one of the directories of `path`? A name with a slash is looked at
 * itself.
 */
bool jr_starters_is_in_path(const char *name, const char *path) JR_MUST;

/*
 * The word of the command that names jobrun where it starts a runner: one that is a program, else the first one. Never
 * a word that may have a password in it. Caller frees.
 */
char *jr_starters_program(const char *command, const char *path) JR_MUST;

#endif
