/*
 * pg_connect: see pg_connect.h.
 *
 * libpq reads keywords in order: a connection string in dbname overrides the keywords before it, and the keywords after
 * it override the string.
 */
#include "pg/pg_connect.h"

#include "pg/pg_reason.h"

#include <stdlib.h>
#include <string.h>

#define KEYWORDS_MAX 12

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

static bool
copy(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len >= size)
		return false;
	memcpy(to, from, len + 1);
	return true;
}

void
jr_pg_address_of(const PGconn *conn, struct jr_pg_address *address)
{
	const char *host = PQhost(conn), *numeric = PQhostaddr(conn), *port = PQport(conn);
	bool known = host != NULL && numeric != NULL && port != NULL && *numeric != '\0' && *host != '/';

	if (!known || !copy(address->host, sizeof(address->host), host) ||
	    !copy(address->address, sizeof(address->address), numeric) ||
	    !copy(address->port, sizeof(address->port), port))
		*address = (struct jr_pg_address){.address = ""};
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
jr_pg_connect(const char *conninfo, const struct jr_pg_address *fixed, struct jr_err *err)
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
	if (fixed != NULL && fixed->address[0] != '\0') {
		add(&keywords, "host", fixed->host);
		add(&keywords, "hostaddr", fixed->address);
		add(&keywords, "port", fixed->port);
	}
	conn = PQconnectStartParams(keywords.names, keywords.values, 1);
	if (conn == NULL)
		abort(); /* out of memory, as in mem.c */
	return conn;
}

int64_t
jr_pg_connect_ms(PGconn *conn, int64_t otherwise_ms)
{
	PQconninfoOption *options = PQconninfo(conn);
	int64_t ms = otherwise_ms;

	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL && strtol(o->val, NULL, 10) > 0)
			ms = strtol(o->val, NULL, 10) * 1000;
	}
	PQconninfoFree(options);
	return ms;
}
