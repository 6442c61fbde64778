/*
 * waits: see waits.h. Where nobody watches, nothing is printed meanwhile: cron mails each line.
 */
#include "waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "print.h"

#define HINT "nothing names a database: set JOBRUN_DATABASE_URL, or give -d"

/* "for up to 9s, " */
static char *
how_long(int64_t left_ms)
{
	int64_t seconds = (left_ms + 999) / 1000;
	char *words, *text;

	if (seconds <= 0)
		return jr_xstrdup("");
	words = jr_format_duration(seconds * 1000);
	text = jr_xasprintf(" for up to %s", words);
	free(words);
	return text;
}

void
jr_waits_tell(const struct jr_app *app, const char *why, int64_t left_ms)
{
	char *rest, *line, *visible;

	if (!jr_print_is_terminal(stderr))
		return;
	rest = how_long(left_ms);
	line = jr_xasprintf(
	    "%s; retrying%s, Ctrl-C stops that%s", why, rest, jr_db_is_unnamed(app->dbname) ? "; " HINT : "");
	visible = jr_text_visible(line, false);
	jr_print_now("jobrun: %s\n", visible);
	free(visible);
	free(line);
	free(rest);
}

static void
tell(const void *ctx, const char *why, int64_t left_ms)
{
	jr_waits_tell(ctx, why, left_ms);
}

struct jr_db_waits
jr_waits_of(const struct jr_app *app)
{
	return (struct jr_db_waits){.tell = tell, .ctx = app};
}

void
jr_waits_advise(const struct jr_app *app, struct jr_err *err)
{
	struct jr_err why = *err;

	if (err->msg[0] == '\0' || !jr_db_is_unnamed(app->dbname))
		return;
	jr_fail(err, why.code, "%.700s; " HINT, why.msg);
	memcpy(err->sqlstate, why.sqlstate, sizeof(err->sqlstate));
}
