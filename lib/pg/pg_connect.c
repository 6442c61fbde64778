/*
 * pg_connect: see pg_connect.h.
 *
 * libpq reads keywords in order: a connection string in dbname overrides the keywords before it, and the keywords after
 * it override the string.
 */
#include "pg/pg_connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pg/pg_error.h"
#include "pg/pg_reason.h"

#define KEYWORDS_MAX 12
#define LEAST_MS 1000 /* for each host, while nothing is in a hurry */

struct keywords {
	const char *names[KEYWORDS_MAX + 1], *values[KEYWORDS_MAX + 1];
	size_t count;
};

static void
add(struct keywords *keywords, const char *name, const char *value)
{
	keywords->names[keywords->count] = name;
	keywords->values[keywords->count++] = value;
}

/* Does libpq read this as a connection string, not as the name of a database? */
static bool
is_conninfo(const char *s)
{
	return strchr(s, '=') != NULL || strncmp(s, "postgresql://", 13) == 0 || strncmp(s, "postgres://", 11) == 0;
}

static bool
can_be_read(const char *conninfo, struct jr_err *err)
{
	char *text = NULL, *reason;
	PQconninfoOption *options;

	if (conninfo == NULL || !is_conninfo(conninfo))
		return true;
	options = PQconninfoParse(conninfo, &text);
	if (options == NULL) {
		reason = jr_pg_reason_of_string(text == NULL ? "out of memory" : text, conninfo);
		jr_fail(err, JR_E_CONFIG, "cannot read the connection string: %s", reason);
		free(reason);
	}
	PQconninfoFree(options);
	PQfreemem(text);
	return options != NULL;
}

PGconn *
jr_pg_connect(const char *conninfo, const struct jr_pg_lists *lists, struct jr_err *err)
{
	struct keywords keywords = {.count = 0};
	PGconn *conn;

	if (!can_be_read(conninfo, err))
		return NULL;

	add(&keywords, "fallback_application_name", "jobrun");
	if (getenv("PGTARGETSESSIONATTRS") == NULL)
		add(&keywords, "target_session_attrs", "read-write");
	/* Notice within a minute and a half that the network drops all packets, whatever the kernel's defaults are. */
	add(&keywords, "keepalives_idle", "60");
	add(&keywords, "keepalives_interval", "10");
	add(&keywords, "keepalives_count", "3");
	if (conninfo != NULL)
		add(&keywords, "dbname", conninfo);
	add(&keywords, "client_encoding", "UTF8");
	if (lists != NULL) {
		add(&keywords, "host", lists->names);
		add(&keywords, "hostaddr", lists->addresses);
		add(&keywords, "port", lists->ports);
	}
	conn = PQconnectStartParams(keywords.names, keywords.values, 1);
	if (conn == NULL)
		abort(); /* out of memory, as in mem.c */
	return conn;
}

/* The options as libpq has them, with those of a service file and of the environment. */
static void
read_options(struct jr_pg_dial *dial, PGconn *conn, bool pinned)
{
	PQconninfoOption *options = PQconninfo(conn);
	const char *names = NULL, *addresses = NULL, *ports = NULL;

	dial->each_ms = 0;
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (strcmp(o->keyword, "host") == 0)
			names = o->val;
		else if (strcmp(o->keyword, "hostaddr") == 0)
			addresses = o->val;
		else if (strcmp(o->keyword, "port") == 0)
			ports = o->val;
		else if (strcmp(o->keyword, "load_balance_hosts") == 0)
			dial->hosts.shuffled = o->val != NULL && strcmp(o->val, "disable") != 0;
		else if (strcmp(o->keyword, "connect_timeout") == 0 && !pinned && o->val != NULL)
			dial->each_ms = strtol(o->val, NULL, 10) * 1000;
	}
	if (dial->hosts.count == 0)
		jr_pg_hosts_read(&dial->hosts, names, addresses, ports);
	PQconninfoFree(options);
}

/* A connection to the hosts that are left. */
static PGconn *
connect_to_rest(const struct jr_pg_dial *dial, const char *conninfo, struct jr_err *err)
{
	struct jr_pg_lists lists;
	PGconn *conn;

	if (jr_pg_hosts_are_plain(&dial->hosts))
		return jr_pg_connect(conninfo, NULL, err);
	conn = jr_pg_connect(conninfo, jr_pg_hosts_lists(&dial->hosts, &lists) ? &lists : NULL, err);
	jr_pg_lists_free(&lists);
	return conn;
}

static size_t
find_host(const struct jr_pg_dial *dial, PGconn *conn)
{
	return jr_pg_hosts_find(&dial->hosts, PQhost(conn), PQhostaddr(conn), PQport(conn));
}

PGconn *
jr_pg_dial_begin(struct jr_pg_dial *dial, const char *conninfo, int64_t timeout_ms, bool pinned, struct jr_err *err)
{
	PGconn *conn;

	jr_pg_hosts_begin(&dial->hosts, pinned);
	dial->silent[0] = '\0';
	conn = connect_to_rest(dial, conninfo, err);
	if (conn == NULL)
		return NULL;
	read_options(dial, conn, pinned);
	dial->at = find_host(dial, conn);
	dial->end_ms = jr_clock_after(jr_clock_now_ms(), timeout_ms);
	return conn;
}

bool
jr_pg_dial_has_moved(struct jr_pg_dial *dial, PGconn *conn)
{
	size_t before = dial->at;

	dial->at = find_host(dial, conn);
	return dial->at != before;
}

/* What is left of the time is for all that are left. A look-up may have used it up: then each gets a little. */
int64_t
jr_pg_dial_until_ms(const struct jr_pg_dial *dial)
{
	int64_t now_ms = jr_clock_now_ms(), each_ms = dial->each_ms;

	if (each_ms == 0)
		each_ms = (dial->end_ms - now_ms) / (int64_t)jr_pg_hosts_left(&dial->hosts, dial->at);
	if (each_ms < LEAST_MS && !dial->hosts.pinned)
		each_ms = LEAST_MS;
	return jr_clock_after(now_ms, each_ms);
}

static void
add_silent(struct jr_pg_dial *dial, PGconn *conn)
{
	size_t len = strlen(dial->silent);
	struct jr_err err;

	jr_pg_silent(conn, &err);
	(void)snprintf(dial->silent + len, sizeof(dial->silent) - len, "%s%s", len == 0 ? "" : "; ", err.msg);
}

static bool
is_one_left(const struct jr_pg_hosts *hosts)
{
	struct jr_pg_lists lists;
	bool is_left = jr_pg_hosts_lists(hosts, &lists);

	jr_pg_lists_free(&lists);
	return is_left;
}

PGconn *
jr_pg_dial_next(struct jr_pg_dial *dial, const char *conninfo, PGconn *conn, struct jr_err *err)
{
	bool known;

	dial->at = find_host(dial, conn); /* the list may have changed */
	known = dial->at < dial->hosts.count;
	add_silent(dial, conn);
	PQfinish(conn);
	jr_pg_hosts_silent(&dial->hosts, dial->at);
	if (!known || !is_one_left(&dial->hosts)) {
		jr_fail(err, JR_E_TEMP, "could not connect to the database in time: %s", dial->silent);
		return NULL;
	}
	conn = connect_to_rest(dial, conninfo, err);
	if (conn != NULL)
		dial->at = find_host(dial, conn);
	return conn;
}

void
jr_pg_dial_done(struct jr_pg_dial *dial, PGconn *conn)
{
	jr_pg_hosts_good(&dial->hosts, find_host(dial, conn), PQhostaddr(conn));
}

void
jr_pg_dial_failed(const struct jr_pg_dial *dial, PGconn *conn, struct jr_err *err)
{
	struct jr_err failed;

	jr_pg_conn_error(conn, NULL, err);
	if (dial->silent[0] == '\0')
		return;
	failed = *err;
	jr_fail(err, failed.code, "%.600s; %s", failed.msg, dial->silent);
	memcpy(err->sqlstate, failed.sqlstate, sizeof(err->sqlstate));
}
