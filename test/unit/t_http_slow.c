/*
 * http: an answer that pauses. A server on the same loop says what it is told to say, and the times that the transfer
 * remembers are moved back instead of a wait.
 */
#include "handler/http_parts.h"
#include "processes.h"

#include <poll.h>

#define STEP_MS INT64_C(20000) /* less than JR_HTTP_SLOW_MS, and two of them are more */

struct fixture {
	struct jr_loop *loop;
	struct jr_http *http;
	int listener, client;
	struct jr_watch watch; /* of the listener */
	struct jr_transfer *transfer;
	int ended; /* how often */
	int status;
	char code[64], error[256];
};

static void
on_connection(void *ctx, short revents)
{
	struct fixture *fixture = ctx;

	(void)revents;
	fixture->client = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC);
}

static void
on_ended(void *ctx, const struct jr_answer *answer)
{
	struct fixture *fixture = ctx;

	fixture->ended++;
	fixture->status = answer->status;
	(void)snprintf(fixture->code, sizeof(fixture->code), "%s", answer->code != NULL ? answer->code : "");
	(void)snprintf(fixture->error, sizeof(fixture->error), "%s", answer->error != NULL ? answer->error : "");
}

/* Start a request, and let the server have its connection. */
static void
start(struct fixture *fixture)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	struct jr_http_target target = {.method = (char *)(uintptr_t) "POST",
	    .timeout_ms = 600000,
	    .connect_timeout_ms = 600000,
	    .allow_private = true};

	assert_int_equal(bind(fixture->listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fixture->listener, 1), 0);
	assert_int_equal(getsockname(fixture->listener, (struct sockaddr *)&address, &size), 0);
	target.url = jr_xasprintf("http://127.0.0.1:%d/", ntohs(address.sin_port));
	jr_watch_init(&fixture->watch, on_connection, fixture);
	jr_watch_set(fixture->loop, &fixture->watch, fixture->listener, POLLIN);
	fixture->transfer = jr_transfer_start(fixture->http,
	    &(struct jr_http_request){.target = &target, .body = "{}", .body_len = 2}, on_ended, fixture);
	for (int i = 0; i < 1000 && fixture->client < 0; i++)
		turn_for(fixture->loop, 20);
	assert_true(fixture->client >= 0);
	free(target.url);
}

static int
set_up(void **state)
{
	struct fixture *fixture = jr_xcalloc(1, sizeof(*fixture));
	struct jr_err err;

	fixture->loop = jr_loop_new(&err);
	fixture->http = jr_http_new(fixture->loop, &err);
	fixture->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fixture->client = -1;
	*state = fixture;
	start(fixture);
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	jr_transfer_free(fixture->transfer);
	jr_http_free(fixture->http);
	jr_watch_remove(&fixture->watch);
	(void)close(fixture->listener);
	(void)close(fixture->client);
	jr_loop_free(fixture->loop);
	free(fixture);
	return 0;
}

/* What the transfer has received so far. */
static int64_t
received(const struct fixture *fixture)
{
	return (int64_t)fixture->transfer->in.header_bytes + fixture->transfer->in.body_total;
}

/* The server says `text`, which is whole lines or part of a body, and it arrives. */
static void
say(struct fixture *fixture, const char *text)
{
	int64_t all = received(fixture) + (int64_t)strlen(text);

	assert_int_equal(write(fixture->client, text, strlen(text)), strlen(text));
	for (int i = 0; i < 1000 && received(fixture) < all; i++)
		turn_for(fixture->loop, 20);
	assert_int_equal(received(fixture), all);
}

/* The server says nothing for so long. */
static void
pause_for(struct fixture *fixture, int64_t span_ms)
{
	struct jr_transfer *transfer = fixture->transfer;

	if (transfer->in.heard_ms != 0)
		transfer->in.heard_ms -= span_ms;
	if (transfer->slow.at_ms != JR_NEVER)
		jr_timer_set(fixture->loop, &transfer->slow, transfer->slow.at_ms - span_ms);
	turn_for(fixture->loop, 20);
}

static void
an_answer_may_take_long_if_a_byte_comes_now_and_then(void **state)
{
	struct fixture *fixture = *state;

	say(fixture, "HTTP/1.1 200 OK\r\n");
	pause_for(fixture, STEP_MS);
	say(fixture, "Content-Length: 3\r\n");
	pause_for(fixture, STEP_MS);
	say(fixture, "\r\n");
	for (int i = 0; i < 3; i++) {
		pause_for(fixture, STEP_MS);
		assert_int_equal(fixture->ended, 0);
		say(fixture, "x");
	}
	pause_for(fixture, 0);
	pause_for(fixture, 2 * STEP_MS); /* its owner has not freed it */
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->status, 200);
	assert_string_equal(fixture->code, "");
}

static void
expect_slow(struct fixture *fixture)
{
	pause_for(fixture, STEP_MS);
	assert_int_equal(fixture->ended, 0);
	pause_for(fixture, STEP_MS);
	pause_for(fixture, STEP_MS);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->status, 200);
	assert_string_equal(fixture->code, "OPERATION_TIMEDOUT");
	assert_string_equal(fixture->error, "30 s without a byte (after HTTP 200)");
	/* That the server ends its answer now is no second end. */
	(void)send(fixture->client, "\r\n\r\nxxx", 7, MSG_NOSIGNAL);
	(void)shutdown(fixture->client, SHUT_RDWR);
	turn_for(fixture->loop, 50);
	assert_int_equal(fixture->ended, 1);
}

static void
an_answer_that_pauses_within_its_headers_ends(void **state)
{
	struct fixture *fixture = *state;

	say(fixture, "HTTP/1.1 200 OK\r\n");
	expect_slow(fixture);
}

static void
an_answer_that_pauses_after_its_headers_ends(void **state)
{
	struct fixture *fixture = *state;

	say(fixture, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
	expect_slow(fixture);
}

static void
an_answer_that_pauses_within_its_body_ends(void **state)
{
	struct fixture *fixture = *state;

	say(fixture, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
	pause_for(fixture, STEP_MS);
	say(fixture, "x");
	expect_slow(fixture);
}

/* That is what the timeout is for. */
static void
an_answer_may_begin_late(void **state)
{
	struct fixture *fixture = *state;

	pause_for(fixture, 10 * STEP_MS);
	say(fixture, "HTTP/1.1 103 Early Hints\r\n\r\n");
	pause_for(fixture, 10 * STEP_MS);
	assert_int_equal(fixture->ended, 0);
	say(fixture, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
	pause_for(fixture, STEP_MS);
	say(fixture, "xxx");
	pause_for(fixture, 0);
	assert_int_equal(fixture->ended, 1);
	assert_string_equal(fixture->code, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(an_answer_may_take_long_if_a_byte_comes_now_and_then),
	    TEST(an_answer_that_pauses_within_its_headers_ends),
	    TEST(an_answer_that_pauses_after_its_headers_ends),
	    TEST(an_answer_that_pauses_within_its_body_ends),
	    TEST(an_answer_may_begin_late),
	};

	return cmocka_run_group_tests_name("http_slow", tests, NULL, NULL);
}
