/*
 * filter: see filter.h. Status "failed" in table job_runs means that another attempt follows. People see it as
 * "retrying" and may give either word; statements get "failed".
 */
#include "filter.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "known.h"
#include "pg/pg.h"
#include "pg/pg_array.h"
#include "sql_text.h"

static const char *const statuses[] = {"queued", "retrying", "running", "succeeded", "dead", "cancelled", "failed"};

bool
jr_filter_check_status(const char *what, const char *text, struct jr_err *err)
{
	for (size_t i = 0; i < JR_COUNT(statuses); i++) {
		if (strcmp(statuses[i], text) == 0)
			return true;
	}
	jr_fail_unknown(err, "status", text, statuses, JR_COUNT(statuses),
	    "queued, retrying, running, succeeded, dead or cancelled");
	return jr_fail_in(err, what);
}

static const char *
word_of_table(const char *status)
{
	return strcmp(status, "retrying") == 0 ? "failed" : status;
}

bool
jr_filter_check_id(const char *what, const char *text, struct jr_err *err)
{
	int64_t id;

	return jr_parse_int(what, text, 1, INT64_MAX, &id, err);
}

bool
jr_filter_is_given(const struct jr_filter *filter)
{
	return filter->statuses.count > 0 || filter->types.count > 0 || filter->queues.count > 0 ||
	       filter->definitions.count > 0 || filter->hosts.count > 0 || filter->lock != NULL ||
	       filter->error != NULL || filter->parents.count > 0 || filter->creators.count > 0 ||
	       filter->since_ms >= 0 || filter->until_ms >= 0;
}

bool
jr_filter_check(const struct jr_filter *filter, struct jr_err *err)
{
	if (filter->since_ms >= 0 && filter->until_ms >= filter->since_ms)
		return jr_fail(
		    err, JR_E_USAGE, "--since and --until: no time is left between them; --since is the longer one");
	return true;
}

bool
jr_filter_has_status(const struct jr_filter *filter, const char *status)
{
	for (size_t i = 0; i < filter->statuses.count; i++) {
		if (strcmp(word_of_table(filter->statuses.items[i]), status) == 0)
			return true;
	}
	return false;
}

static char *
array_of_statuses(const struct jr_words *words)
{
	struct jr_pg_array array;
	char *text;

	if (words->count == 0)
		return NULL;
	jr_pg_array_init(&array);
	for (size_t i = 0; i < words->count; i++)
		jr_pg_array_add(&array, word_of_table(words->items[i]));
	jr_pg_array_end(&array);
	text = jr_buf_detach(&array.text);
	jr_pg_array_release(&array);
	return text;
}

static char *
array_of(const struct jr_words *words)
{
	return jr_pg_array_or_null((const char *const *)words->items, words->count);
}

void
jr_filter_bind(const struct jr_filter *filter, const char *usual, struct jr_filter_params *params)
{
	*params =
	    (struct jr_filter_params){.owned = {
					  [JR_FILTER_STATUSES] = array_of_statuses(&filter->statuses),
					  [JR_FILTER_TYPES] = array_of(&filter->types),
					  [JR_FILTER_QUEUES] = array_of(&filter->queues),
					  [JR_FILTER_DEFINITIONS] = array_of(&filter->definitions),
					  [JR_FILTER_HOSTS] = array_of(&filter->hosts),
					  [JR_FILTER_LOCKS] = jr_pg_array_or_null(&filter->lock, filter->lock != NULL),
					  [JR_FILTER_PARENTS] = array_of(&filter->parents),
					  [JR_FILTER_CREATORS] = array_of(&filter->creators),
				      }};
	for (size_t i = 0; i < JR_FILTER_COUNT; i++)
		params->values[i] = params->owned[i];
	if (params->values[JR_FILTER_STATUSES] == NULL)
		params->values[JR_FILTER_STATUSES] = usual;
	params->values[JR_FILTER_ERROR] = filter->error;
	if (filter->limit > 0)
		params->values[JR_FILTER_LIMIT] = jr_print_int(params->limit, filter->limit);
	if (filter->since_ms >= 0)
		params->values[JR_FILTER_SINCE] = jr_print_int(params->since, filter->since_ms);
	if (filter->until_ms >= 0)
		params->values[JR_FILTER_UNTIL] = jr_print_int(params->until, filter->until_ms);
}

void
jr_filter_unbind(struct jr_filter_params *params)
{
	for (size_t i = 0; i < JR_COUNT(params->owned); i++)
		free(params->owned[i]);
}

void
jr_filter_warn_unknown(const struct jr_filter *filter, struct jr_db *db)
{
	char *types = array_of(&filter->types), *queues = array_of(&filter->queues);
	char *definitions = array_of(&filter->definitions);
	const char *values[] = {types, queues, definitions};
	struct jr_err err;
	PGresult *result = NULL;

	if (types != NULL || queues != NULL || definitions != NULL)
		result = jr_db_query(db, jr_sql_known_names, JR_COUNT(values), values, JR_CMD_TIMEOUT_MS, &err);
	for (int row = 0; result != NULL && row < PQntuples(result); row++)
		jr_known_warn(PQgetvalue(result, row, 0), PQgetvalue(result, row, 1), jr_pg_text(result, row, 2));
	PQclear(result);
	free(types);
	free(queues);
	free(definitions);
}
