/*
 * queue_fire: turn due slots of schedules into runs; see queue.h.
 */
#include "runner/queue.h"
#include "sql_text.h"

static const struct jr_form_column fire_due_columns[] = {{"due_ms", JR_COLUMN_INT, true, NULL}};
static const struct jr_form fire_due_form = JR_FORM("fire_due", fire_due_columns);

void
jr_queue_add_fire_due(struct jr_request *request)
{
	jr_request_add(request, jr_sql_fire_due, 0, NULL);
	jr_request_expect(request, &fire_due_form, 1, 1);
}

int64_t
jr_queue_read_fire_due(const PGresult *result)
{
	return jr_pg_int(result, 0, 0, 0);
}

/* fire's columns */
enum fire_column {
	F_DEFINITION,
	F_SLOT,
	F_OUTCOME,
	F_REASON,
	F_RUN_ID,
	F_SLOTS
};
static const struct jr_form_column fire_columns[] = {
    [F_DEFINITION] = {"definition", JR_COLUMN_TEXT, true, NULL},
    [F_SLOT] = {"slot", JR_COLUMN_TEXT, true, NULL},
    [F_OUTCOME] = {"outcome", JR_COLUMN_TEXT, true, "|queued|skipped|coalesced|error|"},
    [F_REASON] = {"reason", JR_COLUMN_TEXT, false, NULL},
    [F_RUN_ID] = {"run_id", JR_COLUMN_INT, false, NULL},
    [F_SLOTS] = {"slots", JR_COLUMN_INT, true, NULL},
};
static const struct jr_form fire_form = JR_FORM("fire", fire_columns);

void
jr_queue_add_fire(struct jr_request *request)
{
	jr_request_add(request, jr_sql_fire, 0, NULL);
	jr_request_expect(request, &fire_form, 0, JR_ROWS_ANY);
}

size_t
jr_queue_count_fired(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_fired_row
jr_queue_read_fired(const PGresult *result, size_t index)
{
	int row = (int)index;

	return (struct jr_fired_row){.definition = PQgetvalue(result, row, F_DEFINITION),
	    .slot = PQgetvalue(result, row, F_SLOT),
	    .outcome = PQgetvalue(result, row, F_OUTCOME),
	    .reason = jr_pg_text(result, row, F_REASON),
	    .run_id = jr_pg_int(result, row, F_RUN_ID, 0),
	    .slots = jr_pg_int(result, row, F_SLOTS, 0)};
}
