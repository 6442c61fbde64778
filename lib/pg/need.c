/*
 * need: see need.h.
 */
#include "pg/need.h"

#include "base/buf.h"

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
