/*
 * define: the options of `jobrun define` and the parts that its files share.
 */
#ifndef JR_DEFINE_H
#define JR_DEFINE_H

#include "commands.h"

/* Each text is checked when it is parsed; "none" means the column's default. NULL: not given. */
struct jr_define_opts {
	const char *type, *schedule, *time_zone, *queue, *priority, *max_attempts, *timeout, *backoff;
	const char *lock, *on_dead, *catch_up, *catch_up_grace, *overlap, *description;
	const char *reason, *file;
	bool enable, disable, restart, list, remove, exact, dry_run;
};

/* The checks in the table of options. Each accepts "none". */
bool jr_define_check_name(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_queue(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_priority(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_attempts(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_duration(const char *what, const char *text, struct jr_err *err);
bool jr_define_check_backoff(const char *what, const char *text, struct jr_err *err);

/*
 * The given options as a JSON object with members named like the columns, without the payload; "{}" if none was given.
 * Caller frees. NULL with JR_E_DATA: an option is not UTF-8.
 */
char *jr_define_changes(const struct jr_define_opts *opts, struct jr_err *err) JR_MUST;

/* Each does all the work of its form of the command and returns the exit status. */
int jr_define_list(const struct jr_app *app, struct jr_err *err);
int jr_define_show(const struct jr_app *app, const char *name, struct jr_err *err);
int jr_define_file(const struct jr_app *app, const struct jr_define_opts *opts, struct jr_err *err);

/* Print the changed lines (column 2 of define.sql and define_file.sql), indented. */
void jr_define_print_lines(const char *lines);

/* Warn of each job type (rows of define_types.sql) that no host has a handler for. */
void jr_define_warn_types(const PGresult *types);

#endif
