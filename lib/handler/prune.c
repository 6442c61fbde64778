/*
 * prune: see prune.h.
 *
 * Without pauses a pruner uses a CPU and the disk alone, and claims become slow. A pause depends on the step before it,
 * so a slow server gets longer pauses.
 */
#include "handler/prune.h"

#include <stdlib.h>

#include "base/mem.h"
#include "pg/pg_error.h"
#include "pg/pg_form.h"

#define PAUSE_MAX_MS 1000

/* The columns of prune.sql. */
enum prune_column {
	P_STATE,
	P_DONE,
	P_GONE,
	P_KIND,
	P_LINE,
	P_HOURS
};
static const struct jr_form_column columns[] = {
    [P_STATE] = {"state", JR_COLUMN_TEXT, true, NULL},
    [P_DONE] = {"done", JR_COLUMN_BOOL, true, NULL},
    [P_GONE] = {"gone", JR_COLUMN_INT, true, NULL},
    [P_KIND] = {"kind", JR_COLUMN_TEXT, false, NULL},
    [P_LINE] = {"line", JR_COLUMN_TEXT, true, NULL},
    [P_HOURS] = {"hours", JR_COLUMN_INT, true, NULL},
};
static const struct jr_form form = JR_FORM("prune", columns);

void
jr_prune_init(struct jr_prune *prune, const char *start)
{
	*prune = (struct jr_prune){.state = jr_xstrdup(start)};
}

void
jr_prune_release(struct jr_prune *prune)
{
	free(prune->state);
	free(prune->kind);
	free(prune->line);
	*prune = (struct jr_prune){.state = NULL};
}

bool
jr_prune_take(struct jr_prune *prune, const PGresult *result, struct jr_err *err)
{
	if (!jr_form_check(&form, result, 1, 1, err))
		return false;
	jr_prune_release(prune);
	prune->state = jr_xstrdup(PQgetvalue(result, 0, P_STATE));
	prune->done = jr_pg_bool(result, 0, P_DONE);
	prune->gone = jr_pg_int(result, 0, P_GONE, 0);
	prune->kind = jr_xstrdup_or_null(jr_pg_text(result, 0, P_KIND));
	prune->line = jr_xstrdup(PQgetvalue(result, 0, P_LINE));
	prune->hours = jr_pg_int(result, 0, P_HOURS, 0);
	return true;
}

int64_t
jr_prune_pause_ms(int64_t took_ms, bool behind)
{
	int64_t times = behind ? 1 : 3;

	return took_ms < PAUSE_MAX_MS / times ? times * took_ms + 1 : PAUSE_MAX_MS;
}
