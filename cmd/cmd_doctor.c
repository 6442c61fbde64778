/*
 * doctor: is this host set up as it should be, and the database? A line for each check, and what to type.
 *
 * It only looks. The host's checks come first and are printed even if the database does not answer.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "doctor.h"
#include "print.h"
#include "sql_text.h"
#include "waits.h"
#include "zone.h"

/* People wait for it. One try may take longer. */
#define PATIENCE_MS 2000

struct doctor_opts {
	const char *handlers, *state_dir;
	int64_t long_ms;
};

static const struct doctor_opts doctor_defaults = {.long_ms = 600000};

#define AT(field) offsetof(struct doctor_opts, field)

/* clang-format off */
static const struct jr_option doctor_options[] = {
	{ .name = "handlers", .arg = "DIR", .help = "the handlers directory (~/.config/jobrun/handlers, else /etc/jobrun/handlers)",
	    .type = JR_OPT_STRING, .offset = AT(handlers), .env = "JOBRUN_HANDLERS", .not_empty = true },
	{ .name = "state-dir", .arg = "DIR", .help = "for permits; see 'jobrun run --help'", .type = JR_OPT_STRING, .offset = AT(state_dir),
	    .env = "JOBRUN_STATE_DIR", .not_empty = true },
	{ .name = "long", .arg = "D", .help = "warn of transactions that are older, and fail when they are six times as old (10m)",
	    .type = JR_OPT_DURATION, .offset = AT(long_ms), .min = 0, .max = JR_DURATION_MAX_MS / 6 },
	JR_OPTIONS_END,
};

/* In the order of the output. */
static const struct jr_check checks[] = {
	{ .name = "connection", .needs = JR_NEEDS_TRY, .look = jr_doctor_look_connection },
	{ .name = "pgpass", .needs = JR_NEEDS_HOST, .look = jr_doctor_look_pgpass },
	{ .name = "handlers", .needs = JR_NEEDS_HOST, .look = jr_doctor_look_handlers },
	{ .name = "path", .needs = JR_NEEDS_HOST, .look = jr_doctor_look_path },
	{ .name = "state", .needs = JR_NEEDS_HOST, .look = jr_doctor_look_state },
	{ .name = "cron", .needs = JR_NEEDS_HOST, .look = jr_doctor_look_cron },
	{ .name = "server", .needs = JR_NEEDS_DATABASE, .look = jr_doctor_look_server },
	{ .name = "pooler", .needs = JR_NEEDS_DATABASE, .look = jr_doctor_look_pooler },
	{ .name = "clock", .needs = JR_NEEDS_DATABASE, .look = jr_doctor_look_clock },
	{ .name = "timeouts", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_timeouts,
	    .well = "no setting of the server ends a long handler" },
	{ .name = "schema", .needs = JR_NEEDS_DATABASE, .look = jr_doctor_look_schema },
	{ .name = "copy", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_copy, .well = "this database is the one that was set up" },
	{ .name = "role", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_role, .value = JR_VALUE_RUNS },
	{ .name = "grants", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_grants, .well = "roles have the rights that they were granted" },
	{ .name = "runner", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_runner, .value = JR_VALUE_HOST },
	{ .name = "types", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_types, .well = "every run that is due has a host with a handler" },
	{ .name = "retention", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_retention, .well = "housekeeping is on" },
	{ .name = "zones", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_zones, .well = "the server knows the time zones of all schedules" },
	{ .name = "host_zone", .needs = JR_NEEDS_SCHEMA, .sql = jr_sql_doctor_host_zone, .value = JR_VALUE_ZONE },
	{ .name = "transactions", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_transactions, .value = JR_VALUE_LONG_MS,
	    .well = "no long transaction holds back vacuum, or has locked a table of jobrun" },
	{ .name = "replication", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_replication,
	    .well = "no replication slot holds anything back" },
	{ .name = "autovacuum", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_autovacuum, .well = "on" },
	{ .name = "dead_rows", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_dead_rows, .well = "vacuum keeps up" },
	{ .name = "bloat", .needs = JR_NEEDS_DATABASE, .sql = jr_sql_doctor_bloat, .well = "tables and indexes are about as large as their rows" },
};
/* clang-format on */

static const char *
word_of(int argument, size_t i)
{
	(void)argument;
	return i < JR_COUNT(checks) ? checks[i].name : NULL;
}

static const struct jr_check *
find_check(const char *name)
{
	for (size_t i = 0; i < JR_COUNT(checks); i++) {
		if (strcmp(checks[i].name, name) == 0)
			return &checks[i];
	}
	return NULL;
}

static bool
know_checks(int argc, char **argv, struct jr_err *err)
{
	const char *names[JR_COUNT(checks)];

	for (size_t i = 0; i < JR_COUNT(checks); i++)
		names[i] = checks[i].name;
	for (int i = 0; i < argc; i++) {
		if (find_check(argv[i]) == NULL)
			return jr_fail_unknown(
			    err, "check", argv[i], names, JR_COUNT(names), "'jobrun doctor --help' lists them");
	}
	return true;
}

/* Is the check wanted? Without names all are. */
static bool
is_wanted(const struct jr_check *check, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], check->name) == 0)
			return true;
	}
	return argc == 0;
}

static bool
wants_database(int argc, char **argv)
{
	for (size_t i = 0; i < JR_COUNT(checks); i++) {
		if (is_wanted(&checks[i], argc, argv) && checks[i].needs > JR_NEEDS_HOST)
			return true;
	}
	return false;
}

/* The directory above the caller's units of systemd. Caller frees; NULL: not known. */
static char *
config_directory(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config != NULL && config[0] == '/')
		return jr_xstrdup(config);
	return home != NULL && home[0] == '/' ? jr_xasprintf("%s/.config", home) : NULL;
}

static void
gather_host(struct jr_doctor *doctor, const struct doctor_opts *opts)
{
	char *directory = jr_handlers_directory(opts->handlers), *config = config_directory();
	const struct jr_starter_places places = {.root = "", .home = config, .own_crontab = true};

	if (!jr_handlers_read(&doctor->handlers, directory, &doctor->handlers_err))
		doctor->handlers = (struct jr_handlers){.count = 0};
	doctor->needs_handlers = opts->handlers != NULL || access(directory, F_OK) == 0;
	jr_starters_find(&doctor->starters, &places);
	doctor->zone = jr_zone_of_host();
	(void)gethostname(doctor->host, sizeof(doctor->host) - 1);
	free(directory);
	free(config);
}

static void
connect_to(struct jr_doctor *doctor, int argc, char **argv)
{
	const struct jr_db_waits waits = jr_waits_of(doctor->app);

	if (!wants_database(argc, argv))
		return;
	doctor->db = jr_db_open(doctor->conninfo, PATIENCE_MS, &waits, &doctor->connect_err);
	if (doctor->db == NULL)
		return;
	doctor->schema_fits = jr_db_need_schema(doctor->db, &doctor->schema_err);
	jr_doctor_find_owner(doctor);
}

static void
look(struct jr_doctor *doctor, const struct jr_check *check)
{
	doctor->check = check->name;
	if (check->needs >= JR_NEEDS_DATABASE && doctor->db == NULL)
		jr_doctor_add_unconnected(doctor);
	else if (check->needs == JR_NEEDS_SCHEMA && !doctor->schema_fits)
		jr_doctor_add_unfit(doctor);
	else if (check->look != NULL)
		check->look(doctor);
	else
		jr_doctor_ask(doctor, check);
}

static void
release(struct jr_doctor *doctor)
{
	jr_doctor_release_findings(doctor);
	jr_db_close(doctor->db);
	jr_starters_release(&doctor->starters);
	jr_handlers_release(&doctor->handlers);
	free(doctor->zone);
	free(doctor->owner);
}

static int
doctor_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	const struct doctor_opts *opts = values;
	struct jr_doctor doctor = {
	    .app = app, .handlers_dir = opts->handlers, .state_dir = opts->state_dir, .long_ms = opts->long_ms};
	int status;

	if (!know_checks(argc, argv, err))
		return (int)err->code;
	doctor.conninfo = jr_db_conninfo(app->dbname, &doctor.source);
	doctor.tells_connection = is_wanted(find_check("connection"), argc, argv);
	doctor.tells_schema = is_wanted(find_check("schema"), argc, argv);
	gather_host(&doctor, opts);
	connect_to(&doctor, argc, argv);
	for (size_t i = 0; i < JR_COUNT(checks); i++) {
		if (is_wanted(&checks[i], argc, argv))
			look(&doctor, &checks[i]);
	}
	jr_doctor_print(&doctor, app->json);
	status = jr_doctor_found(&doctor, JR_HEALTH_FAIL) ? JR_E_NEWS : 0;
	if (doctor.db == NULL && doctor.connect_err.msg[0] != '\0' && doctor.connect_err.code == JR_E_TEMP)
		status = JR_E_TEMP;
	release(&doctor);
	return status;
}

const struct jr_cmd jr_cmd_doctor = {
    .name = "doctor",
    .group = JR_GROUP_SETUP,
    .summary = "check this host and its database, and say what to type",
    .usage = "[OPTION...] [CHECK...]",
    .details =
	"It only looks, and needs no more than the rights of kind read; what it could not check it says. Exit status: 0\n"
	"no FAIL, 1 a FAIL, 75 the database does not answer. With CHECKs only these:\n"
	"  connection    which database, and what names it\n"
	"  pgpass        the mode of ~/.pgpass\n"
	"  handlers      files that are refused\n"
	"  path          programs that handlers start by name, and cron's PATH\n"
	"  state         directories for permits\n"
	"  cron          crontab lines and timers of systemd that start runners here\n"
	"  server        its version, and can it be written to\n"
	"  pooler        sessions, transactions or statements\n"
	"  clock         of this host and of the server\n"
	"  timeouts      settings of the server that end long handlers\n"
	"  schema        does it fit this program, and is all of it there\n"
	"  copy          was this database copied from another\n"
	"  role          too few rights for what this host does, or too many\n"
	"  grants        rights that were granted and got lost, or that a role has without a grant\n"
	"  runner        when one was seen\n"
	"  types         due runs that no host has a handler for\n"
	"  retention     housekeeping\n"
	"  zones         time zones of schedules that the server does not know\n"
	"  host_zone     schedules in UTC on a host with another zone\n"
	"  transactions  long ones that hold back vacuum, or lock a table of jobrun\n"
	"  replication   slots that nobody reads\n"
	"  autovacuum    is it on\n"
	"  dead_rows     does vacuum keep up\n"
	"  bloat         tables and indexes that are much larger than their rows; an estimate\n",
    .options = doctor_options,
    .defaults = &doctor_defaults,
    .size = sizeof(doctor_defaults),
    .max_args = -1,
    .word = word_of,
    .run = doctor_run,
};
