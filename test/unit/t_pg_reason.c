/*
 * pg_reason: no piece of a password in what libpq says of a mistyped connection string; and names that help are shown.
 */
#include "pg/pg_connect.h"
#include "pg/pg_error.h"
#include "pg/pg_reason.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Before the C library's: no name server is asked, and none is waited for. */
int /* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of glibc are reserved */
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
	unsigned char bytes[16];

	*found = NULL;
	if (node != NULL && inet_pton(AF_INET, node, bytes) != 1 && inet_pton(AF_INET6, node, bytes) != 1)
		return EAI_NONAME;
	memcpy(&real, &symbol, sizeof(real));
	return real(node, service, hints, found);
}

/* Nobody listens on port 1. What comes of it is said as the program says it. */
static struct jr_err
reason_of(const char *conninfo)
{
	struct jr_err err = {.code = JR_E_BUG};
	PGconn *conn = jr_pg_connect(conninfo, NULL, &err);
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	if (conn == NULL)
		return err;
	while (PQstatus(conn) != CONNECTION_BAD && next != PGRES_POLLING_FAILED) {
		struct pollfd fd = {.fd = PQsocket(conn), .events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT};

		assert_int_equal(poll(&fd, 1, 10000), 1);
		next = PQconnectPoll(conn);
		assert_int_not_equal(next, PGRES_POLLING_OK);
	}
	jr_pg_conn_error(conn, NULL, &err);
	PQfinish(conn);
	return err;
}

/* %s is the password. */
static const char *const mistyped[] = {
    "postgres://me:%s@127.0.0.1:1/db",
    "postgres://me:%s@127.0.0.1:1/db?sslmode=disable",
    "postgres://me:%s@127.0.0.1:1/db?nothing=%s",
    "postgres://me:%s@127.0.0.1:1/db?sslmode",
    "postgres://me:%s@[127.0.0.1:1/db",
    "postgres://me:%s@[]:1/db",
    "postgres://me:%s@[::1]x:1/db",
    "postgres://me:%s@127.0.0.1:1:2/db",
    "postgres://me:%s@127.0.0.1:x/db",
    "postgres://me@%s@127.0.0.1:1/db",
    "postgres://me;%s@127.0.0.1:1/db",
    "postgres://me %s@127.0.0.1:1/db",
    "postgres://me%%3A%s@127.0.0.1:1/db",
    "postgres://%s:%s@127.0.0.1:1:/db",
    "postgres//me:%s@127.0.0.1:1/db",
    "postgres:/me:%s@127.0.0.1:1/db",
    "postgres:me:%s@127.0.0.1:1/db",
    "postgres:\\\\me:%s@127.0.0.1:1/db",
    "ostgres://me:%s@127.0.0.1:1/db",
    "Postgres://me:%s@127.0.0.1:1/db?sslmode=disable",
    " postgres://me:%s@127.0.0.1:1/db",
    "me:%s@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 user=me password %s",
    "host=127.0.0.1 port=1 user=me password:%s dbname=db",
    "host=127.0.0.1 port=1 user=me pasword=%s",
    "host=127.0.0.1 port=1 user=me %s=password",
    "host=127.0.0.1 port=1 user=me password='%s",
    "host=127.0.0.1 port=1 user=me password=%s dbname=db",
    "host=127.0.0.1 port=1 user=me password=x %s dbname=db",
    "host=127.0.0.1 port=1 user=me:%s dbname=db",
    "host=127.0.0.1 port=1 user=me dbname=password=%s",
    "host=127.0.0.1 port=1 sslmode=%s",
    "host=127.0.0.1 port=1 sslrootcert=system sslmode=%s",
    "host=127.0.0.1 port=1 connect_timeout=%s",
    "host=127.0.0.1 port=1 keepalives=%s",
    "host=127.0.0.1 port=%s",
    "host=127.0.0.1 port=1,%s",
    "host=127.0.0.1 port=1 hostaddr=%s",
    "host=127.0.0.1 port=1 target_session_attrs=%s",
    "host=127.0.0.1 port=1 channel_binding=%s",
    "service=%s",
};

/* Each begins or ends with what is looked for, on both sides of what libpq could take for its own. */
static const char *const passwords[] = {"hunter2", "hun@ter2", "hun:ter2", "hun/ter2", "hun%ter2", "hun%41ter2",
    "hun#ter2", "hun?ter2", "hun&ter2", "hun=ter2", "hun ter2", "hun\"ter2", "hun\" \"ter2", "hun'ter2", "hun\\ter2",
    "hun,ter2", "hun;ter2", "hun[ter2", "hun]ter2", "[hunter2]", "/hunter2", "//hunter2", "hun@/ter2", "hun@@ter2",
    "hun:@ter2", "1/hunter2", "1/hun@ter2", "hun$ter2", "hun\tter2", "hun\nter2", "hun\xc3\xa9ter2", "\"hunter2\"",
    "\"=\"hunter2", "password=hunter2"};

/* `format` with each %s replaced, and %% by %. */
static char *
fill(const char *format, const char *password)
{
	char *out = jr_xmalloc(strlen(format) + 3 * strlen(password) + 1), *end = out;

	for (; *format != '\0'; format++) {
		if (format[0] == '%' && format[1] == 's') {
			end = stpcpy(end, password);
			format++;
			continue;
		}
		if (format[0] == '%' && format[1] == '%')
			format++;
		*end++ = *format;
	}
	*end = '\0';
	return out;
}

static void
no_piece_of_a_password_is_shown(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(mistyped); i++) {
		for (size_t k = 0; k < JR_COUNT(passwords); k++) {
			char *conninfo = fill(mistyped[i], passwords[k]);
			struct jr_err err = reason_of(conninfo);

			if (strstr(err.msg, "hun") != NULL || strstr(err.msg, "ter2") != NULL)
				fail_msg("%s: %s", conninfo, err.msg);
			assert_true(err.code == JR_E_CONFIG || err.code == JR_E_TEMP || err.code == JR_E_PERM);
			free(conninfo);
		}
	}
}

/* What a server or a pooler says, of a connection that was made with `conninfo`. */
static void
expect_reason(const char *conninfo, const char *text, const char *expected)
{
	struct jr_err err;
	PGconn *conn = jr_pg_connect(conninfo, NULL, &err);
	char *reason;

	assert_non_null(conn);
	reason = jr_pg_reason_of_connection(text, conn);
	if (strncmp(reason, expected, strlen(expected)) != 0)
		fail_msg("\"%s\" instead of \"%s\"", reason, expected);
	free(reason);
	PQfinish(conn);
}

#define PLAIN "host=127.0.0.1 port=1 user=ada dbname=shop-1"
#define STRANGE "host=127.0.0.1 port=1 user=ada dbname=me:hunter2@db/x"

static void
names_that_help_are_shown(void **state)
{
	static const char *const same[] = {
	    "connection to server at \"127.0.0.1\", port 1 failed: Connection refused",
	    "connection to server on socket \"/run/x/.s.PGSQL.5432\" failed: No such file or directory",
	    "FATAL:  password authentication failed for user \"ada\"",
	    "FATAL:  database \"shop-1\" does not exist",
	    "no pg_hba.conf entry for host \"192.0.2.7\", user \"ada\", database \"shop-1\", no encryption",
	    "root certificate file \"/home/ada/.postgresql/root.crt\" does not exist",
	    "fe_sendauth: no password supplied",
	    "no such database: shop-1",
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(same); i++)
		expect_reason(PLAIN, same[i], same[i]);
	expect_reason(PLAIN, "invalid integer value \"x\" for connection option \"keepalives\"",
	    "invalid integer value \"***\" for connection option \"keepalives\"");
}

static void
others_are_not(void **state)
{
	static const struct {
		const char *conninfo, *text, *expected;
	} cases[] = {
	    {PLAIN, "database \"other\" does not exist", "database \"***\" does not exist"},
	    {PLAIN, "it ends in \"shop-1", "it ends in \"***\""},
	    {PLAIN, "option Password=hunter2 refused", "option Password=***"},
	    {PLAIN, "file \"hunter2\"", "file \"***\""},
	    {STRANGE, "database \"me:hunter2@db/x\" does not exist", "database \"***\" does not exist (is "},
	    {STRANGE, "no such database: me:hunter2@db/x", "no such database: *** (is "},
	    {STRANGE, "me:hunter2@db/x is none", "*** is none (is "},
	    {STRANGE, "server at \"ada\" (192.0.2.1), port 12 failed", "server at \"***\" (***), port *** failed (is "},
	    {"host=127.0.0.1 port=1 user='a\"b' dbname=x", "user \"a\"b\" and \"x\".", "user \"***\". (is "},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++)
		expect_reason(cases[i].conninfo, cases[i].text, cases[i].expected);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_piece_of_a_password_is_shown),
	    cmocka_unit_test(names_that_help_are_shown),
	    cmocka_unit_test(others_are_not),
	};

	(void)setenv("HOME", "/nonexistent", 1); /* no service file and no ~/.pgpass */
	return cmocka_run_group_tests_name("pg_reason", tests, NULL, NULL);
}
