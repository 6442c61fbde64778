/*
 * need: see need.h.
 */
#include "pg/need.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "pg/pg_array.h"
#include "sql_text.h"

int
jr_need_newest(void)
{
	return jr_migrations[jr_migration_count - 1].version;
}

void
jr_need_init(struct jr_need *need)
{
	need->values[0] = jr_print_int(need->oldest, jr_schema_oldest);
	need->values[1] = jr_print_int(need->newest, jr_need_newest());
	need->values[2] = jr_print_int(need->oldest_functions, jr_functions_oldest);
	need->values[3] = jr_print_int(need->functions, jr_functions_number);
	need->values[4] = jr_functions_checksum;
}

/* The names that stand behind `beginning`, at the beginning of a line. */
static void
add_made(struct jr_pg_array *names, const char *sql, const char *beginning)
{
	size_t len = strlen(beginning);

	for (const char *at = strstr(sql, beginning); at != NULL; at = strstr(at, beginning)) {
		char *name = jr_xmemdup0(at + len, strcspn(at + len, "( \n"));

		if (at == sql || at[-1] == '\n')
			jr_pg_array_add(names, name);
		free(name);
		at += len;
	}
}

char *
jr_need_made(void)
{
	struct jr_pg_array names;
	char *text;

	jr_pg_array_init(&names);
	for (size_t i = 0; i < jr_function_count; i++) {
		add_made(&names, jr_functions[i].sql, "create or replace function jobrun.");
		add_made(&names, jr_functions[i].sql, "create or replace view jobrun.");
	}
	text = jr_xstrdup(jr_pg_array_end(&names));
	jr_pg_array_release(&names);
	return text;
}
