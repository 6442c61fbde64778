/*
 * repair: see repair.h. This file has named runs and dry runs; bulk.c has the runs of a filter.
 */
#include "repair.h"

#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "print.h"
#include "sql_text.h"

/* clang-format off */
static const struct jr_column columns[] = {
	{ "TYPE", JR_CELL_TEXT },
	{ "STATUS", JR_CELL_STATE },
	{ "RUNS", JR_CELL_NUMBER },
};
/* clang-format on */

bool
jr_repair_check(const struct jr_repair *repair, int id_count, struct jr_err *err)
{
	bool given = jr_filter_is_given(repair->filter);

	if (id_count > 0 && (given || repair->filter->limit > 0))
		return jr_fail(err, JR_E_USAGE, "IDs do not go with --%s: name the runs, or choose them",
		    given ? "status, --type, --since and the like" : "limit");
	if (id_count == 0 && !given)
		return jr_fail(err, JR_E_USAGE,
		    "which runs? jobrun %s ID..., or choose them by --status, --type, --since and the like, with -n to look first",
		    repair->name);
	return jr_filter_check(repair->filter, err);
}

/* The caller releases `ids`, after a failure too. */
static bool
parse_ids(struct jr_pg_array *ids, int argc, char **argv, struct jr_err *err)
{
	int64_t id;

	jr_pg_array_init(ids);
	for (int i = 0; i < argc; i++) {
		if (!jr_parse_int("ID", argv[i], 1, INT64_MAX, &id, err))
			return false;
		jr_pg_array_add_int(ids, id);
	}
	return true;
}

PGresult *
jr_repair_named(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err)
{
	struct jr_pg_array ids;
	struct jr_db *db = NULL;
	PGresult *result = NULL;

	if (parse_ids(&ids, argc, argv, err))
		db = jr_cmd_connect(repair->app, err);
	if (db != NULL) {
		const char *values[] = {jr_pg_array_end(&ids), repair->reason, repair->extra, repair->payload};

		result =
		    jr_db_query(db, repair->sql_named, repair->extra == NULL ? 2 : 4, values, JR_CMD_TIMEOUT_MS, err);
	}
	jr_db_close(db);
	jr_pg_array_release(&ids);
	return result;
}

static void
print_kinds(const struct jr_app *app, const PGresult *kinds)
{
	if (app->json)
		jr_print_list("kinds", kinds, JR_COUNT(columns));
	else if (PQntuples(kinds) > 0 || jr_print_is_terminal(stdout))
		jr_print_table(kinds, columns, JR_COUNT(columns));
	fflush(stdout);
}

static int
preview_named(const struct jr_repair *repair, struct jr_db *db, const char *ids, struct jr_err *err)
{
	const char *values[] = {ids, repair->possible, repair->extra};
	int count = repair->extra == NULL ? 2 : 3;
	const struct jr_statement statements[] = {
	    {repair->sql_kinds, count, values}, {repair->sql_others, count, values}};
	PGresult *parts[JR_COUNT(statements)] = {NULL};
	int refused;

	if (!jr_db_run(db, statements, JR_COUNT(statements), parts, JR_CMD_TIMEOUT_MS, err))
		return (int)err->code;
	print_kinds(repair->app, parts[0]);
	refused = repair->tell_refused(parts[1]);
	PQclear(parts[0]);
	PQclear(parts[1]);
	return refused == 0 ? 0 : JR_E_NEWS;
}

/* The statement of the command itself, for no run, comes first: it refuses whom the command would refuse. */
static int
preview_matching(const struct jr_repair *repair, struct jr_db *db, struct jr_err *err)
{
	const char *none[] = {"{}", "{}", "f", repair->reason, repair->extra}, *values[JR_FILTER_COUNT + 1];
	const struct jr_statement statements[] = {{repair->sql_matching, repair->extra == NULL ? 4 : 5, none},
	    {jr_sql_matching_kinds, JR_COUNT(values), values}};
	PGresult *parts[JR_COUNT(statements)] = {NULL};
	struct jr_filter_params params;
	bool ok;

	jr_filter_bind(repair->filter, repair->usual, &params);
	memcpy(values, params.values, sizeof(params.values));
	values[JR_FILTER_COUNT] = "t";
	ok = jr_db_run(db, statements, JR_COUNT(statements), parts, JR_CMD_TIMEOUT_MS, err);
	jr_filter_unbind(&params);
	if (!ok)
		return (int)err->code;
	print_kinds(repair->app, parts[1]);
	if (PQntuples(parts[1]) == 0)
		jr_filter_warn_unknown(repair->filter, db);
	PQclear(parts[0]);
	PQclear(parts[1]);
	return 0;
}

int
jr_repair_preview(const struct jr_repair *repair, int argc, char **argv, struct jr_err *err)
{
	struct jr_pg_array ids;
	struct jr_db *db = NULL;
	int status = 0;

	if (parse_ids(&ids, argc, argv, err))
		db = jr_cmd_connect(repair->app, err);
	if (db == NULL)
		status = (int)err->code;
	else if (argc > 0)
		status = preview_named(repair, db, jr_pg_array_end(&ids), err);
	else
		status = preview_matching(repair, db, err);
	jr_db_close(db);
	jr_pg_array_release(&ids);
	return status;
}

void
jr_repair_tell_left(const struct jr_repaired *repaired)
{
	if (repaired->left > 0)
		fprintf(stderr,
		    "jobrun: %" PRId64
		    " %s left alone: changed meanwhile, superseded by a newer one, or not for this role to change\n",
		    repaired->left, repaired->left == 1 ? "run was" : "runs were");
}
