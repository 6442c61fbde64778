/*
 * handlers: what counts as a handler, and which files are refused. Ownership is tried out only as
 * root.
 */
#include "handlers_files.h"

#include "process/perm.h"

#include <fcntl.h>

static void
expect_refusal(const char *directory, const char *text)
{
	struct jr_handlers handlers;
	struct jr_err err = {0};

	assert_false(jr_handlers_load(&handlers, directory, &err));
	assert_int_equal(err.code, JR_E_CONFIG);
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, err.msg);
	assert_null(handlers.items);
}

static void
executables_are_handlers_sorted_by_name(void **state)
{
	struct jr_handlers handlers;
	const struct jr_handler *handler;

	add(*state, "zeta", SCRIPT, 0755);
	add(*state, "alpha.two-x_3", SCRIPT, 0700);
	load(&handlers, *state);
	assert_int_equal(handlers.count, 4);
	assert_string_equal(handlers.items[0].job_type, "alpha.two-x_3");
	assert_string_equal(handlers.items[1].job_type, "jobrun.noop");
	assert_string_equal(handlers.items[2].job_type, "jobrun.prune");
	assert_string_equal(handlers.items[3].job_type, "zeta");
	handler = jr_handlers_find(&handlers, "zeta");
	assert_non_null(handler);
	assert_ptr_equal(handler->kind, &jr_handler_exec);
	assert_string_equal(handler->directory, *state);
	assert_string_equal(strrchr(handler->path, '/'), "/zeta");
	assert_int_equal(handler->settings.timeout_ms, -1);
	assert_int_equal(handler->settings.grace_ms, -1);
	handler = jr_handlers_find(&handlers, "jobrun.noop");
	assert_ptr_equal(handler->kind, &jr_handler_builtin);
	assert_null(handler->path);
	handler = jr_handlers_find(&handlers, "jobrun.prune");
	assert_ptr_equal(handler->kind, &jr_handler_prune);
	assert_null(jr_handlers_find(&handlers, "other"));
	assert_int_equal(handlers.problem_count, 0);
	jr_handlers_release(&handlers);
}

static void
what_editors_and_packages_leave_is_passed_over(void **state)
{
	static const char *const names[] = {
	    ".hidden", "a~", "a.bak", "a.swp", "a.dpkg-old", "a.dpkg-dist", "a.rpmsave", "a.rpmnew"};
	struct jr_handlers handlers;

	add(*state, "good", SCRIPT, 0755);
	for (size_t i = 0; i < JR_COUNT(names); i++)
		add(*state, names[i], SCRIPT, 0755);
	add(*state, "README", "Handlers live here.\n", 0644);
	add(*state, "empty", "", 0644);
	load(&handlers, *state);
	assert_int_equal(handlers.count, 3);
	assert_int_equal(handlers.problem_count, 0);
	jr_handlers_release(&handlers);
}

static void
what_looks_like_a_handler_and_is_none_has_a_line(void **state)
{
	char *fifo = jr_xasprintf("%s/fifo", (char *)*state);
	char *link = jr_xasprintf("%s/dangling", (char *)*state);
	char *inner = jr_xasprintf("%s/directory", (char *)*state);
	struct jr_handlers handlers;

	add(*state, "good", SCRIPT, 0755);
	add(*state, "forgotten", SCRIPT, 0644);
	add(*state, "Upper", SCRIPT, 0755);
	add(*state, "jobrun.mine", SCRIPT, 0755);
	add(*state, "report.sql", "select 1; select 2", 0644);
	add(*state, "other.json", "{\n\t\"tiemout\": \"5m\"\n}\n", 0644);
	add(*state, "open", SCRIPT, 0777);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(mkdir(inner, 0700), 0);
	assert_int_equal(symlink("/no/such/target", link), 0);
	load(&handlers, *state);
	assert_int_equal(handlers.count, 3);
	assert_int_equal(handlers.problem_count, 8);
	expect_problem(&handlers, "forgotten", "chmod +x");
	expect_problem(&handlers, "Upper", "not a job type");
	expect_problem(&handlers, "jobrun.mine", "reserved");
	expect_problem(&handlers, "report.sql:1:11: ", "a second statement");
	expect_problem(&handlers, "other.json:2:2: ", "did you mean \"timeout\"?");
	expect_problem(&handlers, "open", "chmod go-w");
	expect_problem(&handlers, "fifo", "not a plain file");
	expect_problem(&handlers, "dangling", "No such file");
	jr_handlers_release(&handlers);
	free(fifo);
	free(link);
	free(inner);
}

static void
a_directory_without_handlers_is_refused(void **state)
{
	expect_refusal(*state, "no handler is in");
	add(*state, "README", "text\n", 0644);
	expect_refusal(*state, "no handler is in");
	add(*state, "forgotten", SCRIPT, 0644);
	expect_refusal(*state, "forgotten");
	expect_refusal("/no/such/directory", "No such file");
	expect_refusal("/etc/passwd", "Not a directory");
}

static void
a_directory_others_can_write_to_is_refused(void **state)
{
	add(*state, "good", SCRIPT, 0755);
	assert_int_equal(chmod(*state, 0770), 0);
	expect_refusal(*state, "its group can write to it: chmod go-w /tmp/jobrun-unit-");
	assert_int_equal(chmod(*state, 0707), 0);
	expect_refusal(*state, "everybody can write to it: chmod go-w /tmp/jobrun-unit-");
	/*
	 * Sticky does not help where names must not be chosen by others, however the path is
	 * written.
	 */
	assert_int_equal(chmod(*state, 01777), 0);
	expect_refusal(*state, "everybody can write to it: use a directory of your own");
	for (size_t i = 0; i < 3; i++) {
		static const char *const ends[] = {"/", "/.", "/x/.."};
		char *path = jr_xasprintf("%s%s", (char *)*state, ends[i]);
		char *inner = jr_xasprintf("%s/x", (char *)*state);

		(void)mkdir(inner, 0700);
		expect_refusal(path, "everybody");
		free(path);
		free(inner);
	}
}

static void
a_parent_others_can_write_to_is_refused(void **state)
{
	char *inner = jr_xasprintf("%s/inner", (char *)*state);
	struct jr_handlers handlers;

	assert_int_equal(mkdir(inner, 0755), 0);
	add(inner, "good", SCRIPT, 0755);
	assert_int_equal(chmod(*state, 0775), 0);
	expect_refusal(inner, "its group");
	assert_int_equal(chmod(*state, 01777), 0); /* as /tmp, whose entries only their owners can move */
	load(&handlers, inner);
	jr_handlers_release(&handlers);
	free(inner);
}

static void
symbolic_links_are_followed_and_checked_at_both_ends(void **state)
{
	char *real = jr_xasprintf("%s/real", (char *)*state);
	char *dir = jr_xasprintf("%s/handlers", (char *)*state);
	char *way = jr_xasprintf("%s/way", (char *)*state);
	char *link = jr_xasprintf("%s/good", dir);
	char *loop = jr_xasprintf("%s/loop", dir);
	struct jr_handlers handlers;
	struct jr_err err;

	assert_int_equal(mkdir(real, 0755), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	add(real, "program", SCRIPT, 0755);
	assert_int_equal(symlink("../real/program", link), 0);
	assert_int_equal(symlink("handlers", way), 0);
	load(&handlers, way);
	assert_non_null(jr_handlers_find(&handlers, "good"));
	assert_true(jr_perm_check_file(jr_handlers_find(&handlers, "good")->path, &err));
	assert_int_equal(chmod(real, 0775), 0); /* since the start: the target's directory */
	assert_false(jr_perm_check_file(jr_handlers_find(&handlers, "good")->path, &err));
	assert_non_null(strstr(err.msg, real));
	assert_int_equal(chmod(real, 0755), 0);
	assert_int_equal(chmod(dir, 0775), 0); /* the directory that holds the link */
	assert_false(jr_perm_check_file(jr_handlers_find(&handlers, "good")->path, &err));
	assert_int_equal(chmod(dir, 0755), 0);
	assert_true(jr_perm_check_file(jr_handlers_find(&handlers, "good")->path, &err));
	assert_int_equal(symlink("loop", loop), 0);
	assert_false(jr_perm_check_file(loop, &err));
	jr_handlers_release(&handlers);
	free(real);
	free(dir);
	free(way);
	free(link);
	free(loop);
}

static void
files_of_others_are_refused(void **state)
{
	char *path = make_file(*state, "good", SCRIPT, 0755);
	struct jr_err err;

	if (geteuid() != 0) {
		free(path);
		skip();
		return;
	}
	assert_true(jr_perm_check_file(path, &err));
	assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
	assert_false(jr_perm_check_file(path, &err));
	assert_non_null(strstr(err.msg, "owned by user 12345: chown 0 /tmp/"));
	assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	assert_int_equal(chown(*state, 12345, (gid_t)-1), 0);
	assert_false(jr_perm_check_file(path, &err));
	free(path);
}

static void
another_user_may_use_its_own_files_and_those_of_root(void **state)
{
	char *own = make_file(*state, "own", SCRIPT, 0755);
	char *roots = make_file(*state, "roots", SCRIPT, 0755);
	struct jr_err err;
	bool trusted[3];

	if (geteuid() != 0) {
		free(own);
		free(roots);
		skip();
		return;
	}
	assert_int_equal(chown(own, 12345, (gid_t)-1), 0);
	assert_int_equal(chown(*state, 12345, (gid_t)-1), 0);
	assert_int_equal(seteuid(12345), 0);
	trusted[0] = jr_perm_check_file(own, &err);
	trusted[1] = jr_perm_check_file(roots, &err);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(own, 54321, (gid_t)-1), 0);
	assert_int_equal(seteuid(12345), 0);
	trusted[2] = jr_perm_check_file(own, &err);
	assert_int_equal(seteuid(0), 0);
	assert_true(trusted[0] && trusted[1]);
	assert_false(trusted[2]);
	free(own);
	free(roots);
}

static void
expect_directory(const char *option, const char *expected)
{
	char *directory = jr_handlers_directory(option);

	assert_string_equal(directory, expected);
	free(directory);
}

static void
the_directory_comes_from_option_variable_home_or_etc(void **state)
{
	char *config = jr_xasprintf("%s/.config", (char *)*state);
	char *jobrun = jr_xasprintf("%s/jobrun", config);
	char *own = jr_xasprintf("%s/handlers", jobrun);

	assert_int_equal(setenv("HOME", *state, 1), 0);
	assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
	assert_int_equal(unsetenv("JOBRUN_HANDLERS"), 0);
	expect_directory("/a", "/a");
	expect_directory(NULL, "/etc/jobrun/handlers");
	assert_int_equal(mkdir(config, 0700), 0);
	assert_int_equal(mkdir(jobrun, 0700), 0);
	assert_int_equal(mkdir(own, 0700), 0);
	expect_directory(NULL, own);
	assert_int_equal(setenv("XDG_CONFIG_HOME", "/no/such/place", 1), 0);
	expect_directory(NULL, "/etc/jobrun/handlers");
	assert_int_equal(setenv("XDG_CONFIG_HOME", config, 1), 0);
	expect_directory(NULL, own);
	assert_int_equal(setenv("JOBRUN_HANDLERS", "/b", 1), 0);
	expect_directory(NULL, "/b");
	expect_directory("/a", "/a");
	free(config);
	free(jobrun);
	free(own);
}

static void
a_relative_directory_becomes_absolute(void **state)
{
	int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct jr_handlers handlers;

	add(*state, "good", SCRIPT, 0755);
	assert_int_equal(chdir(*state), 0);
	load(&handlers, ".");
	assert_int_equal(fchdir(before), 0);
	assert_true(handlers.directory[0] == '/');
	assert_int_equal(access(jr_handlers_find(&handlers, "good")->path, X_OK), 0);
	(void)close(before);
	jr_handlers_release(&handlers);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(executables_are_handlers_sorted_by_name),
	    TEST(what_editors_and_packages_leave_is_passed_over),
	    TEST(what_looks_like_a_handler_and_is_none_has_a_line),
	    TEST(a_directory_without_handlers_is_refused),
	    TEST(a_directory_others_can_write_to_is_refused),
	    TEST(a_parent_others_can_write_to_is_refused),
	    TEST(symbolic_links_are_followed_and_checked_at_both_ends),
	    TEST(files_of_others_are_refused),
	    TEST(another_user_may_use_its_own_files_and_those_of_root),
	    TEST(the_directory_comes_from_option_variable_home_or_etc),
	    TEST(a_relative_directory_becomes_absolute),
	};

	return cmocka_run_group_tests_name("handlers", tests, NULL, NULL);
}
