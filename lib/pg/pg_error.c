/*
 * pg_error: see pg_error.h.
 *
 * The table gives the exit status for each class of SQLSTATE. A SQLSTATE that it does not list is a bug of jobrun.
 */
#include "pg/pg_error.h"

#include "pg/pg_reason.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_ONLY                                                                                                      \
	"the server is a standby, or default_transaction_read_only is on: name the primary in the connection string, or all hosts"
#define LOCKED "another transaction holds the lock; 'jobrun doctor transactions --long 5s' shows which"
#define JSON_CONTEXT_MAX 100 /* 50 quoted bytes and a token */

struct meaning {
	const char *prefix;
	enum jr_errc code;
};

/* The first prefix that fits decides. */
static const struct meaning meanings[] = {
    {"JR065", JR_E_DATA},   /* enqueue and the like: bad argument */
    {"JR077", JR_E_PERM},   /* migrate_begin: the schema belongs to somebody else */
    {"JR078", JR_E_CONFIG}, /* need(): the schema does not fit */
    {"3F000", JR_E_CONFIG}, /* no schema jobrun */
    {"42883", JR_E_CONFIG}, /* no such function */
    {"42P01", JR_E_CONFIG}, /* no such table */
    {"42703", JR_E_CONFIG}, /* no such column */
    {"3D000", JR_E_CONFIG}, /* no such database */
    {"42501", JR_E_PERM},
    {"28", JR_E_PERM},
    {"22", JR_E_DATA},
    {"54", JR_E_DATA},    /* a limit of the server: JSON that is nested too deep */
    {"0A000", JR_E_DATA}, /* JSON with a \u20ac that SQL_ASCII cannot convert */
    {"25006", JR_E_TEMP}, /* read-only: a standby */
    {"55P03", JR_E_TEMP},
    {"08", JR_E_TEMP},
    {"40", JR_E_TEMP},
    {"53", JR_E_TEMP},
    {"57", JR_E_TEMP},
    {"25P03", JR_E_TEMP}, /* idle_in_transaction_session_timeout */
    {"25P04", JR_E_TEMP}, /* transaction_timeout */
    {"58", JR_E_TEMP},
};

/*
 * PgBouncer before 1.19 reports every refused login as 08P01, whatever SQLSTATE the server gave. Only the text tells
 * the reason, and only if the server behind it speaks English.
 */
static const struct {
	const char *begin, *end;
	enum jr_errc code;
} of_poolers[] = {
    {"no such database", "", JR_E_CONFIG},
    {"database \"", "\" does not exist", JR_E_CONFIG},
    {"no such user", "", JR_E_PERM},
    {"role \"", "\" does not exist", JR_E_PERM},
    {"role \"", "\" is not permitted to log in", JR_E_PERM},
    {"password authentication failed", "", JR_E_PERM},
    {"SASL authentication failed", "", JR_E_PERM},
};

static enum jr_errc
errc_of(const char *sqlstate)
{
	for (size_t i = 0; i < JR_COUNT(meanings); i++) {
		if (strncmp(sqlstate, meanings[i].prefix, strlen(meanings[i].prefix)) == 0)
			return meanings[i].code;
	}
	return JR_E_BUG;
}

static void
set_sqlstate(struct jr_err *err, const char *state, size_t len)
{
	if (len != sizeof(err->sqlstate) - 1)
		return;
	memcpy(err->sqlstate, state, len);
	err->sqlstate[len] = '\0';
	err->code = errc_of(err->sqlstate);
}

/* Does a part of a CONTEXT begin here that does not come from the JSON parser? */
static bool
is_other_context(const char *line)
{
	static const char *const beginnings[] = {"unnamed portal ", "portal ", "extended query ", "PL/",
	    "SQL function ", "SQL statement ", "SQL expression ", "COPY "};

	for (size_t i = 0; i < JR_COUNT(beginnings); i++) {
		if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	}
	return false;
}

/* The end of "JSON data, line 1", with the number of the line in front of it; NULL if the context is another. */
static const char *
find_json_colon(const char *context, size_t *digits)
{
	size_t label = strcspn(context, ":\"\n");
	const char *json = strstr(context, "JSON");

	*digits = strcspn(context, "0123456789");
	return context[label] == ':' && *digits < label && json != NULL && json < context + *digits ? context + label
												    : NULL;
}

bool
jr_pg_json_context(const char *context, long *line, const char **quoted, int *quoted_len)
{
	bool is_english = strncmp(context, "JSON data, line ", 16) == 0;
	size_t digits, len;
	const char *colon = find_json_colon(context, &digits);

	if (colon == NULL)
		return false;
	*line = strtol(context + digits, NULL, 10);
	*quoted = colon[1] == ' ' ? colon + 2 : colon + 1;
	len = strcspn(*quoted, "\n");
	while (is_english && len < JSON_CONTEXT_MAX && (*quoted)[len] == '\n' && !is_other_context(*quoted + len + 1))
		len += 1 + strcspn(*quoted + len + 1, "\n");
	*quoted_len = (int)len;
	return true;
}

static bool
field_begins(const PGresult *result, int field, const char *begin)
{
	const char *text = PQresultErrorField(result, field);

	return text != NULL && strncmp(text, begin, strlen(begin)) == 0;
}

/* The place is told in English whatever the server speaks: cmd/payload.c reads it. */
static void
add_context(const PGresult *result, struct jr_err *err)
{
	const char *context = PQresultErrorField(result, PG_DIAG_CONTEXT), *quoted;
	struct jr_err old = *err;
	long line;
	int len;

	if (context == NULL || !field_begins(result, PG_DIAG_SOURCE_FILE, "json"))
		return;
	if (jr_pg_json_context(context, &line, &quoted, &len))
		jr_fail(err, old.code, "%s: JSON data, line %ld: %.*s", old.msg, line, len, quoted);
}

static bool
is_missing_schema(const char *sqlstate)
{
	static const char *const states[] = {"3F000", "42P01", "42883", "42703"};

	for (size_t i = 0; i < JR_COUNT(states); i++) {
		if (strcmp(sqlstate, states[i]) == 0)
			return true;
	}
	return false;
}

/* "Failing row contains (1, {...})", "Key (idempotency_key)=(...) already exists." */
static bool
quotes_values(const char *sqlstate)
{
	return sqlstate != NULL && (strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0);
}

static void
read_error(const PGresult *result, bool with_values, struct jr_err *err)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (primary == NULL)
		primary = with_values ? PQresultErrorMessage(result) : "the server gave no reason";
	if (!with_values && quotes_values(state))
		detail = NULL;
	jr_fail(err, JR_E_TEMP, "%s%s%s%s%s", primary, detail == NULL ? "" : ": ", detail == NULL ? "" : detail,
	    hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
	if (with_values)
		add_context(result, err);
	if (state != NULL)
		set_sqlstate(err, state, strlen(state));
}

void
jr_pg_statement_error(const PGresult *result, struct jr_err *err)
{
	read_error(result, true, err);
}

/* Say what to do, as a function of jobrun says it in a hint. */
static void
add_hint(struct jr_err *err, const char *hint)
{
	struct jr_err old = *err;

	jr_fail(err, old.code, "%.700s; %s", old.msg, hint);
	set_sqlstate(err, old.sqlstate, strlen(old.sqlstate));
}

/* What jobrun did not raise itself may come from a trigger that people have made: say which function has raised it. */
static void
add_origin(const PGresult *result, struct jr_err *err)
{
	const char *context = PQresultErrorField(result, PG_DIAG_CONTEXT);
	const char *function = context == NULL ? NULL : strstr(context, "PL/pgSQL");
	struct jr_err old = *err;

	if (function == NULL || function > context + strcspn(context, "\n"))
		return;
	jr_fail(err, old.code, "%.700s (%s, %.*s)", old.msg, old.sqlstate, (int)strcspn(context, "\n"), context);
	set_sqlstate(err, old.sqlstate, strlen(old.sqlstate));
}

/*
 * Put English words in front of a missing right, by which jr_pg_advise knows it. In other languages a missing ownership
 * looks the same.
 */
static void
name_missing_right(const PGresult *result, struct jr_err *err)
{
	struct jr_err old = *err;

	if (strcmp(err->sqlstate, "42501") != 0 || !field_begins(result, PG_DIAG_SOURCE_FUNCTION, "aclcheck_error") ||
	    field_begins(result, PG_DIAG_MESSAGE_PRIMARY, "permission denied ") ||
	    field_begins(result, PG_DIAG_MESSAGE_PRIMARY, "must be "))
		return;
	jr_fail(err, old.code, "permission denied: %s", old.msg);
	set_sqlstate(err, old.sqlstate, strlen(old.sqlstate));
}

/*
 * A missing schema, and a server that takes no writes, get a message that says what to do; what no class of SQLSTATE
 * explains says where it comes from.
 */
static void
read_own_error(const PGresult *result, bool with_values, struct jr_err *err)
{
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	read_error(result, with_values, err);
	name_missing_right(result, err);
	if (strcmp(err->sqlstate, "25006") == 0)
		add_hint(err, READ_ONLY);
	if (is_missing_schema(err->sqlstate))
		jr_fail(err, JR_E_CONFIG,
		    "the schema jobrun is missing or incomplete in this database (%s): type 'jobrun migrate'",
		    primary == NULL ? err->sqlstate : primary);
	if (err->code == JR_E_BUG && strncmp(err->sqlstate, "JR", 2) != 0)
		add_origin(result, err);
}

void
jr_pg_result_error(const PGresult *result, struct jr_err *err)
{
	read_own_error(result, true, err);
}

void
jr_pg_logged_error(const PGresult *result, struct jr_err *err)
{
	read_own_error(result, false, err);
}

/* "permission denied for table job_runs", without a hint of jobrun's own functions. */
static bool
is_missing_grant(const struct jr_err *err)
{
	return strcmp(err->sqlstate, "42501") == 0 && strstr(err->msg, "; ") == NULL &&
	       (strncmp(err->msg, "permission denied for ", 22) == 0 ||
		   strncmp(err->msg, "permission denied: ", 19) == 0);
}

void
jr_pg_advise(struct jr_err *err, const char *kind, const PGconn *conn)
{
	const char *role = PQuser(conn);
	char hint[200];

	if (strcmp(err->sqlstate, "55P03") == 0 && strstr(err->msg, "; ") == NULL)
		add_hint(err, LOCKED);
	if (kind == NULL || role == NULL || !is_missing_grant(err))
		return;
	(void)snprintf(hint, sizeof(hint), "the owner of the schema or an admin types: jobrun grant %s %s", kind, role);
	add_hint(err, hint);
}

bool
jr_pg_fail(struct jr_err *err, const char *sqlstate, const char *text)
{
	jr_fail(err, JR_E_TEMP, "%s", text);
	set_sqlstate(err, sqlstate, strlen(sqlstate));
	return false;
}

static bool
is_sqlstate(const char *s)
{
	for (size_t i = 0; i < 5; i++) {
		if (!isdigit((unsigned char)s[i]) && !isupper((unsigned char)s[i]))
			return false;
	}
	return s[5] == ':';
}

/* "...: FATAL:  28P01: password ...\nLOCATION: ..." -> a pointer to "28P01"; NULL if there is none. */
static const char *
find_sqlstate(const char *text)
{
	for (const char *p = strstr(text, ":  "); p != NULL; p = strstr(p + 1, ":  ")) {
		if (strlen(p) > 8 && is_sqlstate(p + 3))
			return p + 3;
	}
	return NULL;
}

static enum jr_errc
errc_of_pooler(const char *text)
{
	for (size_t i = 0; i < JR_COUNT(of_poolers); i++) {
		if (strncmp(text, of_poolers[i].begin, strlen(of_poolers[i].begin)) == 0 &&
		    strstr(text, of_poolers[i].end) != NULL)
			return of_poolers[i].code;
	}
	return JR_E_TEMP;
}

/* Mask in libpq's message in *err whatever must not be shown. */
static void
mask(PGconn *conn, struct jr_err *err)
{
	char *reason = jr_pg_reason_of_connection(err->msg, conn);

	jr_fail(err, err->code, "%s", reason);
	free(reason);
}

static bool
has_parameter(PGconn *conn, const char *name, const char *value)
{
	const char *now = PQparameterStatus(conn, name);

	return now != NULL && strcmp(now, value) == 0;
}

/* Then the message names each of them, and any may have been the one that was refused. */
static bool
has_several_hosts(PGconn *conn)
{
	PQconninfoOption *options = PQconninfo(conn);
	bool several = false;

	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "hostaddr") == 0)
			several = several || (o->val != NULL && strchr(o->val, ',') != NULL);
	}
	PQconninfoFree(options);
	return several;
}

/* Servers before PostgreSQL 14 do not say which of the two it is. */
static const char *
why_read_only(PGconn *conn)
{
	if (has_several_hosts(conn))
		return "none of these hosts takes writes now: one of them has to be the primary";
	if (has_parameter(conn, "in_hot_standby", "on"))
		return "the server is a standby: name the primary in the connection string, or all hosts";
	if (has_parameter(conn, "default_transaction_read_only", "on"))
		return "default_transaction_read_only is on for this role, database or server: set it to off";
	return READ_ONLY;
}

/* A server that target_session_attrs=read-write refuses. */
static void
add_read_only(PGconn *conn, struct jr_err *err)
{
	struct jr_err old = *err;

	jr_fail(err, old.code, "%.700s; %s; to only read, set PGTARGETSESSIONATTRS=any", old.msg, why_read_only(conn));
}

/* What libpq says of options that no later attempt makes right. */
static bool
is_wrong_option(const char *text)
{
	static const char *const begins[] = {
	    "invalid ",                     /* port, sslmode, ... */
	    "service file ",                /* not found */
	    "syntax error in service file", /* and where */
	    "nested service ",              /* in a service file */
	    "definition of service ",       /* not found */
	    "could not match ",             /* the numbers of hosts, addresses and ports differ */
	};

	for (size_t i = 0; i < JR_COUNT(begins); i++) {
		if (strncmp(text, begins[i], strlen(begins[i])) == 0)
			return true;
	}
	return false;
}

void
jr_pg_conn_error(PGconn *conn, const char *what, struct jr_err *err)
{
	const char *text = conn == NULL ? "out of memory" : PQerrorMessage(conn);
	const char *state = find_sqlstate(text);
	const char *location = strstr(text, "\nLOCATION:");
	size_t len = location == NULL ? strlen(text) : (size_t)(location - text);

	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	if (len > 800)
		len = 800;
	if (state != NULL && state + 7 <= text + len)
		jr_fail(
		    err, JR_E_TEMP, "%.*s%.*s", (int)(state - text), text, (int)(text + len - (state + 7)), state + 7);
	else
		jr_fail(err, JR_E_TEMP, "%.*s", (int)len, text);
	mask(conn, err);
	if (state == NULL && strstr(text, ": session is read-only") != NULL)
		add_read_only(conn, err);
	if (state != NULL)
		set_sqlstate(err, state, 5);
	if (state != NULL && strcmp(err->sqlstate, "08P01") == 0)
		err->code = errc_of_pooler(state + 7);
	else if (state == NULL && conn != NULL && PQconnectionNeedsPassword(conn))
		err->code = JR_E_PERM;
	else if (state == NULL && is_wrong_option(text))
		err->code = JR_E_CONFIG;
	if (what != NULL)
		jr_fail_in(err, what);
}

static void
tell_no_answer(PGconn *conn, const char *yet, struct jr_err *err)
{
	const char *host = conn == NULL ? NULL : PQhost(conn);

	if (host == NULL || *host == '\0')
		jr_fail(err, JR_E_TEMP, "no answer from the database%s", yet);
	else if (*host == '/' || *host == '@')
		jr_fail(
		    err, JR_E_TEMP, "no answer from server on socket \"%s/.s.PGSQL.%s\"%s", host, PQport(conn), yet);
	else
		jr_fail(err, JR_E_TEMP, "no answer from server at \"%s\", port %s%s", host, PQport(conn), yet);
	mask(conn, err);
}

void
jr_pg_no_answer(PGconn *conn, struct jr_err *err)
{
	tell_no_answer(conn, " yet", err);
}

void
jr_pg_silent(PGconn *conn, struct jr_err *err)
{
	tell_no_answer(conn, "", err);
}

bool
jr_pg_is_temporary(const struct jr_err *err)
{
	return err->code == JR_E_TEMP;
}

bool
jr_pg_is_nonsense(const struct jr_err *err)
{
	return err->code == JR_E_BUG && err->sqlstate[0] == '\0';
}

const char *
jr_pg_text(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

int64_t
jr_pg_int(const PGresult *result, int row, int column, int64_t missing)
{
	const char *text = jr_pg_text(result, row, column);

	return text == NULL ? missing : strtoll(text, NULL, 10);
}

bool
jr_pg_bool(const PGresult *result, int row, int column)
{
	const char *text = jr_pg_text(result, row, column);

	return text != NULL && text[0] == 't';
}
