/*
 * prune: housekeeping by hand: run the steps of the built-in job type jobrun.prune until nothing is left.
 *
 * What must hold: each step is complete in itself, so that this command can be ended at any time. Only the table
 * jobrun.settings decides what is removed.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "commands.h"
#include "handler/prune.h"
#include "print.h"
#include "sql_text.h"

#define STEP_MS 600000 /* to sum an hour in which very many runs ended takes long */
#define PROGRESS_MS 500

struct prune_opts {
	int64_t max_runtime_ms;
	bool dry_run;
};

static const struct prune_opts prune_defaults = {.max_runtime_ms = 0};

#define AT(field) offsetof(struct prune_opts, field)

/* clang-format off */
static const struct jr_option prune_options[] = {
	{ .name = "max-runtime", .arg = "D", .help = "stop after D; the next call goes on (no limit)",
	    .type = JR_OPT_DURATION, .offset = AT(max_runtime_ms) },
	{ .name = "dry-run", .letter = 'n', .help = "count what would be removed, change nothing", .type = JR_OPT_FLAG, .offset = AT(dry_run) },
	JR_OPTIONS_END,
};
/* clang-format on */

struct pruning {
	const struct jr_app *app;
	const struct prune_opts *opts;
	struct jr_db *db;
	struct jr_prune prune;
	int64_t started_ms, shown_ms;
	bool shows;
};

static void
show_progress(struct pruning *p, int64_t now_ms)
{
	int64_t took_ms = now_ms - p->started_ms;

	if (!p->shows || now_ms - p->shown_ms < PROGRESS_MS)
		return;
	p->shown_ms = now_ms;
	fputs("\r\033[K", stderr);
	if (p->prune.gone == 0)
		fprintf(stderr, "%" PRId64 " hour%s summed ", p->prune.hours, jr_text_plural(p->prune.hours));
	else
		fprintf(stderr, "%" PRId64 " row%s, %" PRId64 " per second, at: %s ", p->prune.gone,
		    jr_text_plural(p->prune.gone), took_ms > 0 ? p->prune.gone * 1000 / took_ms : 0,
		    p->prune.kind == NULL ? "the end" : p->prune.kind);
}

static void
end_progress(const struct pruning *p)
{
	if (p->shows && p->shown_ms != p->started_ms)
		fputs("\r\033[K", stderr);
}

static bool
step(struct pruning *p, struct jr_err *err)
{
	const char *values[] = {p->prune.state};
	PGresult *result = jr_db_query(p->db, jr_sql_prune, JR_COUNT(values), values, STEP_MS, err);

	bool ok = result != NULL && jr_prune_take(&p->prune, result, err);

	PQclear(result);
	return ok;
}

static bool
prune_all(struct pruning *p, struct jr_err *err)
{
	int64_t time_ms = p->opts->max_runtime_ms;
	int64_t until_ms = time_ms == 0 ? JR_NEVER : jr_clock_after(p->started_ms, time_ms);
	int64_t behind_ms = time_ms == 0 ? JR_NEVER : jr_clock_after(p->started_ms, time_ms / 2);

	for (;;) {
		int64_t begun_ms = jr_clock_now_ms(), now_ms;

		if (!step(p, err))
			return false;
		now_ms = jr_clock_now_ms();
		if (p->prune.done || now_ms >= until_ms)
			return true;
		show_progress(p, now_ms);
		if (!p->opts->dry_run)
			(void)poll(NULL, 0, (int)jr_prune_pause_ms(now_ms - begun_ms, now_ms >= behind_ms));
	}
}

static bool
tell(struct pruning *p, struct jr_err *err)
{
	const struct jr_column columns[] = {{"WHAT", JR_CELL_TEXT},
	    {p->opts->dry_run ? "WOULD GO" : "GONE", JR_CELL_NUMBER}, {"KEPT FOR", JR_CELL_TEXT}};
	const char *values[] = {p->prune.state};
	PGresult *result;

	result = jr_db_query(p->db, p->app->json ? jr_sql_prune_doc : jr_sql_prune_counts, JR_COUNT(values), values,
	    JR_CMD_TIMEOUT_MS, err);
	if (result == NULL)
		return false;
	if (p->app->json)
		jr_print_document(PQgetvalue(result, 0, 0));
	else if (PQntuples(result) > 0)
		jr_print_table(result, columns, JR_COUNT(columns));
	else
		puts("nothing to prune");
	if (!p->app->json && !p->prune.done)
		puts("stopped at --max-runtime; there is more to remove");
	PQclear(result);
	return true;
}

/* After a failure in the middle, say how many rows were removed before it. */
static bool
fail_after(const struct pruning *p, struct jr_err *err)
{
	struct jr_err old = *err;

	if (p->prune.gone == 0 || p->opts->dry_run)
		return false;
	return jr_fail(err, old.code, "%s; %" PRId64 " row%s had gone before", old.msg, p->prune.gone,
	    jr_text_plural(p->prune.gone));
}

static int
prune_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	struct pruning p = {.app = app, .opts = values, .db = jr_cmd_connect(app, err)};
	bool ok;

	(void)argc;
	(void)argv;
	if (p.db == NULL)
		return (int)err->code;
	p.started_ms = p.shown_ms = jr_clock_now_ms();
	p.shows = jr_print_is_terminal(stderr);
	jr_prune_init(&p.prune, p.opts->dry_run ? JR_PRUNE_DRY_RUN : JR_PRUNE_ALL);
	ok = prune_all(&p, err);
	end_progress(&p);
	ok = ok ? tell(&p, err) : fail_after(&p, err);
	jr_prune_release(&p.prune);
	jr_db_close(p.db);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_prune = {
    .name = "prune",
    .group = JR_GROUP_REPAIR,
    .summary = "remove now what has been kept long enough",
    .usage = "[OPTION...]",
    .details = "Runners do this every hour. Table jobrun.settings says how long finished runs and their records are\n"
	       "kept; unfinished runs always stay. Each hour is summed into job_stats before its runs are removed,\n"
	       "ten minutes after its end at the earliest: what ended later stays until then.\n",
    .options = prune_options,
    .defaults = &prune_defaults,
    .size = sizeof(prune_defaults),
    .kind = "run",
    .run = prune_run,
};
