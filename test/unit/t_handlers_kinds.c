/*
 * handlers: which files make which kind of handler, and which problem refuses the whole of a job type.
 */
#include "handlers_files.h"

/* The handler of a type that must be there. */
static const struct jr_handler *
find(const struct jr_handlers *handlers, const char *job_type, const struct jr_handler_kind *kind)
{
	const struct jr_handler *handler = jr_handlers_find(handlers, job_type);

	for (size_t i = 0; handler == NULL && i < handlers->problem_count; i++)
		print_message("%s\n", handlers->problems[i]);
	if (handler == NULL) {
		fail_msg("%s has no handler", job_type);
		abort(); /* never reached, which static analysis cannot know */
	}
	assert_ptr_equal(handler->kind, kind);
	return handler;
}

static void
each_kind_comes_from_its_files(void **state)
{
	struct jr_handlers handlers;
	const struct jr_handler *handler;

	add(*state, "a", SCRIPT, 0755);
	add(*state, "a.json", "{\"timeout\": \"5m\"}", 0600);
	add(*state, "a-b.sql", "select $1;", 0644);
	add(*state, "b.sql", "select 2", 0600);
	add(*state, "b.json", "{\"batch\": 10}", 0644);
	add(*state, "c.json", "{\"argv\": [\"a\", \"-x\"]}", 0644);
	add(*state, "d.json", "{\"http\": {\"url\": \"http://localhost/\"}}", 0755);
	add(*state, "e.sql", "select 5", 0755);
	add(*state, "e", "notes\n", 0644);
	load(&handlers, *state);
	assert_int_equal(handlers.problem_count, 0);
	assert_int_equal(handlers.count, 8);
	handler = find(&handlers, "a", &jr_handler_exec);
	assert_int_equal(handler->settings.timeout_ms, 300000);
	assert_string_equal(strrchr(handler->path, '/'), "/a");
	assert_string_equal(strrchr(handler->settings_path, '/'), "/a.json");
	assert_null(handler->sql);
	handler = find(&handlers, "a-b", &jr_handler_sql);
	assert_string_equal(handler->sql, "select $1;");
	assert_null(handler->settings_path);
	handler = find(&handlers, "b", &jr_handler_sql);
	assert_int_equal(handler->settings.batch, 10);
	handler = find(&handlers, "c", &jr_handler_exec);
	assert_string_equal(strrchr(handler->settings.argv[0], '/'), "/a");
	assert_string_equal(strrchr(handler->path, '/'), "/c.json");
	assert_string_equal(handler->settings_path, handler->path);
	handler = find(&handlers, "d", &jr_handler_http);
	assert_string_equal(handler->settings.http->url, "http://localhost/");
	assert_string_equal(find(&handlers, "e", &jr_handler_sql)->sql, "select 5");
	jr_handlers_release(&handlers);
}

static void
a_type_with_a_bad_file_has_no_handler(void **state)
{
	static const struct {
		const char *type, *file, *text;
	} problems[] = {
	    {"both", "both:", "both both and both.sql are here"},
	    {"limits", "limits.json:1:2:", "did you mean"},
	    {"two", "two.sql:1:11:", "a second statement"},
	    {"latin", "latin.sql:", "not UTF-8"},
	    {"void", "void.sql:1:1:", "there is no statement"},
	    {"Upper", "Upper.json:", "not a job type"},
	    {"jobrun.mine", "jobrun.mine.sql:", "reserved"},
	    {"open", "open.sql:", "chmod go-w"},
	    {"told", "told.json:", "chmod go-w"},
	    {"alone", "alone.json:", "cannot use /no"},
	    {"mixed", "mixed.json:1:2:", "makes a handler of its own"},
	    {"forgotten", "forgotten:", "chmod +x"},
	    {"gone", "gone.json:", "No such file"},
	};
	char *link = jr_xasprintf("%s/gone.json", (char *)*state);
	struct jr_handlers handlers;

	add(*state, "good", SCRIPT, 0755);
	add(*state, "both", SCRIPT, 0755);
	add(*state, "both.sql", "select 1", 0644);
	add(*state, "both.json", "{\"wrong\": 1}", 0644);
	add(*state, "limits", SCRIPT, 0755);
	add(*state, "limits.json", "{\"memroy\": \"1G\"}", 0644);
	add(*state, "two.sql", "select 1; select 2", 0644);
	add(*state, "latin.sql", "select '\xE4'", 0644);
	add(*state, "void.sql", "", 0644);
	add(*state, "Upper.json", "{}", 0644);
	add(*state, "jobrun.mine.sql", "select 1", 0644);
	add(*state, "open.sql", "select 1", 0666);
	add(*state, "told.sql", "select 1", 0644);
	add(*state, "told.json", "{}", 0664);
	add(*state, "alone.json", "{\"argv\": [\"/no/such/program\"]}", 0644);
	add(*state, "mixed", SCRIPT, 0755);
	add(*state, "mixed.json", "{\"argv\": [\"good\"]}", 0644);
	add(*state, "forgotten", SCRIPT, 0644);
	add(*state, "forgotten.json", "{}", 0644);
	add(*state, "gone", SCRIPT, 0755);
	assert_int_equal(symlink("/no/such/target", link), 0);
	load(&handlers, *state);
	assert_int_equal(handlers.count, 3);
	assert_int_equal(handlers.problem_count, JR_COUNT(problems));
	for (size_t i = 0; i < JR_COUNT(problems); i++) {
		const char *line = jr_handlers_problem_of(&handlers, problems[i].type);

		expect_problem(&handlers, problems[i].file, problems[i].text);
		assert_non_null(line);
		assert_memory_equal(line, problems[i].file, strlen(problems[i].file));
		assert_null(jr_handlers_find(&handlers, problems[i].type));
	}
	assert_null(jr_handlers_problem_of(&handlers, "good"));
	assert_null(jr_handlers_problem_of(&handlers, "bot"));
	jr_handlers_release(&handlers);
	free(link);
}

static void
a_statement_has_a_limit(void **state)
{
	size_t limit = 1048576;
	char *text = jr_xmalloc(limit + 2);
	struct jr_handlers handlers;

	memset(text, ' ', limit + 1);
	memcpy(text, "select 1", 8);
	text[limit] = '\0';
	add(*state, "fits.sql", text, 0644);
	text[limit] = ' ';
	text[limit + 1] = '\0';
	add(*state, "large.sql", text, 0644);
	load(&handlers, *state);
	assert_int_equal(handlers.count, 3);
	assert_int_equal(strlen(find(&handlers, "fits", &jr_handler_sql)->sql), limit);
	expect_problem(&handlers, "large.sql:", "larger than 1048576 bytes");
	jr_handlers_release(&handlers);
	free(text);
}

static void
a_directory_without_handlers_can_be_read(void **state)
{
	struct jr_handlers handlers;
	struct jr_err err;

	assert_true(jr_handlers_read(&handlers, *state, &err));
	assert_int_equal(handlers.count, 2);
	assert_int_equal(handlers.problem_count, 0);
	assert_false(jr_handlers_check(&handlers, &err));
	assert_non_null(strstr(err.msg, "no handler is in"));
	jr_handlers_release(&handlers);
	add(*state, "bad.json", "", 0644);
	assert_true(jr_handlers_read(&handlers, *state, &err));
	assert_int_equal(handlers.problem_count, 1);
	assert_false(jr_handlers_check(&handlers, &err));
	assert_string_equal(err.msg, handlers.problems[0]);
	jr_handlers_release(&handlers);
}

/* What is found for `word`, and what a shell would say of it. */
static void
expect_command(const char *word, const char *path, int status)
{
	char *argv[] = {(char *)(uintptr_t)word, (char *)(uintptr_t) "two words", NULL};
	struct jr_handlers handlers;

	jr_handlers_of_command(&handlers, "old", argv);
	assert_int_equal(handlers.count, 1);
	assert_ptr_equal(jr_handlers_find(&handlers, "old"), &handlers.items[0]);
	assert_true(handlers.items[0].as_is);
	assert_string_equal(handlers.items[0].path, path);
	assert_string_equal(handlers.items[0].settings.argv[0], word);
	assert_string_equal(handlers.items[0].settings.argv[1], "two words");
	assert_null(handlers.items[0].settings.argv[2]);
	assert_int_equal(jr_handlers_command_status(&handlers.items[0]), status);
	jr_handlers_release(&handlers);
}

static void
a_command_is_found_as_a_shell_does_it(void **state)
{
	const char *directory = *state;
	char *before = jr_xstrdup_or_null(getenv("PATH"));
	char *path = jr_xasprintf("/no/such:%s:/bin", directory);
	char *plain = make_file(directory, "plain", "", 0600);
	char *tool = make_file(directory, "tool", "", 0755);

	free(make_file(directory, "sh", "", 0600)); /* is passed over, since another can be executed */
	setenv("PATH", path, 1);
	expect_command("tool", tool, 126);
	expect_command("plain", plain, 126);
	expect_command("sh", "/bin/sh", 126);
	expect_command("no-such", "no-such", 127);
	expect_command("/no/such", "/no/such", 127);
	expect_command(directory, directory, 126);
	expect_command("", "", 127);
	if (before != NULL)
		setenv("PATH", before, 1);
	free(before);
	free(path);
	free(plain);
	free(tool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(each_kind_comes_from_its_files),
	    TEST(a_type_with_a_bad_file_has_no_handler),
	    TEST(a_statement_has_a_limit),
	    TEST(a_directory_without_handlers_can_be_read),
	    TEST(a_command_is_found_as_a_shell_does_it),
	};

	return cmocka_run_group_tests_name("handlers_kinds", tests, NULL, NULL);
}
