/*
 * pager: show what is printed with a pager, as git does.
 *
 * The pager is JOBRUN_PAGER, else PAGER, else less, started with LESS=FRX unless LESS is set: then it ends by itself
 * when everything fits the screen. No pager is started if stdout is no terminal, if that word is empty or "cat", or on
 * a terminal without abilities. If it cannot be started, everything is printed directly. That somebody quits it early
 * is no error.
 */
#ifndef JR_PAGER_H
#define JR_PAGER_H

#include <stdio.h>

#include "base/base.h"

/*
 * If it is wanted (no --no-pager): from now on stdout goes to the pager, and so does stderr if it is a terminal. Call
 * it when the output is ready, so that Ctrl-C still ends a query, and no connection waits for the reader.
 */
void jr_pager_open(bool wanted);

/* Wait until the user has read everything; then stdout and stderr are the terminal again. */
void jr_pager_close(void);

/* Does this stream go to the pager? Then it is a terminal for whoever prints. */
bool jr_pager_has(const FILE *file);

#endif
