/*
 * pg_rows: the first rows in one result, the others dropped, limits. pg_meter: nothing lost, and the end is passed on.
 */
#include "pg/pg_rows.h"

#include "base/mem.h"
#include "pg/pg.h"
#include "pg/pg_meter.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static PGresult *
new_result(ExecStatusType status)
{
	char a[] = "a", b[] = "b";
	PGresAttDesc columns[2] = {{.name = a, .typid = 25, .typlen = -1, .atttypmod = -1},
	    {.name = b, .typid = 25, .typlen = -1, .atttypmod = -1}};
	PGresult *result = PQmakeEmptyPGresult(NULL, status);

	assert_true(PQsetResultAttrs(result, 2, columns));
	return result;
}

/* As libpq gives it in single-row mode; NULL is NULL. */
static PGresult *
row(const char *a, const char *b)
{
	PGresult *result = new_result(PGRES_SINGLE_TUPLE);
	char *first = jr_xstrdup(a), *second = jr_xstrdup_or_null(b);

	assert_true(PQsetvalue(result, 0, 0, first, (int)strlen(first)));
	assert_true(PQsetvalue(result, 0, 1, second, second == NULL ? -1 : (int)strlen(second)));
	free(first);
	free(second);
	return result;
}

static void
check_kept(size_t wanted, size_t sent, int kept)
{
	struct jr_pg_rows rows = {.wanted = wanted};
	PGresult *result;

	for (size_t i = 0; i < sent; i++) {
		char text[32];

		snprintf(text, sizeof(text), "row %zu", i);
		assert_true(jr_pg_rows_take(&rows, row(text, i % 2 == 0 ? NULL : "")));
	}
	result = jr_pg_rows_end(&rows, new_result(PGRES_TUPLES_OK));
	assert_int_equal(PQntuples(result), kept);
	assert_int_equal(PQnfields(result), 2);
	assert_int_equal(PQftype(result, 0), 25);
	for (int i = 0; i < kept; i++) {
		char text[24];

		snprintf(text, sizeof(text), "row %d", i);
		assert_string_equal(PQgetvalue(result, i, 0), text);
		assert_int_equal(PQgetisnull(result, i, 1), i % 2 == 0);
	}
	PQclear(result);
	jr_pg_rows_release(&rows);
}

static void
the_first_rows_are_one_result(void **state)
{
	(void)state;
	check_kept(0, 0, 0);
	check_kept(0, 5, 0);
	check_kept(1, 0, 0);
	check_kept(1, 1, 1);
	check_kept(1, 5, 1);
	check_kept(3, 2, 2);
	check_kept(100, 1000, 100);
}

static void
an_error_behind_rows_is_the_result(void **state)
{
	struct jr_pg_rows rows = {.wanted = 5};
	PGresult *result;

	(void)state;
	assert_true(jr_pg_rows_take(&rows, row("a", "b")));
	result = jr_pg_rows_end(&rows, PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR));
	assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
	assert_null(rows.kept);
	PQclear(result);
}

static char *
text_of(size_t len)
{
	char *text = jr_xmalloc(len + 1);

	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

static void
what_is_too_large_is_refused(void **state)
{
	char *large = text_of(JR_ROWS_BYTES + 1), *half = text_of(JR_ROWS_BYTES / 2);
	struct jr_pg_rows rows = {.wanted = 1};

	(void)state;
	assert_false(jr_pg_rows_take(&rows, row(large, NULL)));
	assert_null(rows.kept);

	rows = (struct jr_pg_rows){.wanted = 1};
	/* Those that are dropped may be as many as they like. */
	for (int i = 0; i < 5; i++)
		assert_true(jr_pg_rows_take(&rows, row(half, NULL)));
	assert_int_equal(PQntuples(rows.kept), 1);
	assert_false(jr_pg_rows_take(&rows, row(large, NULL)));
	jr_pg_rows_release(&rows);

	rows = (struct jr_pg_rows){.wanted = 3};
	assert_true(jr_pg_rows_take(&rows, row(half, NULL)));
	assert_false(jr_pg_rows_take(&rows, row(half, NULL)));
	jr_pg_rows_release(&rows);
	free(large);
	free(half);
}

/* --- the meter --- */

struct flow {
	struct jr_loop *loop;
	int server, client;
	struct jr_timer timer;
	bool late;
};

static void
on_late(void *ctx)
{
	((struct flow *)ctx)->late = true;
}

static void
open_flow(struct flow *flow, struct jr_pg_meter **meter)
{
	struct jr_err err;
	int pair[2];

	*flow = (struct flow){.loop = jr_loop_new(&err)};
	assert_non_null(flow->loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	flow->server = pair[0];
	flow->client = pair[1];
	jr_timer_init(&flow->timer, on_late, flow);
	*meter = jr_pg_meter_new(flow->loop, flow->client);
	assert_non_null(*meter);
}

static void
turn(struct flow *flow)
{
	struct jr_err err;

	jr_timer_set(flow->loop, &flow->timer, 0); /* never waits */
	assert_true(jr_loop_turn(flow->loop, &err));
}

#define TOTAL ((size_t)3000000)

static unsigned char
byte_at(size_t at)
{
	return (unsigned char)(at * 31 % 251);
}

static size_t
send_some(int fd, size_t sent)
{
	unsigned char bytes[7001];
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(bytes) && sent + len < TOTAL) {
		bytes[len] = byte_at(sent + len);
		len++;
	}
	n = send(fd, bytes, len, MSG_NOSIGNAL);
	return n > 0 ? (size_t)n : 0;
}

static void
check_flow(struct flow *flow, int from, int to)
{
	unsigned char bytes[7001];
	size_t sent = 0, seen = 0;

	while (seen < TOTAL) {
		ssize_t n;

		if (sent < TOTAL)
			sent += send_some(from, sent);
		turn(flow);
		n = recv(to, bytes, sizeof(bytes), 0);
		for (ssize_t i = 0; i < n; i++, seen++)
			assert_int_equal(bytes[i], byte_at(seen));
	}
	assert_int_equal(seen, sent);
}

static void
the_meter_loses_nothing(void **state)
{
	struct flow flow;
	struct jr_pg_meter *meter;

	(void)state;
	open_flow(&flow, &meter);
	check_flow(&flow, flow.server, flow.client);
	check_flow(&flow, flow.client, flow.server);
	(void)close(flow.client);
	jr_pg_meter_free(meter);
	(void)close(flow.server);
	jr_loop_free(flow.loop);
}

static void
no_more_is_handed_on_than_was_moved(void **state)
{
	struct flow flow;
	struct jr_pg_meter *meter;
	char bytes[8192] = {0};
	int waiting = 0;

	(void)state;
	open_flow(&flow, &meter);
	for (int i = 0; i < 100; i++) {
		while (send(flow.server, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
			;
		turn(&flow);
	}
	assert_int_equal(ioctl(flow.client, FIONREAD, &waiting), 0);
	assert_true(waiting > 0 && waiting < 2 * 1048576);
	(void)close(flow.client);
	jr_pg_meter_free(meter);
	(void)close(flow.server);
	jr_loop_free(flow.loop);
}

static void
the_end_of_the_server_is_the_end(void **state)
{
	struct flow flow;
	struct jr_pg_meter *meter;
	char byte = 'x';

	(void)state;
	open_flow(&flow, &meter);
	assert_int_equal(send(flow.server, &byte, 1, MSG_NOSIGNAL), 1);
	(void)close(flow.server);
	for (int i = 0; i < 10; i++)
		turn(&flow);
	assert_int_equal(recv(flow.client, &byte, 1, 0), 1);
	assert_int_equal(recv(flow.client, &byte, 1, 0), 0);
	(void)close(flow.client);
	jr_pg_meter_free(meter);
	jr_loop_free(flow.loop);
}

/* What libpq says last, right before it closes. */
static void
the_last_word_of_the_client_is_sent(void **state)
{
	struct flow flow;
	struct jr_pg_meter *meter;
	char bytes[8];

	(void)state;
	open_flow(&flow, &meter);
	assert_int_equal(send(flow.client, "X", 1, MSG_NOSIGNAL), 1);
	(void)close(flow.client);
	jr_pg_meter_free(meter);
	assert_int_equal(recv(flow.server, bytes, sizeof(bytes), 0), 1);
	assert_int_equal(bytes[0], 'X');
	assert_int_equal(recv(flow.server, bytes, sizeof(bytes), 0), 0);
	(void)close(flow.server);
	jr_loop_free(flow.loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_rows_are_one_result),
	    cmocka_unit_test(an_error_behind_rows_is_the_result),
	    cmocka_unit_test(what_is_too_large_is_refused),
	    cmocka_unit_test(the_meter_loses_nothing),
	    cmocka_unit_test(no_more_is_handed_on_than_was_moved),
	    cmocka_unit_test(the_end_of_the_server_is_the_end),
	    cmocka_unit_test(the_last_word_of_the_client_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
