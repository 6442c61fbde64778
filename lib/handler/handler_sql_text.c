/*
 * handler_sql_text: see handler_sql_parts.h.
 *
 * Payloads and results are JSON text from PostgreSQL: they are copied between other text and never parsed here. What
 * must hold: every error text is clean and bounded, and the result of a group is used as a whole or not at all.
 */
#include "handler/handler_sql_parts.h"

#include "base/buf.h"
#include "base/lease.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "handler/jsonb_size.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define JSON_OID 114 /* in pg_type */
#define JSONB_OID 3802
#define CHECK_MIN_MS 1000
#define CHECK_MAX_MS 10000
#define ENTRY_MAX 4096 /* bytes of an element of a group's array, without its payload */

/* How long the server keeps the transaction of a runner that hangs or is dead. */
static void
fill_lease(struct jr_handler_sql_params *params, const struct jr_lease *lease)
{
	int64_t check_ms = lease->lease_ms / 10;

	if (check_ms < CHECK_MIN_MS)
		check_ms = CHECK_MIN_MS;
	if (check_ms > CHECK_MAX_MS)
		check_ms = CHECK_MAX_MS;
	params->values[6] = jr_print_int(params->idle, lease->lease_ms / 2);
	params->values[7] = jr_print_int(params->check, check_ms);
}

void
jr_handler_sql_params_fill(
    struct jr_handler_sql_params *params, const struct jr_run *run, int64_t timeout_ms, const struct jr_lease *lease)
{
	const char *empty = "";

	*params = (struct jr_handler_sql_params){.values = {empty, empty, empty, empty, empty, NULL, NULL, NULL}};
	if (lease != NULL)
		fill_lease(params, lease);
	if (run != NULL) {
		if (run->id > 0) { /* a rehearsal has no run id, and no claim that could be lost */
			params->values[0] = jr_print_int(params->run_id, run->id);
			params->values[1] = jr_print_int(params->claim, run->claim_seq);
		}
		params->values[2] = jr_print_int(params->attempt, run->attempts);
		params->values[3] = run->key != NULL ? run->key : empty;
		params->values[4] = run->slot != NULL ? run->slot : empty;
	}
	if (timeout_ms >= 0)
		params->values[5] = jr_print_int(params->timeout, timeout_ms < INT_MAX ? timeout_ms : INT_MAX);
}

/* Is it its own JSON string, apart from the quotes? Most keys are. */
static bool
is_plain(const char *key)
{
	size_t len = strlen(key), at = 0;

	while (at < len && key[at] >= ' ' && key[at] < '\x7f' && key[at] != '"' && key[at] != '\\')
		at++;
	return at == len && len <= JR_KEY_MAX;
}

/* The key as a JSON string. */
static void
add_key(struct jr_buf *buf, const char *key)
{
	char *clean = jr_text_clean(key, strlen(key), (size_t)JR_KEY_MAX * 4);
	json_t *string = json_string(clean);
	char *text = json_dumps(string, JSON_ENCODE_ANY);

	if (text == NULL)
		abort(); /* out of memory, as in mem.c */
	jr_buf_adds(buf, text);
	free(text);
	json_decref(string);
	free(clean);
}

static void
add_run(struct jr_buf *buf, const struct jr_run *run)
{
	const char *key = run->key != NULL ? run->key : "";

	jr_buf_adds(buf, "{\"run_id\":");
	jr_buf_addi(buf, run->id);
	jr_buf_adds(buf, ",\"key\":");
	if (is_plain(key)) {
		jr_buf_addc(buf, '"');
		jr_buf_adds(buf, key);
		jr_buf_addc(buf, '"');
	} else
		add_key(buf, key);
	jr_buf_adds(buf, ",\"attempt\":");
	jr_buf_addi(buf, run->attempts);
	jr_buf_adds(buf, ",\"payload\":");
	jr_buf_adds(buf, run->payload != NULL ? run->payload : "null");
	jr_buf_addc(buf, '}');
}

char *
jr_handler_sql_group_payload(struct jr_handler_sql_work *const *works, size_t count)
{
	struct jr_buf buf;

	jr_buf_init(&buf, JR_SQL_GROUP_BYTES + JR_PAYLOAD_MAX + (size_t)(JR_BATCH_MAX + 1) * ENTRY_MAX);
	jr_buf_addc(&buf, '[');
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			jr_buf_addc(&buf, ',');
		add_run(&buf, works[i]->run);
	}
	jr_buf_addc(&buf, ']');
	return jr_buf_detach(&buf);
}

bool
jr_handler_sql_is_control(PGresult *result)
{
	static const char tags[] = "|BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PREPARE TRANSACTION|";
	char tag[64];

	snprintf(tag, sizeof(tag), "|%s|", PQcmdStatus(result));
	return PQresultStatus(result) == PGRES_COMMAND_OK && tag[1] != '|' && strstr(tags, tag) != NULL;
}

/* json comes as the statement wrote it, jsonb as the server prints it. It is kept as jsonb. */
static bool
is_too_large(const char *text, Oid type)
{
	size_t len = strlen(text);

	return len > JR_SQL_RESULT_MAX || (type == JSON_OID && jr_jsonb_measure(text, len).printed > JR_SQL_RESULT_MAX);
}

bool
jr_handler_sql_read_result(const PGresult *result, const char **text, struct jr_handler_sql_end *end)
{
	Oid type = PQnfields(result) > 0 ? PQftype(result, 0) : 0;

	*text = NULL;
	if (PQntuples(result) == 0 || (type != JSON_OID && type != JSONB_OID))
		return true;
	*text = jr_pg_text(result, 0, 0);
	if (*text != NULL && strcmp(*text, "null") == 0)
		*text = NULL;
	if (*text == NULL || !is_too_large(*text, type))
		return true;
	*end = jr_handler_sql_end_of(
	    JR_FAIL, "result-too-large", "the result is larger than 1 MiB: everything was rolled back");
	return false;
}

struct word {
	const char *word;
	enum jr_verdict verdict;
	const char *code;
};

/* The verdicts that a group's statement may return for a run. */
static const struct word words[] = {
    {"done", JR_DONE, ""},
    {"later", JR_LATER, "sqlstate:JR075"},
    {"give_up", JR_GIVE_UP, "sqlstate:JR065"},
    {"give up", JR_GIVE_UP, "sqlstate:JR065"},
    {"fail", JR_FAIL, "sqlstate:P0001"},
};

static const struct word *
find_word(const char *text)
{
	for (size_t i = 0; text != NULL && i < JR_COUNT(words); i++) {
		if (strcasecmp(text, words[i].word) == 0)
			return &words[i];
	}
	return NULL;
}

struct jr_handler_sql_work *
jr_handler_sql_find_work(struct jr_handler_sql_work *const *works, size_t count, size_t place, int64_t id)
{
	for (size_t i = 0; i < count; i++) {
		struct jr_handler_sql_work *work = works[(place + i) % count];

		if (work->run->id == id)
			return work;
	}
	return NULL;
}

static struct jr_handler_sql_work *
find_work(struct jr_handler_sql_work *const *works, size_t count, int row, const char *id)
{
	struct jr_err ignored;
	int64_t wanted;

	if (id == NULL || !jr_parse_int("run_id", id, 0, INT64_MAX, &wanted, &ignored))
		return NULL;
	return jr_handler_sql_find_work(works, count, (size_t)row, wanted);
}

static bool
refuse_answer(struct jr_handler_sql_end *end, int row, const char *what, const char *text)
{
	char *clean = jr_text_clean(text == NULL ? "null" : text, strlen(text == NULL ? "null" : text), 64);
	char *line = jr_xasprintf(
	    "row %d of what the statement returned: %s%s (rows are run_id, verdict, error, of runs that did not succeed; verdict: later, give_up, fail or done): everything was rolled back",
	    row + 1, what, clean);

	*end = jr_handler_sql_end_of(JR_FAIL, "bad-answer", line);
	free(line);
	free(clean);
	return false;
}

static bool
read_row(const PGresult *result, int row, struct jr_handler_sql_work *const *works, size_t count,
    struct jr_handler_sql_end *end)
{
	const char *id = jr_pg_text(result, row, 0), *verdict = jr_pg_text(result, row, 1);
	const char *error = PQnfields(result) > 2 ? jr_pg_text(result, row, 2) : NULL;
	const struct word *word = find_word(verdict);
	struct jr_handler_sql_work *work = find_work(works, count, row, id);

	if (work == NULL)
		return refuse_answer(end, row, "no run of this group has the run_id ", id);
	if (word == NULL)
		return refuse_answer(end, row, "there is no verdict ", verdict);
	if (work->end.code[0] != '\0')
		return refuse_answer(end, row, "a second row for run ", id);
	if (word->verdict == JR_DONE)
		snprintf(work->end.code, sizeof(work->end.code), "done");
	else
		work->end = jr_handler_sql_end_of(
		    word->verdict, word->code, error != NULL ? error : "the statement returned this verdict");
	return true;
}

static void
release_ends(struct jr_handler_sql_work *const *works, size_t count)
{
	for (size_t i = 0; i < count; i++)
		jr_handler_sql_end_release(&works[i]->end);
}

static bool
read_rows(
    const PGresult *result, struct jr_handler_sql_work *const *works, size_t count, struct jr_handler_sql_end *end)
{
	for (int row = 0; row < PQntuples(result); row++) {
		if (PQnfields(result) < 2)
			return refuse_answer(end, row, "it has too few columns", "");
		if (!read_row(result, row, works, count, end))
			return false;
	}
	return true;
}

bool
jr_handler_sql_read_answer(
    const PGresult *result, struct jr_handler_sql_work *const *works, size_t count, struct jr_handler_sql_end *end)
{
	release_ends(works, count);
	if (!read_rows(result, works, count, end)) {
		release_ends(works, count);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (works[i]->end.verdict == JR_DONE)
			works[i]->end.code[0] = '\0';
	}
	return true;
}
