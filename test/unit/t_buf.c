/*
 * buf: the limit holds for every way to append; the capture agrees with a plain model. mem: copies
 * and formats.
 */
#include "base/backoff.h"
#include "base/buf.h"
#include "base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void
buffer_starts_as_an_empty_string(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, 10);
	assert_string_equal(buf.data, "");
	assert_true(jr_buf_add(&buf, NULL, 0));
	jr_buf_clear(&buf);
	assert_string_equal(buf.data, "");
	jr_buf_release(&buf);
	jr_buf_release(&buf);
}

static void
appends_follow_each_other(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, 1000);
	assert_true(jr_buf_adds(&buf, "run "));
	assert_true(jr_buf_addf(&buf, "%d%s", 10, "41"));
	assert_true(jr_buf_addc(&buf, '!'));
	assert_true(jr_buf_add(&buf, "a\0b", 3));
	assert_int_equal(buf.len, 12);
	assert_memory_equal(buf.data, "run 1041!a\0b", 13);
	jr_buf_clear(&buf);
	assert_int_equal(buf.len, 0);
	assert_string_equal(buf.data, "");
	jr_buf_release(&buf);
}

static void
numbers_are_printed_as_printf_does(void **state)
{
	static const int64_t numbers[] = {0, 1, -1, 9, 10, -10, 1000000007, INT64_MAX, INT64_MIN};
	struct jr_buf buf;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(numbers); i++) {
		char expected[32], printed[24];

		(void)snprintf(expected, sizeof(expected), "%lld", (long long)numbers[i]);
		assert_string_equal(jr_print_int(printed, numbers[i]), expected);
		jr_buf_init(&buf, 20);
		assert_true(jr_buf_addi(&buf, numbers[i]));
		assert_string_equal(buf.data, expected);
		jr_buf_release(&buf);
	}
	jr_buf_init(&buf, 2);
	assert_false(jr_buf_addi(&buf, 100));
	assert_true(buf.overflow);
	jr_buf_release(&buf);
}

static void
limit_can_be_reached_and_not_passed(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, 5);
	assert_true(jr_buf_adds(&buf, "abc"));
	assert_true(jr_buf_adds(&buf, "de"));
	assert_false(buf.overflow);
	assert_false(jr_buf_addc(&buf, 'f'));
	assert_true(buf.overflow);
	assert_string_equal(buf.data, "abcde");
	assert_true(buf.size <= 6);
	jr_buf_release(&buf);
}

static void
after_an_overflow_nothing_is_taken_until_cleared(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, 5);
	assert_true(jr_buf_adds(&buf, "ab"));
	assert_false(jr_buf_addf(&buf, "%s", "too long"));
	assert_false(jr_buf_addc(&buf, 'c'));
	assert_false(jr_buf_add(&buf, "", 0));
	assert_false(jr_buf_addf(&buf, "%s", ""));
	assert_string_equal(buf.data, "ab");
	jr_buf_clear(&buf);
	assert_true(jr_buf_adds(&buf, "cdefg"));
	jr_buf_release(&buf);
}

static void
limit_of_nothing_takes_nothing(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, 0);
	assert_true(jr_buf_adds(&buf, ""));
	assert_false(jr_buf_addc(&buf, 'a'));
	assert_string_equal(buf.data, "");
	jr_buf_release(&buf);
}

static void
detach_hands_over_the_bytes_and_leaves_an_empty_buffer(void **state)
{
	struct jr_buf buf;
	char *first, *second;

	(void)state;
	jr_buf_init(&buf, 100);
	assert_true(jr_buf_adds(&buf, "mine"));
	first = jr_buf_detach(&buf);
	assert_string_equal(first, "mine");
	assert_int_equal(buf.len, 0);
	second = jr_buf_detach(&buf);
	assert_string_equal(second, "");
	assert_true(jr_buf_adds(&buf, "again"));
	assert_string_equal(buf.data, "again");
	jr_buf_release(&buf);
	free(first);
	free(second);
}

static void
megabyte_grows_in_steps(void **state)
{
	struct jr_buf buf;

	(void)state;
	jr_buf_init(&buf, JR_PAYLOAD_MAX);
	for (size_t i = 0; i < JR_PAYLOAD_MAX; i++)
		assert_true(jr_buf_addc(&buf, 'x'));
	assert_false(jr_buf_addc(&buf, 'x'));
	assert_int_equal(strlen(buf.data), JR_PAYLOAD_MAX);
	assert_int_equal(buf.size, JR_PAYLOAD_MAX + 1);
	jr_buf_release(&buf);
}

static char *
captured(const struct jr_capture *c)
{
	struct jr_buf out;

	jr_buf_init(&out, 1 << 20);
	jr_capture_read(c, &out);
	assert_false(out.overflow);
	return jr_buf_detach(&out);
}

static void
check_capture(size_t head, size_t tail, const char *input, const char *expected)
{
	struct jr_capture c;
	char *got;

	jr_capture_init(&c, head, tail);
	assert_true(jr_capture_is_empty(&c));
	jr_capture_add(&c, input, strlen(input));
	got = captured(&c);
	assert_string_equal(got, expected);
	assert_int_equal(jr_capture_is_empty(&c), input[0] == '\0');
	free(got);
	jr_capture_release(&c);
}

static void
capture_keeps_head_and_tail_and_counts_the_rest(void **state)
{
	(void)state;
	check_capture(3, 3, "", "");
	check_capture(3, 3, "ab", "ab");
	check_capture(3, 3, "abcdef", "abcdef");
	check_capture(3, 3, "abcdefg", "abc\n[... 1 bytes dropped ...]\nefg");
	check_capture(3, 3, "ab\ndefghij", "ab\n[... 4 bytes dropped ...]\nhij");
	check_capture(0, 3, "abcdef", "[... 3 bytes dropped ...]\ndef");
	check_capture(3, 0, "abcdef", "abc\n[... 3 bytes dropped ...]\n");
	check_capture(0, 0, "abcdef", "[... 6 bytes dropped ...]\n");
}

/* Feed random pieces and compare with the whole stream, which the model simply keeps. */
static void
check_capture_against_model(struct jr_random *random, size_t head_max, size_t tail_max, size_t total, size_t piece_max)
{
	char *all = jr_xmalloc(total + 1);
	size_t head = total < head_max ? total : head_max;
	size_t tail = total - head < tail_max ? total - head : tail_max;
	size_t dropped = total - head - tail;
	struct jr_capture c;
	char *got, *expected;

	for (size_t i = 0; i < total; i++)
		all[i] = (char)('a' + jr_random_below(random, 26));
	all[total] = '\0';
	jr_capture_init(&c, head_max, tail_max);
	for (size_t at = 0; at < total;) {
		size_t piece = (size_t)jr_random_below(random, piece_max + 1);

		piece = piece < total - at ? piece : total - at;
		jr_capture_add(&c, all + at, piece);
		at += piece;
	}
	assert_int_equal(c.dropped, dropped);
	assert_true(c.ring_size <= tail_max);
	assert_true(c.head.size <= head_max + 1);
	if (dropped > 0)
		expected = jr_xasprintf("%.*s%s[... %zu bytes dropped ...]\n%s", (int)head, all, head > 0 ? "\n" : "",
		    dropped, all + total - tail);
	else
		expected = jr_xstrdup(all);
	got = captured(&c);
	assert_string_equal(got, expected);
	free(expected);
	free(got);
	free(all);
	jr_capture_release(&c);
}

static void
capture_with_small_limits_agrees_with_the_model(void **state)
{
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 20261121);
	for (int i = 0; i < 5000; i++)
		check_capture_against_model(&random, (size_t)jr_random_below(&random, 9),
		    (size_t)jr_random_below(&random, 9), (size_t)jr_random_below(&random, 40),
		    1 + (size_t)jr_random_below(&random, 12));
}

static void
capture_with_real_limits_agrees_with_the_model(void **state)
{
	struct jr_random random;

	(void)state;
	jr_random_seed(&random, 42);
	for (int i = 0; i < 20; i++)
		check_capture_against_model(&random, JR_OUTPUT_HEAD, JR_OUTPUT_TAIL,
		    (size_t)jr_random_below(&random, 300000), 1 + (size_t)jr_random_below(&random, 70000));
}

static void
copies_and_formats_are_as_asked(void **state)
{
	char *a = jr_xstrdup("abc"), *b = jr_xstrdup_or_null("x"), *c = jr_xmemdup0("a\0bc", 3);
	char *d = jr_xasprintf("%s-%d", "run", 5), *e = jr_xmemdup0(NULL, 0), *f = jr_xmalloc(0);
	char *g = jr_xcalloc(0, 0);

	(void)state;
	assert_string_equal(a, "abc");
	assert_string_equal(b, "x");
	assert_null(jr_xstrdup_or_null(NULL));
	assert_memory_equal(c, "a\0b", 4);
	assert_string_equal(d, "run-5");
	assert_string_equal(e, "");
	f = jr_xrealloc(f, 0, 4);
	assert_non_null(f);
	free(a);
	free(b);
	free(c);
	free(d);
	free(e);
	free(f);
	free(g);
}

/* A child asks for more than there is; its signal. */
static int
end_of_a_child_that_asks_for_too_much(int which)
{
	volatile size_t much = SIZE_MAX / 2;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		void *p = NULL;

		(void)close(STDERR_FILENO);
		if (which == 0)
			p = jr_xmalloc(much);
		else if (which == 1)
			p = jr_xrealloc(NULL, much, 4);
		else if (which == 2)
			p = jr_xcalloc(much, 4);
		else if (which == 3)
			p = jr_xmemdup0("", SIZE_MAX);
		else
			p = jr_xrealloc(NULL, much, 1);
		_exit(p != NULL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void
out_of_memory_ends_the_process(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	skip(); /* the sanitizer ends the process in its own way */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
	skip();
#endif
#endif
	for (int which = 0; which < 5; which++)
		assert_int_equal(end_of_a_child_that_asks_for_too_much(which), SIGABRT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buffer_starts_as_an_empty_string),
	    cmocka_unit_test(appends_follow_each_other),
	    cmocka_unit_test(numbers_are_printed_as_printf_does),
	    cmocka_unit_test(limit_can_be_reached_and_not_passed),
	    cmocka_unit_test(after_an_overflow_nothing_is_taken_until_cleared),
	    cmocka_unit_test(limit_of_nothing_takes_nothing),
	    cmocka_unit_test(detach_hands_over_the_bytes_and_leaves_an_empty_buffer),
	    cmocka_unit_test(megabyte_grows_in_steps),
	    cmocka_unit_test(capture_keeps_head_and_tail_and_counts_the_rest),
	    cmocka_unit_test(capture_with_small_limits_agrees_with_the_model),
	    cmocka_unit_test(capture_with_real_limits_agrees_with_the_model),
	    cmocka_unit_test(copies_and_formats_are_as_asked),
	    cmocka_unit_test(out_of_memory_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
