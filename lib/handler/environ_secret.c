/*
 * environ_secret: is there a password of PostgreSQL in a text?
 *
 * What libpq can read as a connection string it judges. Anything else is searched for what looks like one: URLs in the
 * middle of a command or of JSON, the spellings of JDBC, SQLAlchemy, PDO, .NET and ODBC. In doubt it is one: who needs
 * the variable all the same can say so in the settings of the handler.
 */
#include "handler/environ.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <string.h>
#include <strings.h>

#define URL_END " \t\r\n\"'`<>"

/* Does libpq understand it? Then *found is whether it has a password. */
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
 * scheme://user:password@host, or the word: enough for strings that are not PostgreSQL's (a
 * framework's DATABASE_URL).
 */
static bool
looks_like_password(const char *text)
{
	const char *authority = strstr(text, "://");
	const char *at;

	if (strcasestr(text, "password") != NULL)
		return true;
	if (authority == NULL)
		return false;
	authority += 3;
	/* The last @: a password may contain / and @ that somebody forgot to escape. */
	at = strrchr(authority, '@');
	return at != NULL && memchr(authority, ':', (size_t)(at - authority)) != NULL;
}

bool
jr_environ_has_password(const char *conninfo)
{
	bool found;

	return parse(conninfo, &found) ? found : looks_like_password(conninfo);
}

/* May it stand in front of a keyword? "--password=x" is an option of some program. */
static bool
is_boundary(const char *text, const char *at)
{
	return at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '-');
}

/* The value behind "KEYWORD =", of which only case and blanks may differ; NULL: there is none, or it is empty. */
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

/* A password alone is anybody's; beside a host, a user or a database it is a conninfo's. */
static bool
has_conninfo(const char *text)
{
	static const char *const passwords[] = {"password", "sslpassword", "pwd"};
	static const char *const others[] = {"host", "hostaddr", "dbname", "user", "username", "user id", "uid",
	    "service", "server", "database", "port"};
	bool found = false, is_conninfo = false;

	for (size_t i = 0; i < JR_COUNT(passwords); i++)
		found = found || find_keyword(text, passwords[i]) != NULL;
	for (size_t i = 0; found && i < JR_COUNT(others); i++)
		is_conninfo = is_conninfo || find_keyword(text, others[i]) != NULL;
	return is_conninfo;
}

/* Is what ends in front of "://" a name of PostgreSQL, such as jdbc:postgresql, postgresql+psycopg, postgis, pgsql? */
static bool
is_of_postgres(const char *text, const char *end)
{
	static const char *const names[] = {"postgres", "postgis", "pgsql"};
	const char *begin = end;

	while (begin > text && (isalnum((unsigned char)begin[-1]) || strchr("+-.:", begin[-1]) != NULL))
		begin--;
	for (; begin < end; begin++) {
		for (size_t i = 0; i < JR_COUNT(names); i++) {
			if (strncasecmp(begin, names[i], strlen(names[i])) == 0)
				return true;
		}
	}
	return false;
}

/* Has the URL whose part behind "://" this is a user:password@, or a password among its parameters? */
static bool
has_url_password(const char *rest)
{
	size_t len = strcspn(rest, URL_END);
	const char *at = memrchr(rest, '@', len);
	const char *colon = at != NULL ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
	const char *parameter = find_keyword(rest, "password");

	return (colon != NULL && colon + 1 < at) || (parameter != NULL && parameter < rest + len);
}

bool
jr_environ_reveals(const char *text)
{
	const char *url = strstr(text, "://");
	bool found;

	if (url == NULL && strcasestr(text, "password") == NULL && strcasestr(text, "pwd") == NULL)
		return false;
	if (parse(text, &found))
		return found;
	for (; url != NULL; url = strstr(url + 1, "://")) {
		if (is_of_postgres(text, url) && has_url_password(url + 3))
			return true;
	}
	return has_conninfo(text);
}
