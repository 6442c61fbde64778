/* list_waiting: see list_waiting.h. */
#include "list_waiting.h"

#include "here.h"
#include "pager.h"
#include "print.h"
#include "sql_text.h"

/* clang-format off */
static const struct jr_column columns[] = {
	{ "ID", JR_CELL_NUMBER },
	{ "TYPE", JR_CELL_TEXT },
	{ "QUEUE", JR_CELL_TEXT },
	{ "PRIORITY", JR_CELL_NUMBER },
	{ "TRY", JR_CELL_TEXT },
	{ "DUE", JR_CELL_AGE },
	{ "WHY", JR_CELL_WRAP },
};
/* clang-format on */

int
jr_list_waiting(const struct jr_app *app, const struct jr_filter *filter, struct jr_err *err)
{
	struct jr_db *db = jr_cmd_connect(app, err);
	struct jr_filter_params params;
	struct jr_here here;
	PGresult *result;

	if (db == NULL)
		return (int)err->code;
	jr_filter_bind(filter, NULL, &params);
	jr_here_read(&here);
	result = jr_db_query(db, jr_sql_list_waiting, 5,
	    (const char *[]){params.values[JR_FILTER_LIMIT], params.values[JR_FILTER_TYPES],
		params.values[JR_FILTER_QUEUES], here.host, here.types},
	    JR_CMD_TIMEOUT_MS, err);
	jr_here_release(&here);
	jr_filter_unbind(&params);
	jr_db_close(db);
	if (result == NULL)
		return (int)err->code;
	jr_pager_open(!app->no_pager);
	if (app->json)
		jr_print_list("runs", result, JR_COUNT(columns));
	else if (PQntuples(result) > 0 || jr_print_is_terminal(stdout))
		jr_print_table(result, columns, JR_COUNT(columns));
	PQclear(result);
	return 0;
}
