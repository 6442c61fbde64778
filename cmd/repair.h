/*
 * repair: shared by retry and cancel: runs named by their ids or chosen by a filter, dry runs, and counts.
 *
 * Named runs are changed in one transaction, with an answer for each. All ids are parsed before the first statement, so
 * a wrong id changes nothing. Runs of a filter are changed in batches of 1,000, each a transaction, in order of id: the
 * runs that matched when the command began, if they still match when their batch begins. After a failure in the middle,
 * the same command again does the rest.
 */
#ifndef JR_REPAIR_H
#define JR_REPAIR_H

#include "commands.h"
#include "filter.h"

struct jr_repair {
	const struct jr_app *app;
	const struct jr_filter *filter;
	const char *name;      /* of the command */
	const char *usual;     /* an array literal: the statuses to use when the filter names none */
	const char *possible;  /* an array literal: the statuses in which a named run can be changed */
	const char *reason;    /* NULL: none */
	const char *extra;     /* last parameter of statements about named runs and of sql_matching; NULL: none */
	const char *payload;   /* parameter of sql_named behind extra; NULL: none */
	const char *sql_named; /* $1 ids, $2 reason, extra, payload: rows (id, answer or null, document) */
	/* $1 ids, $2 statuses, $3 pass over locked ones?, $4 reason, extra: done, asked, left alone, passed over */
	const char *sql_matching;

	/* For dry runs; $1 ids, $2 possible, extra. */
	const char *sql_kinds;  /* what would be done: rows for columns[] of repair.c */
	const char *sql_others; /* what would be refused: rows (id, answer or null, ...) */

	/* Report the named runs that were refused, from rows of sql_named or sql_others. Returns their number. */
	int (*tell_refused)(const PGresult *result);
};

struct jr_repaired {
	int64_t done, asked, left;
	int64_t passed; /* runs that were passed over, since others keep them locked */
};

/* JR_E_USAGE unless either ids or a filter was given. */
bool jr_repair_check(const struct jr_repair *repair, int id_count, struct jr_err *err) JR_MUST;

/* Change the named runs. Rows (id, answer or null, document), NULL on failure. */
PGresult *jr_repair_named(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err) JR_MUST;

/* Change the runs of the filter. *repaired has the counts, after a failure too. */
bool jr_repair_matching(const struct jr_repair *repair, struct jr_repaired *repaired, struct jr_err *err) JR_MUST;

/* Print what would be done; changes nothing. Returns the exit status. */
int jr_repair_preview(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err) JR_MUST;

/* Print on stderr how many runs were left alone. */
void jr_repair_tell_left(const struct jr_repaired *repaired);

#endif
