/*
 * handler_sql_end: how runs end, and the list of runs whose end is still to be reported. See handler_sql_parts.h.
 *
 * Ends are reported from a timer of the loop, because `ended` may free the work, start another one, and stop others.
 * What must hold: every error text that is reported is clean and bounded.
 */
#include "handler/handler_sql_parts.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jr_handler_sql_end
jr_handler_sql_end_of(enum jr_verdict verdict, const char *code, const char *error)
{
	struct jr_handler_sql_end end = {.verdict = verdict};

	snprintf(end.code, sizeof(end.code), "%s", code);
	end.error = jr_text_clean(error, strlen(error), JR_ERROR_MAX);
	return end;
}

struct jr_handler_sql_end
jr_handler_sql_end_of_err(const struct jr_rules *rules, const struct jr_err *err, bool sent)
{
	const char *sqlstate = err->sqlstate[0] == '\0' ? "08006" : err->sqlstate;
	char code[32];

	if (strcmp(sqlstate, "JR054") == 0) /* raised by settle_one */
		return jr_handler_sql_end_of(JR_FAIL, "result-too-large", err->msg);
	snprintf(code, sizeof(code), "sqlstate:%s", sqlstate);
	return jr_handler_sql_end_of(jr_verdict_of_sqlstate(rules, sqlstate, sent), code, err->msg);
}

struct jr_handler_sql_end
jr_handler_sql_end_copy(const struct jr_handler_sql_end *end)
{
	struct jr_handler_sql_end copy = *end;

	copy.error = jr_xstrdup_or_null(end->error);
	copy.result = jr_xstrdup_or_null(end->result);
	return copy;
}

void
jr_handler_sql_end_release(struct jr_handler_sql_end *end)
{
	free(end->error);
	free(end->result);
	*end = (struct jr_handler_sql_end){.error = NULL};
}

struct jr_work_end
jr_handler_sql_end_report(const struct jr_handler_sql_end *end)
{
	return (struct jr_work_end){.verdict = end->verdict,
	    .settled = end->settled,
	    .in_doubt = end->in_doubt,
	    .unsent = end->unsent,
	    .error_code = end->code[0] == '\0' ? NULL : end->code,
	    .error = end->error,
	    .result = end->result};
}

void
jr_handler_sql_work_end(struct jr_handler_sql_work *work, struct jr_handler_sql_end *end)
{
	struct jr_handler_sql *sql = work->sql;

	jr_handler_sql_end_release(&work->end);
	work->end = *end;
	*end = (struct jr_handler_sql_end){.error = NULL};
	work->group = NULL;
	work->over = true;
	work->next = NULL;
	*sql->over_tail = work;
	sql->over_tail = &work->next;
	jr_timer_set(sql->host->loop, &sql->reporting, 0);
}

static struct jr_handler_sql_work *
pop_over(struct jr_handler_sql *sql)
{
	struct jr_handler_sql_work *work = sql->over;

	sql->over = work->next;
	if (sql->over == NULL)
		sql->over_tail = &sql->over;
	work->over = false;
	return work;
}

void
jr_handler_sql_report_ends(void *ctx)
{
	struct jr_handler_sql *sql = ctx;

	while (sql->over != NULL) {
		struct jr_handler_sql_work *work = pop_over(sql);
		struct jr_handler_sql_end own = work->end;
		struct jr_outcome outcome = work->outcome;
		struct jr_work_end end = jr_handler_sql_end_report(&own);

		jr_handler_sql_unwatch(work);
		if ((own.settled || own.in_doubt) && outcome.settled)
			end.written = &outcome;
		work->end = (struct jr_handler_sql_end){.error = NULL}; /* the work may be freed in `ended` */
		work->outcome = (struct jr_outcome){.settled = false};
		work->owner.ended(work->owner.ctx, &end);
		jr_handler_sql_end_release(&own);
		jr_outcome_release(&outcome);
	}
}

void
jr_handler_sql_work_forget(struct jr_handler_sql_work *work)
{
	struct jr_handler_sql *sql = work->sql;
	struct jr_handler_sql_work **at = &sql->over;

	if (!work->over)
		return;
	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	if (sql->over_tail == &work->next)
		sql->over_tail = at;
	work->over = false;
}
