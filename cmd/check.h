/*
 * check: what `jobrun check` says by its usual ranges, for others who show it.
 */
#ifndef JR_CHECK_H
#define JR_CHECK_H

#include <libpq-fe.h>

#include "base/err.h"

#define JR_CHECK_LINES 6

struct jr_check_line {
	int state;  /* as the exit status of check: 0 to 2 */
	char *text; /* "oldest due run waits for 14m (mail)"; the caller's */
};

/* Judge the result of check.sql. The exit status that check would have is that of the worst line. */
bool jr_check_lines(const PGresult *measures, struct jr_check_line lines[JR_CHECK_LINES], struct jr_err *err) JR_MUST;

#endif
