/* starters: crontabs and timers of a host that is a directory of this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/calls.c"           /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/command_output.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/global_options.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/starters.c"        /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/starters_timers.c" /* NOLINT(bugprone-suspicious-include) */

static char root[] = "/tmp/jobrun-starters.XXXXXX";
static struct jr_starters starters;

/* Below the root; directories that are missing are made. */
static void
file(const char *path, const char *text)
{
	char *whole = jr_xasprintf("%s/%s", root, path);
	FILE *out;

	for (char *slash = strchr(whole + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(whole, 0755);
		*slash = '/';
	}
	out = fopen(whole, "we");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
	free(whole);
}

static void
look(void)
{
	const struct jr_starter_places places = {.root = root, .home = NULL, .own_crontab = false};

	jr_starters_release(&starters);
	jr_starters_find(&starters, &places);
}

static int
make_root(void **state)
{
	(void)state;
	return mkdtemp(root) == NULL ? -1 : 0;
}

static int
remove_root(void **state)
{
	char rm[] = "rm", options[] = "-rf", *argv[] = {rm, options, root, NULL};
	int status;

	(void)state;
	jr_starters_release(&starters);
	free(jr_command_output(argv, 10000, 1000, &status));
	return status;
}

static void
a_host_without_files_starts_nothing(void **state)
{
	(void)state;
	look();
	assert_int_equal(starters.count, 0);
	assert_int_equal(starters.unread_count, 0);
}

static void
system_crontabs_are_read_with_their_user_and_path(void **state)
{
	(void)state;
	file("etc/crontab",
	    "17 * * * * root run-parts /etc/cron.hourly\n* * * * * root jobrun check\n# * * * * * root jobrun run");
	file("etc/cron.d/jobrun",
	    "* * * * * app jobrun --once%in\nPATH=/x:/y\nPGHOST=db\n* * * * * app cd /x && /x/jobrun run -j 2\n");
	file("etc/cron.d/jobrun.bak", "* * * * * app jobrun run\n");
	look();
	assert_int_equal(starters.count, 2);
	assert_string_equal(starters.items[0].where, "/etc/cron.d/jobrun");
	assert_string_equal(starters.items[0].command, "jobrun --once");
	assert_string_equal(starters.items[0].path, "/usr/bin:/bin");
	assert_false(starters.items[0].names_database);
	assert_string_equal(starters.items[1].command, "cd /x && /x/jobrun run -j 2");
	assert_string_equal(starters.items[1].path, "/x:/y");
	assert_true(starters.items[1].names_database);
	assert_int_equal(starters.unread_count, 0);
}

static void
only_a_line_that_calls_jobrun_run_starts_runners(void **state)
{
	static const char *const others[] = {"jobrun exec sync -- /opt/sync/run --all",
	    "jobrun -d x enqueue report '{\"kind\": \"run\"}'", "cd /var/lib/jobrun && ./run", "jobrun list --once",
	    "jobrun -d run", "sudo -u jobrun /opt/x run", "/opt/x # jobrun run"};
	static const char *const runners[] = {"jobrun run --for 59s", "/x/jobrun -d 'host=a dbname=b' --once",
	    "flock -n /run/jobrun jobrun run", "env A=b jobrun --log-format json run", "sh -c 'jobrun run'",
	    "jobrun check; cd /x && jobrun run"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(others); i++)
		assert_false(jr_starters_starts_runner(others[i]));
	for (size_t i = 0; i < JR_COUNT(runners); i++)
		assert_true(jr_starters_starts_runner(runners[i]));
}

static void
what_cannot_be_read_is_said(void **state)
{
	(void)state;
	file("etc/cron.d/folder/x", "");
	look();
	assert_int_equal(starters.count, 2);
	assert_int_equal(starters.unread_count, 1);
	assert_non_null(strstr(starters.unread[0], "etc/cron.d/folder: not a plain file"));
}

static void
timers_start_their_services_if_they_are_enabled(void **state)
{
	(void)state;
	file("usr/lib/systemd/system/jobs.timer", "[Timer]\nUnit=other.service\n");
	file("usr/lib/systemd/system/other.service", "[Service]\nExecStart=/usr/bin/jobrun run\n");
	file("usr/lib/systemd/system/apt.timer", "[Timer]\n");
	file("usr/lib/systemd/system/apt.service", "[Service]\nExecStart=/usr/bin/apt\n");
	look();
	assert_int_equal(starters.count, 3);
	assert_string_equal(starters.items[2].where, "timer jobs.timer of systemd");
	assert_false(starters.items[2].is_enabled);
	assert_false(starters.items[2].names_database);

	/* That of /etc counts. */
	file("etc/systemd/system/jobs.timer", "[Timer]\n");
	file("etc/systemd/system/jobs.service", "[Service]\nEnvironmentFile=/x\nExecStart=-/opt/jobrun --once\n");
	file("etc/systemd/system/timers.target.wants/jobs.timer", "");
	look();
	assert_int_equal(starters.count, 3);
	assert_string_equal(starters.items[2].command, "/opt/jobrun --once");
	assert_true(starters.items[2].is_enabled);
	assert_true(starters.items[2].names_database);
}

static void
programs_are_found_as_a_shell_finds_them(void **state)
{
	static const struct {
		const char *command, *program;
	} commands[] = {
	    {"cd /jobrun.d; nice \"/opt/bin/jobrun\" run", "/opt/bin/jobrun"},
	    {"A=postgresql://a:b@c/jobrun /x/jobrun run -d postgresql://a:b@c/jobrun", "/x/jobrun"},
	    {"jobrun run; /bin/sh/jobrun", "jobrun"},
	    {"jobrun list; cd /bin/jobrun && nice /opt/jobrun --once", "/opt/jobrun"},
	    {"run", "jobrun"},
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(commands); i++) {
		char *program = jr_starters_program(commands[i].command, "/bin:/usr/bin");

		assert_string_equal(program, commands[i].program);
		free(program);
	}
	assert_true(jr_starters_is_in_path("sh", "/nowhere:/bin:/usr/bin"));
	assert_false(jr_starters_is_in_path("sh", "/nowhere"));
	assert_false(jr_starters_is_in_path("bin", "/"));
	assert_false(jr_starters_is_in_path("/nowhere/sh", "/bin"));
	assert_true(jr_starters_is_in_path("/bin/sh", ""));
}

static void
a_program_that_does_not_end_is_killed(void **state)
{
	char shell[] = "sh", option[] = "-c", text[] = "echo begun; sleep 60 & sleep 60",
	     fails[] = "echo no >&2; exit 3";
	char none[] = "/nowhere/program", *slow[] = {shell, option, text, NULL}, *bad[] = {shell, option, fails, NULL};
	char *missing[] = {none, NULL}, *output;
	int status;

	(void)state;
	output = jr_command_output(slow, 300, 1000, &status);
	assert_int_equal(status, -1);
	free(output);
	output = jr_command_output(bad, 20000, 1000, &status);
	assert_int_equal(status, 3);
	assert_string_equal(output, "no\n");
	free(output);
	output = jr_command_output(missing, 20000, 1000, &status);
	assert_int_equal(status, -2);
	assert_string_equal(output, strerror(ENOENT));
	free(output);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_host_without_files_starts_nothing),
	    cmocka_unit_test(system_crontabs_are_read_with_their_user_and_path),
	    cmocka_unit_test(only_a_line_that_calls_jobrun_run_starts_runners),
	    cmocka_unit_test(what_cannot_be_read_is_said),
	    cmocka_unit_test(timers_start_their_services_if_they_are_enabled),
	    cmocka_unit_test(programs_are_found_as_a_shell_finds_them),
	    cmocka_unit_test(a_program_that_does_not_end_is_killed),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
