/*
 * pg_form: see pg_form.h.
 */
#include "pg/pg_form.h"

#include <string.h>

/* OIDs in pg_type, which never change. */
#define BOOL_OID 16
#define INT8_OID 20
#define INT2_OID 21
#define INT4_OID 23

#define KEY_COLUMNS 2

static bool
fail(const struct jr_form *form, const char *column, const char *why, struct jr_err *err)
{
	return jr_fail(err, JR_E_BUG, "the answer of %s makes no sense: column %s %s: " JR_NONSENSE_HINT,
	    form->statement, column, why);
}

static bool
fail_rows(const struct jr_form *form, size_t rows, const char *limit, size_t wanted, struct jr_err *err)
{
	return jr_fail(err, JR_E_BUG, "the answer of %s makes no sense: %zu rows where %zu are %s: " JR_NONSENSE_HINT,
	    form->statement, rows, wanted, limit);
}

static bool
is_of_type(enum jr_column_type type, Oid oid)
{
	switch (type) {
	case JR_COLUMN_INT:
		return oid == INT8_OID || oid == INT4_OID || oid == INT2_OID;
	case JR_COLUMN_BOOL:
		return oid == BOOL_OID;
	case JR_COLUMN_TEXT:
		break;
	}
	return true;
}

/* Is it one of "|one|or|the|other|"? */
static bool
is_word(const char *text, const char *words)
{
	size_t len = strlen(text);

	if (len == 0 || strchr(text, '|') != NULL)
		return false;
	for (const char *p = strstr(words, text); p != NULL; p = strstr(p + 1, text)) {
		if (p > words && p[-1] == '|' && p[len] == '|')
			return true;
	}
	return false;
}

/* Check the names and types of the columns. */
static bool
check_head(const struct jr_form *form, const PGresult *result, struct jr_err *err)
{
	for (size_t i = 0; i < form->count; i++) {
		const struct jr_form_column *column = &form->columns[i];
		const char *name = PQfname(result, (int)i);

		if (name == NULL || strcmp(name, column->name) != 0)
			return fail(form, column->name, "is missing", err);
		if (!is_of_type(column->type, PQftype(result, (int)i)))
			return fail(form, column->name, "has another type", err);
	}
	return true;
}

static bool
check_row(const struct jr_form *form, const PGresult *result, int row, struct jr_err *err)
{
	for (size_t i = 0; i < form->count; i++) {
		const struct jr_form_column *column = &form->columns[i];

		if (PQgetisnull(result, row, (int)i)) {
			if (column->required)
				return fail(form, column->name, "is null", err);
		} else if (column->words != NULL && !is_word(PQgetvalue(result, row, (int)i), column->words))
			return fail(form, column->name, "has an unknown value", err);
	}
	return true;
}

static bool
is_note(const struct jr_form *form, const PGresult *result, int row)
{
	bool some = false;

	for (size_t i = 0; i < form->count; i++) {
		if (PQgetisnull(result, row, (int)i))
			continue;
		if ((form->notes & 1u << i) == 0)
			return false;
		some = true;
	}
	return some;
}

bool
jr_form_check(const struct jr_form *form, const PGresult *result, size_t least, size_t most, struct jr_err *err)
{
	size_t rows = (size_t)PQntuples(result);

	if (!check_head(form, result, err))
		return false;
	while (rows > 0 && is_note(form, result, (int)rows - 1))
		rows--;
	if (rows < least)
		return fail_rows(form, rows, "needed", least, err);
	if (rows > most)
		return fail_rows(form, rows, "the most", most, err);
	for (size_t row = 0; row < rows; row++) {
		if (!check_row(form, result, (int)row, err))
			return false;
	}
	return true;
}

#define FIRST_HASH UINT64_C(0xcbf29ce484222325)

static uint64_t
mix(uint64_t hash, const char *bytes, size_t len) /* FNV-1a */
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t
jr_form_mix(uint64_t hash, const char *text)
{
	return mix(hash == 0 ? FIRST_HASH : hash, text, strlen(text) + 1);
}

uint64_t
jr_form_hash(const PGresult *result)
{
	uint64_t hash = FIRST_HASH;

	for (int row = 0; row < PQntuples(result); row++) {
		for (int i = 0; i < KEY_COLUMNS && i < PQnfields(result); i++)
			hash = mix(hash, PQgetvalue(result, row, i), (size_t)PQgetlength(result, row, i) + 1);
	}
	return hash;
}
