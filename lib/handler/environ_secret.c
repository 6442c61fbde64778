/*
 * environ_secret: does a text contain a PostgreSQL password?
 *
 * If libpq can parse the text as a connection string, libpq's answer counts. Any other text is searched for connection
 * strings: URLs in the middle of a command or of JSON, and the spellings of JDBC, SQLAlchemy, PDO, .NET and ODBC. In
 * doubt the answer is yes; somebody who needs the variable can set it in the settings of the handler.
 */
#include "handler/environ.h"

#include "base/mem.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SCHEME_END "://"
#define URL_END " \t\r\n\"'`<>"

/* Can libpq parse it? If so, *found says whether it contains a password. */
static bool
parse(const char *conninfo, bool *found)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);

	*found = false;
	if (options == NULL)
		return false;
	for (PQconninfoOption *option = options; option->keyword != NULL; option++) {
		bool is_password =
		    strcmp(option->keyword, "password") == 0 || strcmp(option->keyword, "sslpassword") == 0;

		if (is_password && option->val != NULL && option->val[0] != '\0')
			*found = true;
	}
	PQconninfoFree(options);
	return true;
}

/*
 * Look for scheme://user:password@host or the word "password". That is enough for strings that libpq cannot parse, such
 * as the DATABASE_URL of a framework.
 */
static bool
looks_like_password(const char *text)
{
	const char *authority = strstr(text, SCHEME_END);
	const char *at;

	if (strcasestr(text, "password") != NULL)
		return true;
	if (authority == NULL)
		return false;
	authority += strlen(SCHEME_END);
	/* Take the last @: a password may contain an unescaped / or @. */
	at = strrchr(authority, '@');
	return at != NULL && memchr(authority, ':', (size_t)(at - authority)) != NULL;
}

bool
jr_environ_has_password(const char *conninfo)
{
	bool found;

	return parse(conninfo, &found) ? found : looks_like_password(conninfo);
}

/* May a keyword begin at `at`? Not behind a letter, a digit, _ or -: "--password=x" is an option of some program. */
static bool
is_boundary(const char *text, const char *at)
{
	return at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '-');
}

/* The value after "KEYWORD =" in any case and with any blanks; NULL: the keyword is missing or its value is empty. */
static const char *
find_keyword(const char *text, const char *keyword)
{
	for (const char *at = strcasestr(text, keyword); at != NULL; at = strcasestr(at + 1, keyword)) {
		const char *value = at + strlen(keyword);

		value += strspn(value, " \t");
		if (*value != '=' || !is_boundary(text, at))
			continue;
		value++;
		value += strspn(value, " \t\r\n");
		if (value[0] != '\0' && strchr(";&", value[0]) == NULL && strncmp(value, "''", 2) != 0)
			return value;
	}
	return NULL;
}

/* Is `at` inside a URL? has_url judges URLs; those of other services do not count. */
static bool
is_in_url(const char *text, const char *at)
{
	const char *begin = at, *url;

	while (begin > text && strchr(URL_END, begin[-1]) == NULL)
		begin--;
	url = strstr(begin, SCHEME_END);
	return url != NULL && url < at;
}

static bool
has_password_outside_of_urls(const char *text, const char *keyword)
{
	const char *value = find_keyword(text, keyword);

	while (value != NULL && is_in_url(text, value))
		value = find_keyword(value, keyword);
	return value != NULL;
}

/*
 * A password alone may belong to any service. Together with a host, a user or a database it is a conninfo. PGPASSWORD
 * is always libpq's.
 */
static bool
has_conninfo(const char *text)
{
	static const char *const passwords[] = {"password", "sslpassword", "pwd"};
	static const char *const others[] = {"host", "hostaddr", "dbname", "user", "username", "user id", "uid",
	    "service", "server", "database", "port"};
	bool found = false, is_conninfo = false;

	for (size_t i = 0; i < JR_COUNT(passwords); i++)
		found = found || has_password_outside_of_urls(text, passwords[i]);
	for (size_t i = 0; found && i < JR_COUNT(others); i++)
		is_conninfo = is_conninfo || find_keyword(text, others[i]) != NULL;
	return is_conninfo || find_keyword(text, "pgpassword") != NULL;
}

/*
 * `end` points at "://". Returns the beginning of that URL if its scheme contains a name of PostgreSQL, such as
 * jdbc:postgresql, postgresql+psycopg, postgis or pgsql; else NULL.
 */
static const char *
find_postgres(const char *text, const char *end)
{
	static const char *const names[] = {"postgres", "postgis", "pgsql", "psql", "pgx", "timescale"};
	const char *begin = end;

	while (begin > text && (isalnum((unsigned char)begin[-1]) || strchr("+-.:", begin[-1]) != NULL))
		begin--;
	for (const char *at = begin; at < end; at++) {
		for (size_t i = 0; i < JR_COUNT(names); i++) {
			if (strncasecmp(at, names[i], strlen(names[i])) == 0)
				return begin;
		}
	}
	return NULL;
}

/* The length of `rest`, the part of the URL after "://". A quoted URL ends at the closing quote. */
static size_t
url_length(const char *text, const char *begin, const char *rest)
{
	if (begin > text && strchr("\"'`<", begin[-1]) != NULL) {
		const char quote[] = {begin[-1] == '<' ? '>' : begin[-1], '\0'};

		return strcspn(rest, quote);
	}
	return begin > text ? strcspn(rest, URL_END) : strlen(rest);
}

/* Does the URL have a user:password@, or a password among its parameters? `rest` is the part after "://". */
static bool
has_url_password(const char *rest, size_t len)
{
	static const char *const parameters[] = {"password", "sslpassword"};
	const char *at = memrchr(rest, '@', len);
	const char *colon = at != NULL ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
	bool found = colon != NULL && colon + 1 < at;

	for (size_t i = 0; i < JR_COUNT(parameters); i++) {
		const char *parameter = find_keyword(rest, parameters[i]);

		found = found || (parameter != NULL && parameter < rest + len);
	}
	return found;
}

/*
 * Does the text contain a PostgreSQL URL with a password? skip_first: libpq has parsed the whole text, so it has judged
 * the URL at the beginning. It reads any later URL as a part of the first one, so those are checked here.
 */
static bool
has_url(const char *text, bool skip_first)
{
	for (const char *url = strstr(text, SCHEME_END); url != NULL; url = strstr(url + 1, SCHEME_END)) {
		const char *begin = find_postgres(text, url), *rest = url + strlen(SCHEME_END);

		if (begin == NULL || (skip_first && begin == text))
			continue;
		if (has_url_password(rest, url_length(text, begin, rest)))
			return true;
	}
	return false;
}

static bool
reveals(const char *text)
{
	bool found, is_read;

	if (strstr(text, SCHEME_END) == NULL && strcasestr(text, "password") == NULL && strcasestr(text, "pwd") == NULL)
		return false;
	is_read = parse(text, &found);
	return (is_read && found) || has_url(text, is_read) || (!is_read && has_conninfo(text));
}

/* Turn "\/" into "/": some programs write "postgres:\/\/" in JSON. Caller frees. */
static char *
without_escapes(const char *text)
{
	char *copy = jr_xstrdup(text), *out = copy;

	for (; *text != '\0'; text++) {
		if (text[0] != '\\' || text[1] != '/')
			*out++ = *text;
	}
	*out = '\0';
	return copy;
}

bool
jr_environ_reveals(const char *text)
{
	char *copy;
	bool found;

	if (strstr(text, ":\\/\\/") == NULL)
		return reveals(text);
	copy = without_escapes(text);
	found = reveals(copy);
	free(copy);
	return found;
}
