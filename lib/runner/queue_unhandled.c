/*
 * queue_unhandled: runs that no host has a handler for; see queue.h.
 */
#include "runner/queue.h"
#include "sql_text.h"

enum unhandled_column {
	U_JOB_TYPE,
	U_WORDS,
	U_OTHERS
};
static const struct jr_form_column unhandled_columns[] = {
    [U_JOB_TYPE] = {"job_type", JR_COLUMN_TEXT, false, NULL},
    [U_WORDS] = {"words", JR_COLUMN_TEXT, true, NULL},
    [U_OTHERS] = {"others", JR_COLUMN_TEXT, false, NULL},
};
static const struct jr_form unhandled_form = JR_FORM("unhandled", unhandled_columns);

void
jr_queue_add_unhandled(struct jr_request *request)
{
	jr_request_add(request, jr_sql_unhandled, 0, NULL);
	jr_request_expect(request, &unhandled_form, 0, JR_ROWS_ANY);
}

size_t
jr_queue_count_unhandled(const PGresult *result)
{
	return (size_t)PQntuples(result);
}

struct jr_unhandled_row
jr_queue_read_unhandled(const PGresult *result, size_t index)
{
	int row = (int)index;

	return (struct jr_unhandled_row){.job_type = jr_pg_text(result, row, U_JOB_TYPE),
	    .words = PQgetvalue(result, row, U_WORDS),
	    .others = jr_pg_text(result, row, U_OTHERS)};
}
