/*
 * explanation: the rows of explain.sql and explain_definition.sql in words, for all commands that say why a run does
 * not start. The server decides; see jobrun.explain() in migrations/functions/explain.sql.
 */
#ifndef JR_EXPLANATION_H
#define JR_EXPLANATION_H

#include "commands.h"
#include "handler/handlers.h"

/* Columns of explain.sql and explain_definition.sql. */
enum jr_explain_column {
	JR_EXPLAIN_CONDITION,
	JR_EXPLAIN_STATE,
	JR_EXPLAIN_WORDS,
	JR_EXPLAIN_AT,
	JR_EXPLAIN_AGE,
	JR_EXPLAIN_REST,
	JR_EXPLAIN_COMMAND,
	JR_EXPLAIN_REASON,
	JR_EXPLAIN_DOC
};

/* "queue mail is full, 5 of 5 run (11, 12)", with a point in time in the zone of the caller. Caller frees. */
char *jr_explanation_words(const PGresult *rows, int row) JR_MUST;

/* The line of a condition: state, words, and the command that changes it. */
void jr_explanation_print(const PGresult *rows, int row);

/*
 * Why was run `id`, which was to start at once on this host, not claimed? Always fails: JR_E_TEMP with the limit that
 * holds it, JR_E_NEWS with another cause, or as `otherwise` if none is found any more.
 */
void jr_explanation_fail(const struct jr_app *app, int64_t id, const struct jr_handlers *handlers,
    const struct jr_err *otherwise, struct jr_err *err);

#endif
