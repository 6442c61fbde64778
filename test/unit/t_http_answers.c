/*
 * http: what Retry-After means, and what is kept of an answer.
 */
#include "handler/http_parts.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <sys/un.h>

#define NOON "Fri, 28 Feb 2020 12:00:00 GMT"
#define NOON_S 1582891200
#define DAY JR_RETRY_AFTER_MAX_MS

static void
retry_after_is_seconds_or_a_date(void **state)
{
	static const struct {
		const char *value, *date;
		int64_t ms;
	} cases[] = {
	    {"0", NULL, 0},
	    {"120", NULL, 120000},
	    {"86400", NULL, DAY},
	    {"86401", NULL, DAY},
	    {"315360000", NULL, DAY},
	    {"99999999999999999999999999999999999999", NULL, DAY},
	    {"-1", NULL, -1},
	    {"+1", NULL, -1},
	    {"1.5", NULL, -1},
	    {"99999999999999999999999999x", NULL, -1},
	    {"10 s", NULL, -1},
	    {"", NULL, -1},
	    {"soon", NULL, -1},
	    {"Fri, 28 Feb 2020 12:02:00 GMT", NOON, 120000},
	    {"Friday, 28-Feb-20 12:02:00 GMT", NOON, 120000},
	    {"Fri Feb 28 12:02:00 2020", NOON, 120000},
	    {NOON, NOON, 0},
	    {"Fri, 28 Feb 2020 11:00:00 GMT", NOON, 0},
	    {"Sat, 29 Feb 2020 12:00:00 GMT", NOON, DAY},
	    {"Thu, 28 Feb 2030 12:00:00 GMT", NOON, DAY},
	    {"Fri, 31 Dec 9999 23:59:59 GMT", NOON, DAY},
	    {"Fri, 28 Feb 2020 12:02:00 GMT", NULL, -1},
	    {"Fri, 28 Feb 2020 12:02:00 GMT", "yesterday", -1},
	    {"Fri, 99 Feb 2020 12:02:00 GMT", NOON, -1},
	    {"20200228 12:02:00", NOON, -1},
	    {"Fri", NOON, -1},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		int64_t ms = jr_retry_after_ms(cases[i].value, cases[i].date, -1);

		if (ms != cases[i].ms)
			fail_msg("\"%s\": %lld", cases[i].value, (long long)ms);
	}
}

static void
without_a_date_of_the_answer_ours_counts(void **state)
{
	static const char later[] = "Fri, 28 Feb 2020 12:02:00 GMT";

	(void)state;
	assert_int_equal(jr_retry_after_ms(later, NULL, NOON_S), 120000);
	assert_int_equal(jr_retry_after_ms(later, "yesterday", NOON_S), 120000);
	assert_int_equal(jr_retry_after_ms(later, NOON, NOON_S + 60), 120000);
	assert_int_equal(jr_retry_after_ms(later, NULL, NOON_S + 3600), 0);
	assert_int_equal(jr_retry_after_ms("soon", NULL, NOON_S), -1);
}

static bool
header(struct jr_transfer *transfer, const char *line)
{
	char *copy = jr_xstrdup(line);
	size_t len = strlen(copy);
	bool taken = jr_incoming_header(copy, 1, len, transfer) == len;

	free(copy);
	return taken;
}

static void
only_the_final_answer_counts(void **state)
{
	struct jr_transfer transfer = {.http = NULL};

	(void)state;
	assert_true(header(&transfer, "HTTP/1.1 103 Early Hints\r\n"));
	assert_true(header(&transfer, "Retry-After: 1\r\n"));
	assert_true(header(&transfer, "Date: x\r\n"));
	assert_true(header(&transfer, "\r\n"));
	assert_true(header(&transfer, "HTTP/1.1 503 No\r\n"));
	assert_null(transfer.in.retry_after);
	assert_null(transfer.in.date);
	assert_true(header(&transfer, "retry-AFTER: \t 7 \r\n"));
	assert_true(header(&transfer, "Retry-After-Not: 8\r\n"));
	assert_true(header(&transfer, " folded\r\n"));
	assert_false(transfer.in.headers_done);
	assert_true(header(&transfer, "Date:\r\n"));
	assert_true(header(&transfer, "\r\n"));
	assert_true(header(&transfer, "Retry-After: 9\r\n")); /* a trailer */
	assert_string_equal(transfer.in.retry_after, "7");
	assert_string_equal(transfer.in.date, "");
	jr_incoming_release(&transfer.in);
}

static void
headers_have_a_limit_over_all_answers(void **state)
{
	struct jr_transfer transfer = {.http = NULL};
	size_t bytes = 0;

	(void)state;
	while (header(&transfer, "HTTP/1.1 103 x\r\n") && header(&transfer, "\r\n"))
		bytes += 18;
	assert_int_equal(transfer.in.cut, JR_CUT_HEADERS);
	assert_in_range(bytes, JR_ANSWER_HEADERS_MAX - 18, JR_ANSWER_HEADERS_MAX);
	jr_incoming_release(&transfer.in);
}

static void
codings_nobody_asked_for_are_refused(void **state)
{
	struct jr_transfer transfer = {.http = NULL};

	(void)state;
	assert_true(header(&transfer, "HTTP/1.1 200 OK\r\n"));
	assert_true(header(&transfer, "Transfer-Encoding: Chunked\r\n"));
	assert_true(header(&transfer, "Content-Encoding: gzip\r\n"));
	assert_false(header(&transfer, "transfer-encoding: zstd, chunked\r\n"));
	assert_int_equal(transfer.in.cut, JR_CUT_CODING);
	jr_incoming_release(&transfer.in);
}

static void
of_the_body_the_beginning_is_kept(void **state)
{
	struct jr_transfer transfer = {.http = NULL};
	char piece[1000];
	int64_t bytes = 0;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	while (jr_incoming_body(piece, 1, sizeof(piece), &transfer) == sizeof(piece))
		bytes += (int64_t)sizeof(piece);
	assert_int_equal(transfer.in.cut, JR_CUT_ENOUGH);
	assert_int_equal(transfer.in.body_len, JR_ANSWER_KEPT);
	assert_int_equal(transfer.in.body_total, bytes + (int64_t)sizeof(piece));
	assert_in_range(transfer.in.body_total, JR_ANSWER_MAX, JR_ANSWER_MAX + sizeof(piece));
	jr_incoming_release(&transfer.in);
}

static void
errors_have_the_names_of_libcurl(void **state)
{
	(void)state;
	assert_string_equal(jr_http_error_name(CURLE_COULDNT_CONNECT), "COULDNT_CONNECT");
	assert_string_equal(jr_http_error_name(CURLE_OPERATION_TIMEDOUT), "OPERATION_TIMEDOUT");
	assert_string_equal(jr_http_error_name(CURLE_PROXY), "PROXY");
	assert_null(jr_http_error_name(CURLE_FTP_ACCEPT_FAILED));
	assert_null(jr_http_error_name((CURLcode)9999));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(retry_after_is_seconds_or_a_date),
	    cmocka_unit_test(without_a_date_of_the_answer_ours_counts),
	    cmocka_unit_test(only_the_final_answer_counts),
	    cmocka_unit_test(headers_have_a_limit_over_all_answers),
	    cmocka_unit_test(codings_nobody_asked_for_are_refused),
	    cmocka_unit_test(of_the_body_the_beginning_is_kept),
	    cmocka_unit_test(errors_have_the_names_of_libcurl),
	};

	return cmocka_run_group_tests_name("http_answers", tests, NULL, NULL);
}
