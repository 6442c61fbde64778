/* calls: what of a command line calls jobrun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/calls.c"          /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/global_options.c" /* NOLINT(bugprone-suspicious-include) */

/* The calls as "PROGRAM COMMAND[ARGUMENT][ARGUMENT]; PROGRAM COMMAND". */
static void
finds(const char *line, const char *expected)
{
	struct jr_calls calls;
	struct jr_buf out;

	jr_buf_init(&out, 10000);
	jr_calls_find(&calls, line);
	for (size_t i = 0; i < calls.count; i++) {
		const struct jr_call *call = &calls.items[i];

		jr_buf_addf(&out, "%s%s %s", i == 0 ? "" : "; ", call->program, call->command);
		for (size_t k = 0; call->args[k] != NULL; k++)
			jr_buf_addf(&out, "[%s]", call->args[k]);
	}
	assert_string_equal(out.len == 0 ? "" : out.data, expected);
	jr_calls_release(&calls);
	jr_buf_release(&out);
}

static void
a_call_is_jobrun_global_options_and_a_command(void **state)
{
	(void)state;
	finds("jobrun run", "jobrun run");
	finds("/usr/bin/jobrun --once -j 2", "/usr/bin/jobrun run[-j][2]");
	finds("jobrun -d x run", "jobrun run");
	finds("jobrun -dx -v -vv --verbose run", "jobrun run");
	finds("jobrun -vd 'host=a dbname=b' --json --once", "jobrun run");
	finds("jobrun --dbname x --log-format=json --no-pager run", "jobrun run");
	finds("jobrun -d \"$URL\" $OPTIONS run", "jobrun run");
	finds("jobrun -d run", "");
	finds("jobrun -d run list", "jobrun list");
	finds("jobrun --json=x run", "");
	finds("jobrun --dbnam x run", "");
	finds("jobrun -x run", "");
	finds("jobrun - run", "");
	finds("jobrun runs", "");
	finds("jobrun", "");
	finds("jobrun; run", "");
	finds("jobrun >run", "");
}

static void
other_words_that_are_named_jobrun_call_nothing(void **state)
{
	(void)state;
	finds("cd /var/lib/jobrun && ./purge", "");
	finds("sudo -u jobrun /opt/x run", "");
	finds("/opt/jobrun/x run", "");
	finds("jobruns run", "");
	finds("pg_dump -d jobrun -v --once", "jobrun run"); /* nothing tells it from a call */
	finds("pg_dump -d jobrun -f run", "");
	finds("psql postgresql://h/jobrun list", "");
	finds("A=/usr/bin/jobrun run", "");
	finds("/opt/x # was: jobrun run", "");
	finds("echo a#b; jobrun run", "jobrun run");
}

static void
a_call_may_stand_anywhere_in_the_line(void **state)
{
	(void)state;
	finds("flock /run/jobrun jobrun run", "jobrun run");
	finds("sudo -u jobrun jobrun run", "jobrun run");
	finds("su jobrun -c 'jobrun run'", "jobrun run");
	finds("env A=b 'jobrun' run>/dev/null 2>&1", "jobrun run");
	finds("cd /jobrun && nice \"/opt/my bin/jobrun\" run; x", "/opt/my bin/jobrun run");
	finds("sh -c \"exec sh -c 'jobrun -d \\\"a b\\\" run'\"", "jobrun run");
	finds("[ -z \"$(jobrun list)\" ] || `jobrun run`", "jobrun list; jobrun run");
	finds("(jobrun check||jobrun retry 1)", "jobrun check; jobrun retry[1]");
	finds("sh -c 'jobrun run", "jobrun run");
	finds("\\jobrun ru\\n \\", "jobrun run[\\]");
}

static void
the_arguments_of_a_call_are_no_calls_but_a_command_behind_dashes_is(void **state)
{
	(void)state;
	finds("jobrun enqueue x '{\"a\": \"jobrun run\"}'", "jobrun enqueue[x][{\"a\": \"jobrun run\"}]");
	finds("jobrun enqueue jobrun run; jobrun run", "jobrun enqueue[jobrun][run]; jobrun run");
	finds("jobrun exec a -- /opt/run --all", "jobrun exec[a]");
	finds("jobrun exec a --timeout 5m -- sh -c 'cd / && jobrun run'", "jobrun exec[a][--timeout][5m]; jobrun run");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_call_is_jobrun_global_options_and_a_command),
	    cmocka_unit_test(other_words_that_are_named_jobrun_call_nothing),
	    cmocka_unit_test(a_call_may_stand_anywhere_in_the_line),
	    cmocka_unit_test(the_arguments_of_a_call_are_no_calls_but_a_command_behind_dashes_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
