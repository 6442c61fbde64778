/*
 * doctor: the checks of `jobrun doctor`, and what they find.
 *
 * A check looks at one thing and adds findings: one that all is well, or one for each thing that is not, with a fact,
 * its consequence, and a line to type. It changes nothing. What could not be looked at is a finding, too. What several
 * checks use (handlers, what starts runners, connection) is gathered before the first of them.
 *
 * Statements return rows of state ('ok', 'warn', 'fail', 'unchecked'), text, a time in ms that replaces {age} (in whole
 * seconds) or {time} (exactly) in it or null, consequence, command, and SQL to type before the command or instead of
 * one. No row: all is well.
 */
#ifndef JR_DOCTOR_H
#define JR_DOCTOR_H

#include "commands.h"
#include "handler/handlers.h"
#include "starters.h"

enum jr_health {
	JR_HEALTH_OK,
	JR_HEALTH_WARN,
	JR_HEALTH_FAIL,
	JR_HEALTH_UNCHECKED
};

struct jr_finding {
	const char *check;
	enum jr_health health;
	char *text, *consequence, *command; /* all but text may be NULL */
};

enum jr_doctor_needs {
	JR_NEEDS_HOST,
	JR_NEEDS_TRY,      /* that connecting was tried */
	JR_NEEDS_DATABASE, /* a connection */
	JR_NEEDS_SCHEMA    /* and a schema that fits this program */
};

/* What a statement gets as $1. */
enum jr_doctor_value {
	JR_VALUE_NONE,
	JR_VALUE_LONG_MS,
	JR_VALUE_ZONE, /* of this host */
	JR_VALUE_HOST, /* its name; null if it has no handlers */
	JR_VALUE_RUNS  /* has it handlers? "t" or "f" */
};

struct jr_doctor;

/* Either look, or a statement and what to say if it returns no row; NULL: it always returns one. */
struct jr_check {
	const char *name;
	void (*look)(struct jr_doctor *doctor);
	const char *sql, *well;
	enum jr_doctor_needs needs;
	enum jr_doctor_value value;
};

struct jr_doctor {
	const struct jr_app *app;
	const char *handlers_dir, *state_dir; /* --handlers, --state-dir, or their variables; NULL: the default ones */
	int64_t long_ms;                      /* a transaction is long from here on */

	struct jr_handlers handlers; /* without items if they cannot be read */
	struct jr_err handlers_err;  /* why not; an empty message: they were read */
	bool needs_handlers;         /* their directory was named, or exists */
	struct jr_starters starters;
	char host[256];
	char *zone;
	const char *conninfo, *source; /* jr_db_conninfo */
	struct jr_db *db;              /* NULL: there is no connection, and connect_err says why */
	struct jr_err connect_err;
	bool schema_fits;
	struct jr_err schema_err; /* if it does not fit */
	char *owner;              /* of the schema, if the role of the connection is not as good; else NULL */
	bool is_admin;            /* may that role grant and define? */
	bool tells_connection, tells_schema; /* are these two checks among those that are made? */

	const char *check; /* whose findings are added */
	struct jr_finding *findings;
	size_t count;
};

/* How long a statement may take. */
#define JR_DOCTOR_MS 5000

/* The texts are the caller's; they are copied, NULL stays NULL. */
void jr_doctor_add(
    struct jr_doctor *doctor, enum jr_health health, const char *text, const char *consequence, const char *command);
void jr_doctor_release_findings(struct jr_doctor *doctor);
bool jr_doctor_found(const struct jr_doctor *doctor, enum jr_health health) JR_MUST;

/* Does this host run jobs: has it a handler that is not built in? */
bool jr_doctor_runs_jobs(const struct jr_doctor *doctor) JR_MUST;

void jr_doctor_print(const struct jr_doctor *doctor, bool json);

/* Run the statement of the check. */
void jr_doctor_ask(struct jr_doctor *doctor, const struct jr_check *check);

/* The line that runs this SQL on the database. Caller frees. */
char *jr_doctor_psql(const struct jr_doctor *doctor, const char *sql) JR_MUST;

/*
 * The command of jobrun, such as "migrate", for the database: with -d where that named it, and as the owner of the
 * schema where the role of the connection has no right to it. Caller frees.
 */
char *jr_doctor_jobrun(const struct jr_doctor *doctor, const char *command) JR_MUST;

/* What a connection string says of one of libpq's parameters, such as "host". Caller frees; NULL: nothing. */
char *jr_doctor_parameter(const char *conninfo, const char *keyword) JR_MUST;

/* doctor_host.c */
void jr_doctor_look_pgpass(struct jr_doctor *doctor);
void jr_doctor_look_handlers(struct jr_doctor *doctor);
void jr_doctor_look_path(struct jr_doctor *doctor);
void jr_doctor_look_state(struct jr_doctor *doctor);
void jr_doctor_look_cron(struct jr_doctor *doctor);

/* doctor_database.c */
void jr_doctor_find_owner(struct jr_doctor *doctor);
void jr_doctor_look_connection(struct jr_doctor *doctor);
/* A check that needs a connection, or a schema that fits, and has none. They say why if no other line does. */
void jr_doctor_add_unconnected(struct jr_doctor *doctor);
void jr_doctor_add_unfit(struct jr_doctor *doctor);
void jr_doctor_look_server(struct jr_doctor *doctor);
void jr_doctor_look_pooler(struct jr_doctor *doctor);
void jr_doctor_look_schema(struct jr_doctor *doctor);
void jr_doctor_look_clock(struct jr_doctor *doctor);

#endif
