/*
 * status: is everything all right? The last runner, a line for each job type, and what somebody should look at.
 */
#include <stdlib.h>

#include "base/parse.h"
#include "commands.h"
#include "print.h"
#include "status.h"
#include "status_watch.h"

struct status_opts {
	int64_t watch_ms;
	bool exact;
};

static const struct status_opts status_defaults;

#define AT(field) offsetof(struct status_opts, field)

/* clang-format off */
static const struct jr_option status_options[] = {
	{ .name = "watch", .arg = "D", .bare = "2s", .help = "take the whole screen, show what runs, too, and look again each D (2s); q quits",
	    .type = JR_OPT_DURATION, .offset = AT(watch_ms), .min = 100, .max = 86400000 },
	{ .name = "exact", .help = "count all waiting and dead runs, and all that succeeded in this hour, however many there are (else up to 10000 of each type, fewer where many types have so many; and the newest 50000 successes)", .type = JR_OPT_FLAG,
	    .offset = AT(exact) },
	JR_OPTIONS_END,
};
/* clang-format on */

/*
 * If the user named a type, a missing line must not look like good news: report each type without runs. The last one
 * goes into *err.
 */
static bool
check_found(const struct jr_status *status, int argc, char **argv, struct jr_err *err)
{
	bool found = true;

	for (int i = 0; i < argc; i++) {
		if (jr_status_has(status, argv[i]))
			continue;
		if (found)
			fflush(stdout);
		else
			fprintf(stderr, "jobrun: %s\n", err->msg);
		found = jr_fail(err, JR_E_NEWS,
		    "nothing of type %s waits, runs or has ended in the last 24h%s: jobrun list --type %s", argv[i],
		    jr_status_is_capped(status)
			? ", as far as the newest 50,000 successes of this hour tell (--exact counts all); for its runs"
			: "; for older runs",
		    argv[i]);
	}
	return found;
}

static bool
ask_and_print(const struct jr_app *app, const struct status_opts *opts, struct jr_db *db, const char *types,
    struct jr_status *status, struct jr_err *err)
{
	if (!jr_status_ask(status, db, types, opts->exact, opts->watch_ms > 0, JR_CMD_TIMEOUT_MS, err))
		return false;
	if (app->json) {
		jr_status_print_json(status);
		return true;
	}
	jr_status_print(status);
	jr_status_print_running(status);
	return true;
}

static bool
look(const struct jr_app *app, const struct status_opts *opts, int argc, char **argv, const char *types,
    struct jr_err *err)
{
	struct jr_status status = {.parts = {NULL}};
	struct jr_db *db = jr_cmd_connect(app, err);
	bool ok =
	    db != NULL && ask_and_print(app, opts, db, types, &status, err) && check_found(&status, argc, argv, err);

	jr_status_release(&status);
	jr_db_close(db);
	return ok;
}

static int
status_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct status_opts *opts = values;
	char *types;
	bool ok;

	for (int i = 0; i < argc; i++) {
		if (!jr_parse_job_type("TYPE", argv[i], err))
			return (int)err->code;
	}
	types = jr_pg_array_or_null((const char *const *)argv, (size_t)argc);
	ok = opts->watch_ms > 0 && !app->json && jr_print_is_terminal(stdout)
		 ? jr_status_watch(app, types, opts->exact, opts->watch_ms, err)
		 : look(app, opts, argc, argv, types, err);
	free(types);
	return ok ? 0 : (int)err->code;
}

const struct jr_cmd jr_cmd_status = {
    .name = "status",
    .group = JR_GROUP_EVERYDAY,
    .summary = "show each job type, and what needs attention",
    .usage = "[OPTION...] [TYPE...]",
    .options = status_options,
    .defaults = &status_defaults,
    .size = sizeof(status_defaults),
    .max_args = -1,
    .kind = "read",
    .run = status_run,
};
