/*
 * pg_reason: see pg_reason.h.
 *
 * Messages of libpq are not translated here (only LC_CTYPE is set), so they quote with double quotes. What must hold:
 * quoted text that is not known to be harmless is masked, even if it contains quotes itself or its end was cut off.
 */
#include "pg/pg_reason.h"

#include "base/buf.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REASON_MAX 4096
#define NAMES_MAX 64
#define MASK "***"
#define HINT " (is the connection string right? In a URI, @ : / and % of a password are written %40 %3A %2F %25)"
#define DIGITS "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define NAME_CHARACTERS DIGITS LETTERS "._-"
#define STRANGE "@:/?#%=\\\"' \t\r\n" /* a name with one of these is probably a piece of a URI */

/* The names in the options of the connection. */
struct names {
	char *items[NAMES_MAX];
	size_t count;
	bool strange; /* one of them looks like a piece of something else */
	bool quotes;  /* an option contains a double quote, so quoted text may contain quotes */
};

static bool
is_address(const char *text)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static bool
is_number(const char *text)
{
	return text[strspn(text, DIGITS)] == '\0';
}

/* A host may be the directory of a socket, or an abstract socket (@name). */
static bool
is_strange_host(const char *host)
{
	if (is_address(host))
		return false;
	if (host[0] == '/')
		return host[strspn(host, NAME_CHARACTERS "/+~")] != '\0';
	return strpbrk(host[0] == '@' ? host + 1 : host, STRANGE) != NULL;
}

static bool
is_strange(const char *keyword, const char *value)
{
	if (strcmp(keyword, "port") == 0)
		return !is_number(value);
	if (strcmp(keyword, "hostaddr") == 0)
		return !is_address(value);
	if (strcmp(keyword, "host") == 0)
		return is_strange_host(value);
	if (strcmp(keyword, "user") == 0) /* a domain may be part of it */
		return strpbrk(value, ":\" \t\r\n") != NULL;
	return strpbrk(value, STRANGE) != NULL;
}

static void
add_name(struct names *names, const char *keyword, const char *value, size_t len)
{
	char *name;

	if (len == 0 || names->count == NAMES_MAX)
		return;
	name = jr_xmemdup0(value, len);
	names->items[names->count++] = name;
	names->strange = names->strange || is_strange(keyword, name);
}

/* Hosts and ports are lists. */
static void
add_names(struct names *names, const char *keyword, const char *value)
{
	const char *ends = strcmp(keyword, "dbname") == 0 || strcmp(keyword, "user") == 0 ? "" : ",";

	while (value != NULL && *value != '\0') {
		size_t len = strcspn(value, ends);

		add_name(names, keyword, value, len);
		value += len + (value[len] != '\0');
	}
}

static void
read_names(struct names *names, PGconn *conn)
{
	static const char *const shown[] = {"host", "hostaddr", "port", "dbname", "user", "service"};
	PQconninfoOption *options = conn == NULL ? NULL : PQconninfo(conn);

	*names = (struct names){.count = 0};
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		if (o->val != NULL && strchr(o->val, '"') != NULL && strcmp(o->keyword, "password") != 0)
			names->quotes = true;
		for (size_t i = 0; i < JR_COUNT(shown); i++) {
			if (strcmp(o->keyword, shown[i]) == 0)
				add_names(names, o->keyword, o->val);
		}
	}
	PQconninfoFree(options);
	if (names->count == 0) /* libpq failed before it had read the options */
		names->quotes = true;
}

static void
free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
}

static bool
ends_with(const char *from, const char *to, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(to - from) >= len && strncmp(to - len, word, len) == 0;
}

static bool
is_option(const char *word)
{
	PQconninfoOption *options = PQconndefaults();
	bool found = false;

	for (const PQconninfoOption *o = options; !found && o != NULL && o->keyword != NULL; o++)
		found = strcmp(o->keyword, word) == 0;
	PQconninfoFree(options);
	return found;
}

/* May `quoted` be shown, which follows text[0..at)? */
static bool
is_harmless(const struct names *names, const char *text, const char *at, const char *quoted)
{
	if (ends_with(text, at, "for connection option "))
		return is_option(quoted);
	if (names->strange)
		return false;
	if (is_address(quoted))
		return true;
	if (ends_with(text, at, "socket ") || ends_with(text, at, "file "))
		return quoted[0] == '/' || quoted[0] == '@';
	if (quoted[strspn(quoted, NAME_CHARACTERS)] != '\0')
		return false;
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->items[i], quoted) == 0)
			return true;
	}
	return false;
}

/* Append the text from the quote at `from`, masked up to the last quote. */
static void
mask_to_last(struct jr_buf *out, const char *from)
{
	const char *last = strrchr(from, '"');

	(void)jr_buf_adds(out, "\"" MASK "\"");
	if (last != from)
		(void)jr_buf_adds(out, last + 1);
}

/* Mask each quoted piece that is not harmless. */
static char *
mask_quoted(const char *text, const struct names *names)
{
	const char *from = text, *open;
	struct jr_buf out;

	jr_buf_init(&out, REASON_MAX);
	while ((open = strchr(from, '"')) != NULL) {
		size_t len = strcspn(open + 1, "\"");
		char *quoted = jr_xmemdup0(open + 1, len);
		bool shown = open[1 + len] == '"' && is_harmless(names, text, open, quoted);

		(void)jr_buf_add(&out, from, (size_t)(open - from));
		(void)jr_buf_addf(&out, "\"%s\"", shown ? quoted : MASK);
		free(quoted);
		from = open + 1 + len + (open[1 + len] == '"');
	}
	(void)jr_buf_adds(&out, from);
	return jr_buf_detach(&out);
}

/* Takes `text`. Every `word` in it is masked. */
static char *
mask_word(char *text, const char *word)
{
	const char *from = text, *at;
	struct jr_buf out;

	jr_buf_init(&out, REASON_MAX);
	while ((at = strstr(from, word)) != NULL) {
		(void)jr_buf_add(&out, from, (size_t)(at - from));
		(void)jr_buf_adds(&out, MASK);
		from = at + strlen(word);
	}
	(void)jr_buf_adds(&out, from);
	free(text);
	return jr_buf_detach(&out);
}

/* Takes `text`. What follows `before` (in letters of any case) is masked up to one of `ends`, or the line's end. */
static char *
mask_behind(char *text, const char *before, const char *ends)
{
	const char *from = text, *at;
	struct jr_buf out;

	jr_buf_init(&out, REASON_MAX);
	while ((at = strcasestr(from, before)) != NULL) {
		size_t len;

		at += strlen(before);
		len = strcspn(at, ends);
		(void)jr_buf_add(&out, from, (size_t)(at - from));
		(void)jr_buf_adds(&out, len > 0 ? MASK : "");
		from = at + len;
	}
	(void)jr_buf_adds(&out, from);
	free(text);
	return jr_buf_detach(&out);
}

/* Mask passwords that are written as an option or as a field. Takes `text`. */
static char *
mask_passwords(char *text)
{
	text = mask_behind(text, "password=", "\n");
	return mask_behind(text, "password:", "\n");
}

/* Mask ports, addresses and names that libpq and poolers show without quotes. Takes `text`. */
static char *
mask_strange(char *text, const struct names *names)
{
	for (size_t i = 0; i < names->count; i++) {
		if (strpbrk(names->items[i], STRANGE) != NULL)
			text = mask_word(text, names->items[i]);
	}
	text = mask_behind(text, ", port ", " ,:\n");
	text = mask_behind(text, "\" (", ")\n");
	text = mask_behind(text, "no such database: ", "\n");
	return mask_behind(text, "no such user: ", "\n");
}

/* Takes `text`. */
static char *
with_hint(char *text)
{
	char *longer = jr_xasprintf("%s%s", text, HINT);

	free(text);
	return longer;
}

/* The first quote that does not belong to libpq's own words (missing "=" and the like). */
static const char *
first_foreign(const char *text)
{
	static const char *const before[] = {"missing ", "separator ", "matching "};
	const char *quote = strchr(text, '"');

	for (size_t i = 0; quote != NULL && i < JR_COUNT(before); i++) {
		if (ends_with(text, quote, before[i]) && (quote[1] == '=' || quote[1] == ']') && quote[2] == '"')
			return strchr(quote + 3, '"');
	}
	return quote;
}

char *
jr_pg_reason_of_string(const char *text, const char *conninfo)
{
	const char *foreign = first_foreign(text);
	struct jr_buf out;
	char *reason;

	jr_buf_init(&out, REASON_MAX);
	if (foreign == NULL) {
		(void)jr_buf_adds(&out, text);
	} else {
		(void)jr_buf_add(&out, text, (size_t)(foreign - text));
		mask_to_last(&out, foreign);
	}
	reason = mask_passwords(jr_buf_detach(&out));
	reason[strcspn(reason, "\n")] = '\0';
	return strstr(conninfo, "://") != NULL ? with_hint(reason) : reason;
}

char *
jr_pg_reason_of_connection(const char *text, PGconn *conn)
{
	struct names names;
	struct jr_buf out;
	const char *quote;
	char *reason;

	read_names(&names, conn);
	quote = names.quotes ? strchr(text, '"') : NULL;
	if (quote != NULL) {
		jr_buf_init(&out, REASON_MAX);
		(void)jr_buf_add(&out, text, (size_t)(quote - text));
		mask_to_last(&out, quote);
		reason = jr_buf_detach(&out);
	} else {
		reason = mask_quoted(text, &names);
	}
	reason = mask_passwords(reason);
	if (names.strange)
		reason = mask_strange(reason, &names);
	if (names.strange && PQparameterStatus(conn, "server_version") == NULL) /* it was never established */
		reason = with_hint(reason);
	free_names(&names);
	return reason;
}
