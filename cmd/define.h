/*
 * define: what the parts of `jobrun define` share: its options, and the ways it can go.
 */
#ifndef JR_DEFINE_H
#define JR_DEFINE_H

#include "commands.h"

/* Texts: checked, and turned into JSON when all of them are there; "none" is the column's default. NULL: not given. */
struct jr_define_opts {
	const char *type, *schedule, *time_zone, *queue, *priority, *max_attempts, *timeout, *backoff;
	const char *lock, *on_dead, *catch_up, *catch_up_grace, *overlap, *description;
	const char *reason, *file;
	bool enable, disable, restart, list, remove, exact, dry_run;
};

/* Checks of the table of options: what they say, or "none". */
bool jr_define_check_name(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_queue(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_priority(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_attempts(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_duration(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_backoff(const char *what, const char *text, struct jr_err *err);

/*
 * What was given, as a JSON object with members named like the columns; the payload is not in it. "{}" when there is
 * nothing. Caller frees. NULL, JR_E_DATA: one is not UTF-8.
 */
char *jr_define_changes(const struct jr_define_opts *opts, struct jr_err *err) JR_MUST;

/* Each does the whole of it and gives the exit status. */
int jr_define_list(const struct jr_app *app, struct jr_err *err);
int jr_define_show(const struct jr_app *app, const char *name, struct jr_err *err);
int jr_define_file(const struct jr_app *app, const struct jr_define_opts *opts, struct jr_err *err);

/* Print the lines (columns 2 of define.sql and define_file.sql) behind two blanks each. */
void jr_define_print_lines(const char *lines);

#endif
