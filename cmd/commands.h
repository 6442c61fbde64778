/*
 * commands: the description of a command, and the list of all commands.
 *
 * A command is one file cmd_NAME.c with one exported constant jr_cmd_NAME and one word in JR_COMMANDS. main() finds it,
 * parses its options and the global ones by their tables, answers --help, checks the number of arguments, calls `run`,
 * prints its error once ("jobrun: MESSAGE"), flushes stdout and exits. So `run` starts with everything parsed:
 *
 *	static int
 *	list_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
 *	{
 *		const struct list_opts *opts = values;
 *		...
 *		return ok ? 0 : (int)err->code;
 *	}
 *
 *	const struct jr_cmd jr_cmd_list = {
 *		.name = "list", .group = JR_GROUP_EVERYDAY, .summary = "runs, newest first", .usage = "[OPTION...]",
 *		.options = list_options, .defaults = &list_defaults, .size = sizeof(list_defaults), .run = list_run,
 *	};
 */
#ifndef JR_COMMANDS_H
#define JR_COMMANDS_H

#include "base/log.h"
#include "options.h"
#include "pg/db.h"

/* The global options. They may stand before or after the command. */
struct jr_app {
	char *line;             /* the whole command line, to tell one line of a crontab from another */
	char *dbname;           /* -d; NULL: see jr_db_conninfo */
	int64_t verbose;        /* -v: 0, 1, 2; main has already set the log level */
	const char *log_format; /* "text" or "json"; already applied */
	bool json;
	bool help;
	bool version;
	bool no_pager;      /* for jr_pager_open */
	bool plugin;        /* of a monitoring system: see fail of struct jr_cmd */
	bool passes_status; /* of a command line: see takes_command of struct jr_cmd */
	const char *kind;   /* what the command line needs: see kind of struct jr_cmd */
};

enum jr_cmd_group {
	JR_GROUP_EVERYDAY,
	JR_GROUP_SCHEDULE,
	JR_GROUP_WATCH,
	JR_GROUP_REPAIR,
	JR_GROUP_SETUP,
	JR_GROUP_SCRIPTS
};

struct jr_cmd {
	const char *name;
	enum jr_cmd_group group;
	const char *summary;             /* one line of `jobrun --help` */
	const char *usage;               /* follows "jobrun NAME " */
	const char *details;             /* further lines of its own help (help.h), or NULL */
	const struct jr_option *options; /* NULL: none */
	const void *defaults;            /* copied to `values` before the environment and the command line */
	size_t size;                     /* size of the options struct */
	int min_args, max_args;          /* max_args < 0: any number */

	/*
	 * The kind of `jobrun grant` that a role needs for it, which errors name; NULL: none. A command of which some
	 * uses need more has `needs_admin`: is this command line one of them, so that the kind is "admin"?
	 */
	const char *kind;
	bool (*needs_admin)(const void *values, int argc);

	/* Options are parsed only before "--"; `run` gets "--" and the command line after it as the last arguments. */
	bool takes_command;

	/* Word number i of those that `run` knows as this argument, from 0; NULL behind the last. NULL: see usage. */
	const char *(*word)(int argument, size_t i);

	/*
	 * argv[0..argc-1] are the arguments without the command's name and its options. Returns the exit status.
	 * err->msg is empty at the start; if it is not empty at the end, main prints it.
	 */
	int (*run)(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err);

	/*
	 * NULL, or what is done instead of printing an error, a wrong option among them: `values` may be read in part
	 * then. Returns the exit status. --help and --version exit with 3: a monitoring plugin has not looked then.
	 */
	int (*fail)(const struct jr_app *app, const void *values, const struct jr_err *err);
};

/* In the order of the help. */
/* clang-format off */
#define JR_COMMANDS(X) \
	X(enqueue) \
	X(run) \
	X(status) \
	X(list) \
	X(show) \
	X(logs) \
	X(wait) \
	X(define) \
	X(next) \
	X(slots) \
	X(retry) \
	X(cancel) \
	X(pause) \
	X(resume) \
	X(explain) \
	X(check) \
	X(stats) \
	X(metrics) \
	X(report) \
	X(prune) \
	X(migrate) \
	X(grant) \
	X(queue) \
	X(handlers) \
	X(doctor) \
	X(import) \
	X(try) \
	X(completion) \
	X(effect) \
	X(exec)
/* clang-format on */

#define JR_COMMAND_DECLARE(name) extern const struct jr_cmd jr_cmd_##name;
JR_COMMANDS(JR_COMMAND_DECLARE)
#undef JR_COMMAND_DECLARE

/* The table of the global options. */
const struct jr_option *jr_global_options(void);

/* Fail with `what` and the first usage of the command; if it has others, with where they are. */
bool jr_cmd_bad_usage(const struct jr_cmd *cmd, struct jr_err *err, const char *what);

/* How long a command waits for one answer, and how long it tries to connect. */
#define JR_CMD_TIMEOUT_MS 30000
#define JR_CMD_PATIENCE_MS 10000

/* Connect as the global options say and check that the schema fits. NULL on failure. Close with jr_db_close. */
struct jr_db *jr_cmd_connect(const struct jr_app *app, struct jr_err *err) JR_MUST;

/* The same, while it tries for patience_ms. */
struct jr_db *jr_cmd_connect_within(const struct jr_app *app, int64_t patience_ms, struct jr_err *err) JR_MUST;

#endif
