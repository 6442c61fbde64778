/*
 * doctor: see doctor.h. What must hold: a statement that fails is a finding, never the end of the command.
 */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crontab.h"
#include "base/mem.h"
#include "base/parse.h"
#include "handler/document.h"
#include "print.h"

#define TEXT_MAX 65536

static const struct {
	const char *word, *shown;
} healths[] = {
    [JR_HEALTH_OK] = {"ok", "ok"},
    [JR_HEALTH_WARN] = {"warn", "warn"},
    [JR_HEALTH_FAIL] = {"fail", "FAIL"},
    [JR_HEALTH_UNCHECKED] = {"unchecked", "?"},
};

/* --- findings --- */

void
jr_doctor_add(
    struct jr_doctor *doctor, enum jr_health health, const char *text, const char *consequence, const char *command)
{
	doctor->findings = jr_xrealloc(doctor->findings, doctor->count + 1, sizeof(*doctor->findings));
	doctor->findings[doctor->count++] = (struct jr_finding){
	    .check = doctor->check,
	    .health = health,
	    .text = jr_xstrdup(text),
	    .consequence = jr_xstrdup_or_null(consequence),
	    .command = jr_xstrdup_or_null(command),
	};
}

void
jr_doctor_release_findings(struct jr_doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++) {
		free(doctor->findings[i].text);
		free(doctor->findings[i].consequence);
		free(doctor->findings[i].command);
	}
	free(doctor->findings);
	doctor->findings = NULL;
	doctor->count = 0;
}

static size_t
count_of(const struct jr_doctor *doctor, enum jr_health health)
{
	size_t count = 0;

	for (size_t i = 0; i < doctor->count; i++)
		count += doctor->findings[i].health == health;
	return count;
}

bool
jr_doctor_found(const struct jr_doctor *doctor, enum jr_health health)
{
	return count_of(doctor, health) > 0;
}

bool
jr_doctor_runs_jobs(const struct jr_doctor *doctor)
{
	struct jr_err unused;

	return doctor->handlers_err.msg[0] == '\0' && jr_handlers_check(&doctor->handlers, &unused);
}

/* --- statements --- */

static char *
quoted(const char *word)
{
	return jr_crontab_word(word == NULL ? "" : word);
}

/* Is this a statement that the role of the connection may not type? (One with CREATEROLE may, but need not.) */
static bool
is_for_superuser(const struct jr_doctor *doctor, const char *sql)
{
	const char *superuser = PQparameterStatus(jr_db_conn(doctor->db), "is_superuser");

	return (strncmp(sql, "grant pg_", 9) == 0 || strncmp(sql, "create role ", 12) == 0 ||
		   strstr(sql, "alter role all reset ") != NULL) &&
	       (superuser == NULL || strcmp(superuser, "on") != 0);
}

/*
 * With -d it names host, port, role and database: a connection string may contain a password. For a superuser it names
 * no role: who that is, people know.
 */
static char *
psql_of(const struct jr_doctor *doctor, bool for_superuser)
{
	const PGconn *conn = jr_db_conn(doctor->db);
	char *host, *user, *name, *text;

	if (!for_superuser && strcmp(doctor->source, "-d") != 0)
		return doctor->conninfo == NULL ? jr_xstrdup("psql") : jr_xasprintf("psql \"$%s\"", doctor->source);
	host = quoted(PQhost(conn));
	user = quoted(PQuser(conn));
	name = quoted(PQdb(conn));
	text = jr_xasprintf("psql -h %s -p %s%s%s -d %s", host, PQport(conn), for_superuser ? "" : " -U ",
	    for_superuser ? "" : user, name);
	free(host);
	free(user);
	free(name);
	return text;
}

/* ` name=value`, as a connection string has it: with quotes where it needs them. */
static void
add_parameter(struct jr_buf *out, const char *name, const char *value)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,@%+-";
	bool is_plain = value[0] != '\0' && value[strspn(value, plain)] == '\0';

	jr_buf_addf(out, "%s%s=%s", out->len == 0 ? "" : " ", name, is_plain ? value : "'");
	if (is_plain)
		return;
	for (const char *c = value; *c != '\0'; c++)
		jr_buf_addf(out, "%s%c", *c == '\'' || *c == '\\' ? "\\" : "", *c);
	jr_buf_adds(out, "'");
}

/* The connection string without what is secret in it, and without a role if `role` replaces it. false: it is none. */
static bool
add_open_parameters(struct jr_buf *out, const char *conninfo, const char *role)
{
	PQconninfoOption *options = conninfo == NULL ? NULL : PQconninfoParse(conninfo, NULL);

	if (role != NULL)
		add_parameter(out, "user", role);
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (o->val != NULL && strchr(o->dispchar, '*') == NULL &&
		    (role == NULL || strcmp(o->keyword, "user") != 0))
			add_parameter(out, o->keyword, o->val);
	}
	PQconninfoFree(options);
	return options != NULL;
}

/* The role that must type this command: NULL if that of the connection can. */
static const char *
role_for(const struct jr_doctor *doctor, const char *command)
{
	static const char *const of_admins[] = {"grant ", "define ", "resume "};

	if (strncmp(command, "migrate", strlen("migrate")) == 0)
		return doctor->owner;
	for (size_t i = 0; i < JR_COUNT(of_admins); i++) {
		if (strncmp(command, of_admins[i], strlen(of_admins[i])) == 0)
			return doctor->is_admin ? NULL : doctor->owner;
	}
	return NULL;
}

char *
jr_doctor_jobrun(const struct jr_doctor *doctor, const char *command)
{
	const char *role = role_for(doctor, command);
	struct jr_buf conninfo;
	char *word, *line;

	if (role == NULL && strcmp(doctor->source, "-d") != 0)
		return jr_xasprintf("jobrun %s", command);
	jr_buf_init(&conninfo, TEXT_MAX);
	if (!add_open_parameters(&conninfo, doctor->conninfo, role) && doctor->conninfo != NULL) {
		if (role == NULL)
			jr_buf_adds(&conninfo, doctor->conninfo);
		else
			add_parameter(&conninfo, "dbname", doctor->conninfo);
	}
	word = jr_crontab_quote(conninfo.data, conninfo.len);
	line = jr_xasprintf("jobrun -d %s %s", word, command);
	free(word);
	jr_buf_release(&conninfo);
	return line;
}

char *
jr_doctor_parameter(const char *conninfo, const char *keyword)
{
	PQconninfoOption *options = conninfo == NULL ? NULL : PQconninfoParse(conninfo, NULL);
	char *value = NULL;

	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (strcmp(o->keyword, keyword) == 0 && o->val != NULL && o->val[0] != '\0')
			value = jr_xstrdup(o->val);
	}
	PQconninfoFree(options);
	return value;
}

char *
jr_doctor_psql(const struct jr_doctor *doctor, const char *sql)
{
	char *psql = psql_of(doctor, is_for_superuser(doctor, sql)), *word = jr_crontab_quote(sql, strlen(sql));
	char *line = jr_xasprintf("%s -c %s", psql, word);

	free(psql);
	free(word);
	return line;
}

/* The text with the time in place of {age}, in whole seconds, or of {time}, exactly. Caller frees. */
static char *
text_with_time(const char *text, const char *time_ms)
{
	static const char age_mark[] = "{age}", exact_mark[] = "{time}";
	const char *age = strstr(text, age_mark), *at = age == NULL ? strstr(text, exact_mark) : age;
	char *words, *whole;
	int64_t ms;

	if (at == NULL || time_ms == NULL)
		return jr_xstrdup(text);
	ms = strtoll(time_ms, NULL, 10);
	words = jr_format_duration(age == NULL ? ms : ms / 1000 * 1000);
	whole =
	    jr_xasprintf("%.*s%s%s", (int)(at - text), text, words, at + strlen(age == NULL ? exact_mark : age_mark));
	free(words);
	return whole;
}

static enum jr_health
health_of(const char *word)
{
	for (size_t i = 0; i < JR_COUNT(healths); i++) {
		if (strcmp(healths[i].word, word) == 0)
			return (enum jr_health)i;
	}
	return JR_HEALTH_UNCHECKED;
}

/* A command of the statement's row: one of jobrun is for the database. Caller frees; NULL: none. */
static char *
command_of(const struct jr_doctor *doctor, const char *command)
{
	static const char jobrun[] = "jobrun ";

	if (command == NULL || strncmp(command, jobrun, strlen(jobrun)) != 0)
		return jr_xstrdup_or_null(command);
	return jr_doctor_jobrun(doctor, command + strlen(jobrun));
}

/* What to type: the SQL, then the command. Caller frees; NULL: nothing. */
static char *
line_to_type(const struct jr_doctor *doctor, const char *command, const char *sql)
{
	char *line = command_of(doctor, command), *psql, *both;

	if (sql == NULL)
		return line;
	psql = jr_doctor_psql(doctor, sql);
	if (line == NULL)
		return psql;
	both = jr_xasprintf("%s && %s", psql, line);
	free(psql);
	free(line);
	return both;
}

static void
add_row(struct jr_doctor *doctor, const PGresult *rows, int row)
{
	enum {
		STATE,
		TEXT,
		TIME,
		CONSEQUENCE,
		COMMAND,
		SQL
	};
	char *text = text_with_time(PQgetvalue(rows, row, TEXT), jr_pg_text(rows, row, TIME));
	char *line = line_to_type(doctor, jr_pg_text(rows, row, COMMAND), jr_pg_text(rows, row, SQL));

	jr_doctor_add(doctor, health_of(PQgetvalue(rows, row, STATE)), text, jr_pg_text(rows, row, CONSEQUENCE), line);
	free(text);
	free(line);
}

void
jr_doctor_ask(struct jr_doctor *doctor, const struct jr_check *check)
{
	char long_ms[24];
	const char *const values[] = {
	    [JR_VALUE_NONE] = NULL,
	    [JR_VALUE_LONG_MS] = jr_print_int(long_ms, doctor->long_ms),
	    [JR_VALUE_ZONE] = doctor->zone,
	    [JR_VALUE_HOST] = jr_doctor_runs_jobs(doctor) ? doctor->host : NULL,
	    [JR_VALUE_RUNS] = jr_doctor_runs_jobs(doctor) ? "t" : "f",
	};
	struct jr_err err;
	PGresult *rows = jr_db_query(
	    doctor->db, check->sql, check->value != JR_VALUE_NONE, &values[check->value], JR_DOCTOR_MS, &err);

	if (rows == NULL) {
		jr_doctor_add(doctor, JR_HEALTH_UNCHECKED, err.msg, NULL, NULL);
		return;
	}
	for (int row = 0; row < PQntuples(rows); row++)
		add_row(doctor, rows, row);
	if (PQntuples(rows) == 0 && check->well != NULL)
		jr_doctor_add(doctor, JR_HEALTH_OK, check->well, NULL, NULL);
	PQclear(rows);
}

/* --- output --- */

/* Findings after `first` that could not be looked at for the same reason follow it in one line. */
static size_t
same_reason(const struct jr_doctor *doctor, size_t first)
{
	size_t end = first + 1;

	if (doctor->findings[first].health != JR_HEALTH_UNCHECKED)
		return end;
	while (end < doctor->count && doctor->findings[end].health == JR_HEALTH_UNCHECKED &&
	       strcmp(doctor->findings[end].text, doctor->findings[first].text) == 0)
		end++;
	return end;
}

static void
print_findings(const struct jr_doctor *doctor, size_t first, size_t end, int width)
{
	const struct jr_finding *finding = &doctor->findings[first];
	size_t indent = (size_t)width + 8;
	struct jr_buf line;

	jr_buf_init(&line, TEXT_MAX);
	jr_buf_addf(&line, "%-4s  %-*s  ", healths[finding->health].shown, width, finding->check);
	if (finding->health == JR_HEALTH_UNCHECKED)
		jr_buf_adds(&line, "not checked: ");
	jr_buf_adds(&line, finding->text);
	if (finding->consequence != NULL)
		jr_buf_addf(&line, ": %s", finding->consequence);
	for (size_t i = first + 1; i < end; i++)
		jr_buf_addf(&line, "%s%s", i == first + 1 ? "; nor " : ", ", doctor->findings[i].check);
	jr_print_paragraph(line.data, indent);
	if (finding->command != NULL) {
		jr_buf_clear(&line);
		jr_buf_addf(&line, "%*stype: ", (int)indent, "");
		jr_print_line(stdout, line.data, finding->command);
	}
	jr_buf_release(&line);
}

static void
print_text(const struct jr_doctor *doctor)
{
	int width = 0;

	for (size_t i = 0; i < doctor->count; i++) {
		int len = (int)strlen(doctor->findings[i].check);

		width = len > width ? len : width;
	}
	for (size_t i = 0, end; i < doctor->count; i = end) {
		end = same_reason(doctor, i);
		print_findings(doctor, i, end, width);
	}
	printf("%zu FAIL, %zu warn, %zu not checked, %zu ok\n", count_of(doctor, JR_HEALTH_FAIL),
	    count_of(doctor, JR_HEALTH_WARN), count_of(doctor, JR_HEALTH_UNCHECKED), count_of(doctor, JR_HEALTH_OK));
}

static json_t *
value_of(const char *text)
{
	return text == NULL ? json_null() : jr_document_string(text, strlen(text));
}

static void
print_document(const struct jr_doctor *doctor)
{
	json_t *root = json_object(), *checks = json_array();

	for (size_t i = 0; i < doctor->count; i++) {
		const struct jr_finding *finding = &doctor->findings[i];
		json_t *object = json_object();

		jr_document_set_text(object, "check", finding->check);
		jr_document_set_text(object, "state", healths[finding->health].word);
		jr_document_set(object, "text", value_of(finding->text));
		jr_document_set(object, "consequence", value_of(finding->consequence));
		jr_document_set(object, "command", value_of(finding->command));
		jr_document_append(checks, object);
	}
	jr_document_set(root, "checks", checks);
	jr_print_value(root);
	json_decref(root);
}

void
jr_doctor_print(const struct jr_doctor *doctor, bool json)
{
	(json ? print_document : print_text)(doctor);
}
