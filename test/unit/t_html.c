/* html: what comes from the database is text, whatever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/html.c" /* NOLINT(bugprone-suspicious-include) */

static struct jr_buf out;

static int
set_up(void **state)
{
	(void)state;
	jr_buf_init(&out, 100000);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	jr_buf_release(&out);
	return 0;
}

static void
expect(const char *text)
{
	assert_string_equal(out.data, text);
	jr_buf_clear(&out);
}

static void
markup_and_controls_become_visible_text(void **state)
{
	(void)state;
	jr_html_text(&out, "<b a=\"1\" b='2'>&amp;", 100);
	expect("&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;");
	jr_html_text(&out, "a\033[1m\n\t\177\xc2\x85\xe2\x80\xa8\xff", 100);
	expect("a\\x1b[1m\\x0a\\x09\\x7f\\x85\\u{2028}\\xff");
	jr_html_value(&out, "caf\xc3\xa9", 100);
	expect("<bdi>caf\xc3\xa9</bdi>");
	jr_html_text(&out, NULL, 100);
	expect("");
}

static void
a_text_is_cut_between_characters(void **state)
{
	(void)state;
	jr_html_text(&out, "\xc3\xa9\xc3\xa9\xc3\xa9", 3);
	expect("\xc3\xa9\xc3\xa9\xc3\xa9");
	jr_html_text(&out, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 3);
	expect("\xc3\xa9\xc3\xa9\xc3\xa9\u2026");
	jr_html_text(&out, "&&&", 2);
	expect("&amp;&amp;\u2026");
}

static void
numbers_and_times(void **state)
{
	static const struct {
		int64_t ms;
		const char *took, *roughly, *about;
	} times[] = {
	    {-5, "0s", "0s", "-5&nbsp;ms"},
	    {0, "0s", "0s", "0&nbsp;ms"},
	    {512, "512ms", "512ms", "512&nbsp;ms"},
	    {4096, "4s", "4s", "4.1&nbsp;s"},
	    {65536, "1m 5s", "1m", "1.1&nbsp;min"},
	    {1048576, "17m 28s", "17m", "17&nbsp;min"},
	    {100000000, "1d 3h", "1d", "1.2&nbsp;d"},
	};

	(void)state;
	jr_html_count(&out, 999, false);
	expect("999");
	jr_html_count(&out, 1000, true);
	expect("&gt;&#8201;1,000");
	jr_html_count(&out, -123456, false);
	expect("-123,456");
	jr_html_count(&out, INT64_MAX, false);
	expect("9,223,372,036,854,775,807");
	for (size_t i = 0; i < JR_COUNT(times); i++) {
		jr_html_took(&out, times[i].ms);
		expect(times[i].took);
		jr_html_roughly(&out, times[i].ms);
		expect(times[i].roughly);
		jr_html_about(&out, times[i].ms);
		expect(times[i].about);
	}
}

/* Who copies what looks like a command must get jobrun, and nothing that a shell would do besides. */
static void
only_plain_commands_look_like_commands(void **state)
{
	static const char *const others[] = {"jobrun show 1; reboot", "jobrun show $(reboot)", "jobrun show `x`",
	    "jobrun show 1\nreboot", "jobrun show 1 > x", "jobrun show 1 | x", "jobrun show 'x'", "rm -rf x", "jobrun",
	    "ask: rm x", "x: jobrun show 1; y", "jobrun show \xc3\xa9"};

	(void)state;
	jr_html_command(&out, "jobrun retry --type a_b.c-d --error exit:65");
	expect("<code class=\"cmd\">jobrun retry --type a_b.c-d --error exit:65</code>");
	jr_html_command(&out, "is <it> there? try: jobrun --once -v");
	expect("<span class=\"advice\">is &lt;it&gt; there? try: </span><code class=\"cmd\">jobrun --once -v</code>");
	for (size_t i = 0; i < JR_COUNT(others); i++) {
		jr_html_command(&out, others[i]);
		assert_null(strstr(out.data, "<code"));
		jr_buf_clear(&out);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(markup_and_controls_become_visible_text, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_text_is_cut_between_characters, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(numbers_and_times, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(only_plain_commands_look_like_commands, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
