/*
 * starters_parts: what the files of starters share. No other file includes it.
 *
 *	starters.c         the list, and lines of crontabs
 *	starters_timers.c  timers of systemd
 */
#ifndef JR_STARTERS_PARTS_H
#define JR_STARTERS_PARTS_H

#include "starters.h"

/* Does it call jobrun run or jobrun --once? */
bool jr_starters_starts_runner(const char *command) JR_MUST;

/* Is a database named in this text, or may it be? */
bool jr_starters_names_database(const char *text) JR_MUST;

/* Takes the two texts; path is copied. */
struct jr_starter *jr_starters_add(struct jr_starters *starters, char *where, char *command, const char *path);
void jr_starters_add_unread(struct jr_starters *starters, char *line);

/*
 * The text of a file, NULL if it is not there or cannot be read; the latter is added to what could not be read. Caller
 * frees.
 */
char *jr_starters_read_file(struct jr_starters *starters, const char *path) JR_MUST;

/* The names in a directory that `wanted` accepts, sorted, NULL-terminated; NULL: none. Caller frees. */
char **jr_starters_names(struct jr_starters *starters, const char *path, bool (*wanted)(const char *name)) JR_MUST;

void jr_starters_find_timers(struct jr_starters *starters, const struct jr_starter_places *places);

#endif
