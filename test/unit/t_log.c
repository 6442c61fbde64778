/* log: one bounded line for an event, read back from a pipe. run: words and releases. */
#include "base/log.h"

#include "base/mem.h"
#include "base/run.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct sink {
	int read_fd, write_fd;
	char line[8192]; /* what came last, without its newline */
};

static int
setup(void **state)
{
	struct sink *sink = jr_xcalloc(1, sizeof(*sink));
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	sink->read_fd = fds[0];
	sink->write_fd = fds[1];
	*state = sink;
	jr_log_init(JR_INFO, JR_LOG_TEXT, sink->write_fd);
	return 0;
}

static int
teardown(void **state)
{
	struct sink *sink = *state;

	jr_log_init(JR_WARN, JR_LOG_TEXT, STDERR_FILENO);
	close(sink->read_fd);
	close(sink->write_fd);
	free(sink);
	return 0;
}

/*
 * The line written last, from its event on; "" if there is none. The head must look as it should.
 */
static const char *
last_event(struct sink *sink)
{
	ssize_t n = read(sink->read_fd, sink->line, sizeof(sink->line) - 1);
	const char *stamp = "dddd-dd-ddTdd:dd:dd.dddZ";
	const char *at;

	if (n <= 0)
		return "";
	assert_true(n <= 4096);
	assert_int_equal(sink->line[n - 1], '\n');
	sink->line[n - 1] = '\0';
	assert_null(strchr(sink->line, '\n'));
	at = strncmp(sink->line, "{\"time\":\"", 9) == 0 ? sink->line + 9 : sink->line;
	for (size_t i = 0; stamp[i] != '\0'; i++) {
		if (stamp[i] == 'd')
			assert_in_range(at[i], '0', '9');
		else
			assert_int_equal(at[i], stamp[i]);
	}
	return at + strlen(stamp);
}

static void
text_line_has_time_level_event_and_fields(void **state)
{
	jr_log(JR_INFO, JR_EVENT_RUN_END, JR_I("run", 1041), JR_S("type", "send_mail"), JR_S("attempt", "1/5"),
	    JR_S("outcome", "succeeded"), JR_I("ms", -812));
	assert_string_equal(
	    last_event(*state), " info event=run_end run=1041 type=send_mail attempt=1/5 outcome=succeeded ms=-812");
}

static void
json_line_is_one_object(void **state)
{
	struct sink *sink = *state;

	jr_log_init(JR_DEBUG, JR_LOG_JSON, sink->write_fd);
	jr_log(JR_DEBUG, JR_EVENT_RUN_END, JR_I("run", 1041), JR_S("type", "send_mail"), JR_S("error", "say \"no\"\\"));
	assert_string_equal(last_event(sink),
	    "\",\"level\":\"debug\",\"event\":\"run_end\",\"run\":1041,\"type\":\"send_mail\",\"error\":\"say \\\"no\\\"\\\\\"}");
}

static void
missing_values_are_left_out(void **state)
{
	jr_log(JR_ERROR, JR_EVENT_DB_LOST, JR_S("error", NULL), JR_S("db", "x"));
	assert_string_equal(last_event(*state), " error event=db_lost db=x");
}

static void
levels_below_the_chosen_one_are_silent(void **state)
{
	struct sink *sink = *state;

	jr_log_init(JR_WARN, JR_LOG_TEXT, sink->write_fd);
	jr_log(JR_INFO, JR_EVENT_LOCKED, JR_I("n", 1));
	assert_string_equal(last_event(sink), "");
	jr_log(JR_WARN, JR_EVENT_FIRED, JR_I("n", 1));
	assert_string_equal(last_event(sink), " warn event=fired n=1");
}

static void
check_value(struct sink *sink, const char *value, const char *expected)
{
	char *line = jr_xasprintf(" info event=polling error=%s", expected);

	jr_log(JR_INFO, JR_EVENT_POLLING, JR_S("error", value));
	assert_string_equal(last_event(sink), line);
	free(line);
}

static void
values_are_quoted_only_when_they_need_it(void **state)
{
	check_value(*state, "plain-1/5:x,y", "plain-1/5:x,y");
	check_value(*state, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
	check_value(*state, "", "\"\"");
	check_value(*state, "a b", "\"a b\"");
	check_value(*state, "a=b", "\"a=b\"");
	check_value(*state, "a\"b", "\"a\\\"b\"");
	check_value(*state, "a\\b", "\"a\\\\b\"");
}

static void
controls_and_bad_bytes_are_escaped(void **state)
{
	/* byte by byte: as strings they would turn around the line they stand in */
	static const char right_to_left[] = {'\xE2', '\x80', '\xAE', 'x', '\0'};
	static const char isolate[] = {'\xE2', '\x81', '\xA6', '\0'};

	check_value(*state, "a\nb\tc\rd", "\"a\\nb\\tc\\rd\"");
	check_value(*state, "\x1b[31m\x7f", "\"\\u001b[31m\\u007f\"");
	check_value(*state, "\xC2\x9B", "\"\\u009b\"");
	check_value(*state, right_to_left, "\"\\u202ex\"");
	check_value(*state, "\xE2\x80\x8F", "\"\\u200f\"");
	check_value(*state, isolate, "\"\\u2066\"");
	check_value(*state, "\xD8\x9C", "\"\\u061c\"");
	check_value(*state, "\xE2\x80\x93\xC2\xA9\xE2\x82\xAC", "\xE2\x80\x93\xC2\xA9\xE2\x82\xAC");
	check_value(*state, "a\xFFz", "a\xEF\xBF\xBDz");
}

/* In both formats, with a letter and with what becomes six bytes each. */
static void
long_values_are_cut_and_the_line_is_bounded(void **state)
{
	static const char *const fill[] = {"x", "\x01", "\xE2\x82\xAC", "\xFF"};
	struct sink *sink = *state;

	for (size_t f = 0; f < JR_COUNT(fill); f++) {
		size_t width = strlen(fill[f]);
		char value[6001] = "";
		const char *line;

		for (size_t i = 0; i < 2000; i++)
			memcpy(value + i * width, fill[f], width);
		for (int format = JR_LOG_TEXT; format <= JR_LOG_JSON; format++) {
			jr_log_init(JR_INFO, (enum jr_log_format)format, sink->write_fd);
			jr_log(JR_INFO, JR_EVENT_POLLING, JR_S("error", value), JR_I("n", 1));
			line = last_event(sink);
			assert_true(strlen(line) > 900 && strlen(line) < 1200);
			assert_non_null(strstr(line, format == JR_LOG_JSON ? "...\",\"n\":1}" : "...\" n=1"));
			jr_log(JR_INFO, JR_EVENT_POLLING, JR_S("error", value), JR_S("reason", value),
			    JR_S("path", value), JR_S("host", value), JR_S("db", value), JR_I("n", 1));
			line = last_event(sink); /* which checks the bound */
			assert_non_null(strstr(line, format == JR_LOG_JSON ? "\"n\":1}" : " n=1"));
			assert_null(strstr(line, "db"));
		}
	}
}

static void
line_goes_nowhere_when_the_log_is_closed(void **state)
{
	(void)state;
	jr_log_init(JR_INFO, JR_LOG_TEXT, -1);
	jr_log(JR_ERROR, JR_EVENT_POLLING, JR_I("n", 1));
}

/* Lines end where it has no room for a whole one, though it says that it can be written. */
static void
a_terminal_that_is_not_read_stops_nobody(void **state)
{
	int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), writer;

	(void)state;
	assert_true(reader >= 0 && grantpt(reader) == 0 && unlockpt(reader) == 0);
	writer = open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(writer >= 0);
	jr_log_init(JR_INFO, JR_LOG_TEXT, writer);
	(void)alarm(60); /* where it waits, nothing else ends it */
	for (int i = 0; i < 10000; i++)
		jr_log(JR_ERROR, JR_EVENT_POLLING, JR_I("n", i));
	(void)alarm(0);
	assert_false(fcntl(writer, F_GETFL) & O_NONBLOCK);
	close(writer);
	close(reader);
}

/* Only on the very descriptor that the journal was connected to. */
static void
lines_for_the_journal_begin_with_their_priority(void **state)
{
	struct sink *sink = *state;
	struct stat stat;
	char *stream;

	assert_int_equal(fstat(sink->write_fd, &stat), 0);
	stream = jr_xasprintf("%llu:%llu", (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino);
	(void)setenv("JOURNAL_STREAM", stream, 1);
	jr_log_init(JR_DEBUG, JR_LOG_TEXT, sink->write_fd);
	for (int level = JR_ERROR; level <= JR_DEBUG; level++) {
		static const char *const begins[] = {"<3>", "<4>", "<6>", "<7>"};

		jr_log((enum jr_level)level, JR_EVENT_POLLING, JR_I("n", 1));
		assert_true(read(sink->read_fd, sink->line, sizeof(sink->line)) > 3);
		assert_memory_equal(sink->line, begins[level], 3);
	}
	jr_log_init(JR_DEBUG, JR_LOG_JSON, sink->write_fd);
	jr_log(JR_INFO, JR_EVENT_POLLING, JR_I("n", 1));
	assert_true(read(sink->read_fd, sink->line, sizeof(sink->line)) > 3);
	assert_memory_equal(sink->line, "<6>{\"time\":", 11);
	(void)setenv("JOURNAL_STREAM", "1:2", 1);
	jr_log_init(JR_INFO, JR_LOG_TEXT, sink->write_fd);
	jr_log(JR_INFO, JR_EVENT_POLLING, JR_I("n", 1));
	assert_string_equal(last_event(sink), " info event=polling n=1");
	(void)unsetenv("JOURNAL_STREAM");
	free(stream);
}

static void
unknown_key_is_a_bug(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		(void)close(STDERR_FILENO);
		(void)signal(SIGABRT, SIG_DFL);
		jr_log(JR_ERROR, JR_EVENT_POLLING, JR_S("payload", "secret"));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void
outcomes_have_the_words_of_settle(void **state)
{
	static const char *const words[] = {
	    "succeeded", "failed", "dead", "later", "released", "cancelled", "unstarted", "lost"};

	(void)state;
	for (int kind = JR_OUT_SUCCEEDED; kind <= JR_OUT_LOST; kind++)
		assert_string_equal(jr_outcome_word((enum jr_outcome_kind)kind), words[kind]);
}

static void
runs_and_outcomes_release_all_they_own(void **state)
{
	struct jr_run *run = jr_xcalloc(1, sizeof(*run));
	struct jr_outcome outcome = {.kind = JR_OUT_DEAD,
	    .error_code = jr_xstrdup("exit:65"),
	    .error = jr_xstrdup("e"),
	    .output = jr_xstrdup("o"),
	    .result = jr_xstrdup("{}")};

	(void)state;
	run->job_type = jr_xstrdup("a");
	run->queue = jr_xstrdup("b");
	run->payload = jr_xstrdup("{}");
	run->key = jr_xstrdup("d");
	run->slot = jr_xstrdup("e");
	run->slot_local = jr_xstrdup("e");
	run->checkpoint = jr_xstrdup("1");
	run->trace_context = jr_xstrdup("g");
	jr_run_free(run); /* the sanitizer and valgrind look for the rest */
	jr_run_free(NULL);
	jr_outcome_release(&outcome);
	assert_int_equal(outcome.kind, JR_OUT_SUCCEEDED);
	assert_null(outcome.error);
	jr_outcome_release(&outcome);
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    LOG_TEST(text_line_has_time_level_event_and_fields),
	    LOG_TEST(json_line_is_one_object),
	    LOG_TEST(missing_values_are_left_out),
	    LOG_TEST(levels_below_the_chosen_one_are_silent),
	    LOG_TEST(values_are_quoted_only_when_they_need_it),
	    LOG_TEST(controls_and_bad_bytes_are_escaped),
	    LOG_TEST(long_values_are_cut_and_the_line_is_bounded),
	    LOG_TEST(line_goes_nowhere_when_the_log_is_closed),
	    LOG_TEST(a_terminal_that_is_not_read_stops_nobody),
	    LOG_TEST(lines_for_the_journal_begin_with_their_priority),
	    cmocka_unit_test(unknown_key_is_a_bug),
	    cmocka_unit_test(outcomes_have_the_words_of_settle),
	    cmocka_unit_test(runs_and_outcomes_release_all_they_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
