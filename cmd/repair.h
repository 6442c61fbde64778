/*
 * repair: what retry and cancel share: runs named by their ids or chosen by a filter, dry runs, and the counts.
 *
 * Named runs are one transaction with an answer for each; all ids are parsed before the database is asked, so a wrong
 * one changes nothing. Runs of a filter are done in transactions of 1,000 in order of id: those that matched when it
 * began, if they still do when their turn comes. What a failure in the middle leaves, the same command again does.
 */
#ifndef JR_REPAIR_H
#define JR_REPAIR_H

#include "commands.h"
#include "filter.h"

struct jr_repair {
	const struct jr_app *app;
	const struct jr_filter *filter;
	const char *name;     /* of the command */
	const char *usual;    /* statuses that a filter means which names none; an array literal, as the next */
	const char *possible; /* statuses in which something can be done about a named run */
	const char *reason;   /* NULL: none */
	const char *extra;    /* a last parameter of all statements about named runs, and of sql_matching; NULL: none */
	const char *sql_named;    /* $1 ids, $2 reason, extra: rows (id, answer or null, document) */
	const char *sql_matching; /* $1 ids, $2 reason, extra, statuses: a row (done, asked, left alone) */
	const char
	    *sql_kinds; /* dry run; $1 ids, $2 possible, extra: what would be done, rows for columns[] of repair.c */
	const char
	    *sql_others; /* dry run; the same parameters: what would be refused, rows (id, answer or null, ...) */

	/* Say of named runs what could not be done, from rows of sql_named or sql_others; gives how many those are. */
	int (*tell_refused)(const PGresult *result);
};

struct jr_repaired {
	int64_t done, asked, left;
};

/* JR_E_USAGE unless there are either ids or a filter. */
bool jr_repair_check(const struct jr_repair *repair, int id_count, struct jr_err *err) JR_MUST;

/* Do it to the runs named. Rows (id, answer or null, document), NULL on failure. */
PGresult *jr_repair_named(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err) JR_MUST;

/* How many rows have this answer. */
int jr_repair_count(const PGresult *result, const char *answer);

/* Do it to the runs of the filter. Also on failure *repaired says how many are done. */
bool jr_repair_matching(const struct jr_repair *repair, struct jr_repaired *repaired, struct jr_err *err) JR_MUST;

/* Print what would be done; changes nothing. Gives the exit status. */
int jr_repair_preview(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err) JR_MUST;

/* Say on stderr what was left alone. */
void jr_repair_tell_left(const struct jr_repaired *repaired);

#endif
