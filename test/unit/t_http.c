/*
 * http: transfers on the loop, where no server is needed: ends are told from the loop and once, a transfer can be freed
 * at any time, and a name server that does not answer keeps nobody waiting.
 */
#include "handler/http_parts.h"
#include "processes.h"

#include <netdb.h>
#include <sys/resource.h>

struct fixture {
	struct jr_loop *loop;
	struct jr_http *http;
	char *const *headers; /* of the next request */
};

/* What `ended` was told, copied. */
struct result {
	bool ended;
	int status;
	char code[64], error[256];
	bool passing;
	struct jr_transfer *to_free; /* in `ended` */
};

/* In the place of the C library's: every name takes a minute, and is not there. */
int /* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of glibc are reserved */
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	const struct timespec span = {.tv_sec = 60};

	(void)node;
	(void)service;
	(void)hints;
	*found = NULL;
	(void)nanosleep(&span, NULL);
	return EAI_NONAME;
}

static int
set_up(void **state)
{
	struct fixture *fixture = jr_xcalloc(1, sizeof(*fixture));
	struct jr_err err;

	fixture->loop = jr_loop_new(&err);
	fixture->http = jr_http_new(fixture->loop, &err);
	*state = fixture;
	return fixture->http != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	jr_http_free(fixture->http);
	jr_loop_free(fixture->loop);
	free(fixture);
	return 0;
}

static void
on_ended(void *ctx, const struct jr_answer *answer)
{
	struct result *result = ctx;

	assert_false(result->ended);
	result->ended = true;
	result->status = answer->status;
	(void)snprintf(result->code, sizeof(result->code), "%s", answer->code != NULL ? answer->code : "");
	(void)snprintf(result->error, sizeof(result->error), "%s", answer->error != NULL ? answer->error : "");
	result->passing = answer->passing;
	jr_transfer_free(result->to_free);
}

static const struct jr_http_target example = {.url = (char *)(uintptr_t) "http://127.0.0.1:1/",
    .method = (char *)(uintptr_t) "POST",
    .timeout_ms = 10000,
    .connect_timeout_ms = 10000,
    .allow_private = true};

static struct jr_transfer *
start(struct fixture *fixture, const struct jr_http_target *target, struct result *result)
{
	struct jr_http_request request = {.target = target, .headers = fixture->headers, .body = "{}", .body_len = 2};

	*result = (struct result){.ended = false};
	result->to_free = jr_transfer_start(fixture->http, &request, on_ended, result);
	assert_false(result->ended);
	return result->to_free;
}

static void
what_fails_is_told_from_the_loop(void **state)
{
	struct fixture *fixture = *state;
	struct jr_http_target target = example;
	struct result result;

	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_string_equal(result.code, "COULDNT_CONNECT");
	assert_int_equal(result.status, 0);
	assert_non_null(strstr(result.error, "127.0.0.1"));
	target.url = (char *)(uintptr_t) "ftp://127.0.0.1/";
	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_string_equal(result.code, "UNSUPPORTED_PROTOCOL");
	target.url = (char *)(uintptr_t) "http://user:hunter2@127.0.0.1/";
	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_null(strstr(result.error, "hunter2"));
	assert_string_not_equal(result.code, "");
}

/* The last look at every header, wherever its value came from. */
static void
values_that_do_not_fit_are_not_sent(void **state)
{
	static const char *const unfit[] = {"Jobrun-Slot: 1\r\nX: y", "Jobrun-Slot: a\tb", "Jobrun-Slot: \xc3\xbc",
	    "Jobrun-Slot: \x7f", "Jobrun-Slot:  a", "Jobrun-Slot: a ", "Jobrun-Slot: ", "Jobrun-Slot:a", "Jobrun-Slot"};
	struct fixture *fixture = *state;
	struct result result;

	for (size_t i = 0; i < JR_COUNT(unfit); i++) {
		char *headers[] = {(char *)(uintptr_t) "Fine: it is", (char *)(uintptr_t)unfit[i], NULL};

		fixture->headers = headers;
		(void)start(fixture, &example, &result);
		turn_until(fixture->loop, &result.ended);
		fixture->headers = NULL;
		assert_string_equal(result.code, "BAD_HEADER");
		assert_string_equal(result.error,
		    "nothing was sent: the value of the header Jobrun-Slot has a byte that is not visible ASCII");
	}
}

static void
private_addresses_are_refused_by_name(void **state)
{
	struct fixture *fixture = *state;
	struct jr_http_target target = example;
	struct result result;

	target.allow_private = false;
	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_string_equal(result.code, "COULDNT_CONNECT");
	assert_string_equal(result.error, "127.0.0.1 is not a public address (loopback), and allow_private is false");
	target.url = (char *)(uintptr_t) "http://[::ffff:10.0.0.1]:1/";
	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_string_equal(
	    result.error, "::ffff:10.0.0.1 is not a public address (IPv4-mapped), and allow_private is false");
}

static void
a_transfer_without_a_descriptor_may_succeed_later(void **state)
{
	struct fixture *fixture = *state;
	struct rlimit limit, none;
	struct result result;
	int next = dup(STDIN_FILENO);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(close(next), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	(void)start(fixture, &example, &result);
	turn_until(fixture->loop, &result.ended);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_string_equal(result.code, "COULDNT_CONNECT");
	assert_string_equal(result.error, "nothing was sent: socket: Too many open files");
	assert_true(result.passing);
	(void)start(fixture, &example, &result);
	turn_until(fixture->loop, &result.ended);
	assert_false(result.passing);
}

static void
a_freed_transfer_says_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct result result;

	jr_transfer_free(start(fixture, &example, &result));
	jr_transfer_free(NULL);
	turn_for(fixture->loop, 20);
	assert_false(result.ended);
}

static void
nobody_waits_for_a_name_server(void **state)
{
	struct fixture *fixture = *state;
	struct jr_http_target target = example;
	struct result result;
	int64_t start_ms = jr_clock_now_ms();

	target.url = (char *)(uintptr_t) "http://nowhere.test/";
	target.timeout_ms = 100;
	(void)start(fixture, &target, &result);
	turn_until(fixture->loop, &result.ended);
	assert_string_equal(result.code, "OPERATION_TIMEDOUT");
	jr_transfer_free(start(fixture, &target, &result));
	target.timeout_ms = 10000;
	result.to_free = start(fixture, &target, &result);
	turn_for(fixture->loop, 50);
	jr_transfer_free(result.to_free);
	assert_false(result.ended);
#if LIBCURL_VERSION_NUM >= 0x075700
	assert_true(jr_clock_now_ms() - start_ms < PATIENCE_MS);
#else
	(void)start_ms; /* before 7.87 the end of such a transfer waits for the end of the look-up */
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_fails_is_told_from_the_loop),
	    cmocka_unit_test(values_that_do_not_fit_are_not_sent),
	    cmocka_unit_test(private_addresses_are_refused_by_name),
	    cmocka_unit_test(a_transfer_without_a_descriptor_may_succeed_later),
	    cmocka_unit_test(a_freed_transfer_says_nothing),
	    cmocka_unit_test(nobody_waits_for_a_name_server),
	};

	return cmocka_run_group_tests_name("http", tests, set_up, tear_down);
}
