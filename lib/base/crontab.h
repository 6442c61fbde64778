/*
 * crontab: the lines of a crontab as crontab(5) reads them, and what cron would run. Pure.
 *
 * A line is nothing (blank, a comment), a variable, an entry (five fields or @word, in a system crontab the user, then
 * the command), or something else. A "-" in front of an entry, with which some crons do not log it, belongs to no
 * field. In a command the first "%" without a backslash ends what the shell gets. The rest is its standard input, with
 * a newline for each further such "%". "\%" is "%"; other backslashes stay. Quotes do not count.
 */
#ifndef JR_CRONTAB_H
#define JR_CRONTAB_H

#include "base/base.h"

enum jr_crontab_kind {
	JR_CRONTAB_NOTHING,
	JR_CRONTAB_VARIABLE,
	JR_CRONTAB_ENTRY,
	JR_CRONTAB_UNKNOWN
};

/* Everything is owned; what does not belong to the kind is NULL. */
struct jr_crontab_line {
	enum jr_crontab_kind kind;
	char *name, *value; /* VARIABLE: without quotes around them and blanks at the end */
	char *schedule;     /* ENTRY: the five fields with one space between them, or @word */
	char *user;         /* ENTRY of a system crontab */
	char *command;      /* ENTRY: as it stands in the file */
	size_t before;      /* ENTRY: bytes of the line before the command */
};

/* Read text[0..len), a line without its newline and without NUL. system: entries have a user. Release *line. */
void jr_crontab_read(struct jr_crontab_line *line, const char *text, size_t len, bool system);
void jr_crontab_release(struct jr_crontab_line *line);

/* How many bytes of a command come before the "%" that ends it. */
size_t jr_crontab_command_len(const char *command) JR_MUST;

/* What cron gives the shell, and its standard input; *input is NULL if the command has none. Caller frees both. */
void jr_crontab_translate(const char *command, char **shell_command, char **input);

/*
 * The command of an entry for which cron gives the shell this text: "%" as "\%". Caller frees. A "%" right behind a
 * backslash cannot be said in a crontab; it ends the command.
 */
char *jr_crontab_entry(const char *shell_command) JR_MUST;

/* Is it one program by its path with words that mean the same to every shell, so that no shell is needed? */
bool jr_crontab_is_plain(const char *shell_command) JR_MUST;

/*
 * The name of the program or script that it runs, as a name of a definition; "job" if there is none that can be one.
 * Variables, redirections, tests, what prepares (cd, set, sleep), what ends (exit), and programs that run others (nice,
 * sudo, sh) with their options are passed over. Code for an interpreter (perl -e CODE) has its name. Caller frees.
 */
char *jr_crontab_name(const char *shell_command) JR_MUST;

/* The text as one word of a POSIX shell, quoted only if that is needed. Caller frees. */
char *jr_crontab_word(const char *text) JR_MUST;

/* The text in single quotes. Caller frees. */
char *jr_crontab_quote(const char *text, size_t len) JR_MUST;

#endif
