/*
 * slots_replay: see slots_replay.h.
 *
 * The server first reads the time in the zone of the definition; the second statement gets it as a point in time. What
 * must hold: if the answer to COMMIT is lost, change.h finds out whether the run was queued, since the command repeated
 * would queue another one.
 */
#include "slots_replay.h"

#include <stdlib.h>

#include "base/mem.h"
#include "change.h"
#include "print.h"
#include "sql_text.h"
#include "zone.h"

enum {
	ID,
	SLOT,
	DOCUMENT
};

int
jr_slots_replay_unknown(const char *definition, struct jr_err *err)
{
	jr_fail(err, JR_E_DATA, "there is no definition %s; 'jobrun define --list' shows them", definition);
	return (int)err->code;
}

/* The slot that is meant. Caller frees; NULL on failure. */
static char *
read_time(struct jr_db *db, const struct jr_slots_replay *replay, struct jr_err *err)
{
	const char *values[] = {replay->definition, replay->at};
	const struct jr_statement statements[] = {
	    {jr_sql_slots_replay_zone, 1, values}, {jr_sql_slots_replay_at, JR_COUNT(values), values}};
	PGresult *results[JR_COUNT(statements)] = {NULL};
	char *at = NULL;

	if (!jr_db_run(db, statements, JR_COUNT(statements), results, JR_CMD_TIMEOUT_MS, err)) {
		jr_zone_blame_time("--replay", replay->at, err);
		return NULL;
	}
	if (PQntuples(results[1]) > 0)
		at = jr_xstrdup(PQgetvalue(results[1], 0, 0));
	else
		jr_slots_replay_unknown(replay->definition, err);
	for (size_t i = 0; i < JR_COUNT(results); i++)
		PQclear(results[i]);
	return at;
}

static void
tell(const struct jr_app *app, const struct jr_slots_replay *replay, const PGresult *result)
{
	if (app->json)
		jr_print_document(PQgetvalue(result, 0, DOCUMENT));
	else if (replay->dry_run)
		printf("would queue a run of %s for %s\n", replay->definition, PQgetvalue(result, 0, SLOT));
	else
		puts(PQgetvalue(result, 0, ID));
}

/* NULL on failure. */
static PGresult *
queue(const struct jr_app *app, struct jr_db **db, const struct jr_slots_replay *replay, const char *at,
    struct jr_err *err)
{
	const char *values[] = {replay->definition, at, replay->reason, replay->dry_run ? "true" : "false"};
	const struct jr_statement statements[] = {
	    {jr_sql_slots_replay_zone, 1, values}, {jr_sql_slots_replay, JR_COUNT(values), values}};
	const struct jr_change change = {.app = app,
	    .db = db,
	    .dry_run = replay->dry_run,
	    .undone = "nothing queued",
	    .perhaps = "the run may have been queued: 'jobrun slots NAME' says"};
	PGresult *results[JR_COUNT(statements)] = {NULL};

	if (!jr_change(&change, statements, JR_COUNT(statements), results, err))
		return NULL;
	PQclear(results[0]);
	return results[1];
}

int
jr_slots_replay(const struct jr_app *app, const struct jr_slots_replay *replay, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	char *at = db == NULL ? NULL : read_time(db, replay, err);
	PGresult *result = at == NULL ? NULL : queue(app, &db, replay, at, err);
	bool ok = result != NULL;

	if (ok)
		tell(app, replay, result);
	PQclear(result);
	free(at);
	jr_db_close(db);
	return ok ? 0 : (int)err->code;
}
