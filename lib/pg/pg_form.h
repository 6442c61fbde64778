/*
 * pg_form: check the columns and rows of a result of one of jobrun's statements. No I/O.
 *
 * A result of another form means a bug of jobrun or a schema that somebody has changed: JR_E_BUG, with a message that
 * names the statement and the column. A result must have the columns of its form, with these names and in this order,
 * so that values can be read by column number. Further columns are ignored.
 */
#ifndef JR_PG_FORM_H
#define JR_PG_FORM_H

#include <libpq-fe.h>

#include "base/err.h"

#define JR_ROWS_ANY SIZE_MAX

enum jr_column_type {
	JR_COLUMN_TEXT, /* any type, read as text */
	JR_COLUMN_INT,  /* smallint, integer or bigint */
	JR_COLUMN_BOOL
};

struct jr_form_column {
	const char *name;
	enum jr_column_type type;
	bool required;     /* not NULL */
	const char *words; /* the values that a text may have: "|one|or|the|other|"; NULL: any */
};

struct jr_form {
	const char *statement; /* for messages: the name of its .sql file */
	const struct jr_form_column *columns;
	size_t count;
	unsigned notes; /* the columns (1 << number) of notes: rows at the end with values in these columns alone */
};

/* Initialiser of a form with the columns of the array `list`. */
#define JR_FORM(name, list)                                                                                            \
	{                                                                                                              \
		.statement = (name), .columns = (list), .count = JR_COUNT(list)                                        \
	}

/* Does the result fit the form, and has it `least` to `most` rows (notes not counted)? */
bool jr_form_check(
    const struct jr_form *form, const PGresult *result, size_t least, size_t most, struct jr_err *err) JR_MUST;

/* The end of a message about an answer that makes no sense. */
#define JR_NONSENSE_HINT "please report this, unless somebody has changed schema jobrun by hand"

/* A hash of the first two columns of all rows; these columns identify a row (id, claim_seq). */
uint64_t jr_form_hash(const PGresult *result);

/* Such a hash with one more text; 0 begins one. */
uint64_t jr_form_mix(uint64_t hash, const char *text);

#endif
