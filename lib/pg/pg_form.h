/*
 * pg_form: what the answer of a statement of ours must look like. No I/O.
 *
 * An answer of another form is a mistake of ours, or somebody has changed the schema: JR_E_BUG, in words that name the
 * statement and the column. The columns of a form have these names, in this order, so that a value is read by its
 * number and nobody looks for a name in each row; columns behind them are passed over.
 */
#ifndef JR_PG_FORM_H
#define JR_PG_FORM_H

#include <libpq-fe.h>

#include "base/err.h"

#define JR_ROWS_ANY SIZE_MAX

enum jr_column_type {
	JR_COLUMN_TEXT, /* any, as text */
	JR_COLUMN_INT,  /* smallint, integer or bigint */
	JR_COLUMN_BOOL
};

struct jr_form_column {
	const char *name;
	enum jr_column_type type;
	bool required;     /* not NULL */
	const char *words; /* of a text: "|one|or|the|other|"; NULL: any */
};

struct jr_form {
	const char *statement; /* as people know it: the name of its .sql file */
	const struct jr_form_column *columns;
	size_t count;
	unsigned notes; /* behind the rows others may come that have only columns of this set (1 << number): notes */
};

/* A form of these columns, for a variable. */
#define JR_FORM(name, list)                                                                                            \
	{                                                                                                              \
		.statement = (name), .columns = (list), .count = JR_COUNT(list)                                        \
	}

/* Does it fit, and has it `least` to `most` rows (notes not counted)? */
bool jr_form_check(
    const struct jr_form *form, const PGresult *result, size_t least, size_t most, struct jr_err *err) JR_MUST;

/* What to do about nonsense, as the end of a line. */
#define JR_NONSENSE_HINT "please report this, unless somebody has changed schema jobrun by hand"

/* The same number for answers whose rows begin with the same two values: what names a row of ours. */
uint64_t jr_form_hash(const PGresult *result);

#endif
