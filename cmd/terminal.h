/* terminal: how large is it, and which characters can it show? */
#ifndef JR_TERMINAL_H
#define JR_TERMINAL_H

#include <stddef.h>

#include "base/base.h"

/* COLUMNS if it is a number, else what the terminal of stdout says, else 80. */
size_t jr_terminal_columns(void);

/* How many rows it has: what the terminal of stdout says, else 24. At least 2. */
size_t jr_terminal_rows(void);

/* Set the locale of the user. Texts are UTF-8 all the same: cron sets no locale. Call it first. */
void jr_terminal_set_locale(void);

/* What stands for the rest of a text that is cut: one character, or three where the user's locale is not UTF-8. */
const char *jr_terminal_mark(void);

#endif
