/*
 * wait: wait until runs are over. All ids are parsed before the first statement.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/parse.h"
#include "commands.h"
#include "wait_runs.h"

struct wait_opts {
	int64_t timeout_ms;
};

static const struct wait_opts wait_defaults = {.timeout_ms = JR_WAIT_RUNS_MS};

/* clang-format off */
static const struct jr_option wait_options[] = {
	{ .name = "timeout", .arg = "D", .help = "wait at most D (1h); 0: look once", .type = JR_OPT_DURATION,
	    .offset = offsetof(struct wait_opts, timeout_ms) },
	JR_OPTIONS_END,
};
/* clang-format on */

static bool
parse_ids(int argc, char **argv, int64_t *ids, struct jr_err *err)
{
	if (argc > JR_WAIT_RUNS_MAX)
		return jr_fail(err, JR_E_USAGE, "%d ids; at most %d are possible", argc, JR_WAIT_RUNS_MAX);
	for (int i = 0; i < argc; i++) {
		if (!jr_parse_int("ID", argv[i], 1, INT64_MAX, &ids[i], err))
			return false;
	}
	return true;
}

static int
wait_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct wait_opts *opts = values;
	int64_t *ids = jr_xcalloc((size_t)argc, sizeof(*ids));
	const struct jr_wait_runs wait = {.ids = ids, .count = (size_t)argc, .timeout_ms = opts->timeout_ms};
	struct jr_db *db = NULL;
	int status;

	if (parse_ids(argc, argv, ids, err))
		db = jr_cmd_connect(app, err);
	status = db == NULL ? (int)err->code : jr_wait_runs(app, &db, &wait, err);
	jr_db_close(db);
	free(ids);
	return status;
}

const struct jr_cmd jr_cmd_wait = {
    .name = "wait",
    .group = JR_GROUP_EVERYDAY,
    .summary = "wait until runs are over, and print their results",
    .usage = "[--timeout D] ID...",
    .details = "If a newer run of its unique key has superseded a run, the newer one is waited for.\n"
	       "Exit status 0: all succeeded. 1: a run is dead, cancelled, or does not exist. 75: the time is over.\n",
    .options = wait_options,
    .defaults = &wait_defaults,
    .size = sizeof(wait_defaults),
    .min_args = 1,
    .max_args = -1,
    .kind = "read",
    .run = wait_run,
};
