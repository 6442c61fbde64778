/*
 * handlers: what a handler runs besides its own file is judged as it is: interpreters, and scripts that "argv" names.
 */
#include "handlers_files.h"

#include "handler/trust.h"

#include <sys/stat.h>

/* The handlers directory is below another of the test's, in which there are other things. */
struct places {
	char *handlers, *beside;
};

static void
make_places(struct places *places, const char *directory)
{
	places->handlers = jr_xasprintf("%s/handlers", directory);
	places->beside = jr_xasprintf("%s/beside", directory);
	assert_int_equal(mkdir(places->handlers, 0755), 0);
	assert_int_equal(mkdir(places->beside, 0755), 0);
	add(places->handlers, "good", SCRIPT, 0755);
}

static void
free_places(struct places *places)
{
	free(places->handlers);
	free(places->beside);
}

/* The file `name` makes a handler, if `problem` is NULL; else it is refused with a line that has `problem` in it. */
static void
expect(const struct places *places, const char *name, const char *problem)
{
	struct jr_handlers handlers;

	load(&handlers, places->handlers);
	if (problem == NULL && handlers.problem_count > 0)
		fail_msg("%s", handlers.problems[0]);
	if (problem != NULL)
		expect_problem(&handlers, name, problem);
	jr_handlers_release(&handlers);
}

static void
make_sub(const char *directory, const char *name)
{
	char *path = jr_xasprintf("%s/%s", directory, name);

	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
}

static void
link_to(const char *target, const char *directory, const char *name)
{
	char *path = jr_xasprintf("%s/%s", directory, name);

	assert_int_equal(symlink(target, path), 0);
	free(path);
}

/* The text with `around` for its %s, if one begins it. Caller frees. */
static char *
with(const char *text, const char *around)
{
	return strncmp(text, "%s", 2) == 0 ? jr_xasprintf("%s%s", around, text + 2) : jr_xstrdup(text);
}

static void
the_interpreter_of_a_script_is_judged(void **state)
{
	struct places places;
	char *script, *nested;

	make_places(&places, *state);
	script = jr_xasprintf("#! \t%s/tool -x y\n", places.beside);
	nested = jr_xasprintf("#!%s/deep", places.beside);
	add(places.handlers, "work", script, 0755);
	expect(&places, "work:", "its #! line: cannot use /");
	add(places.beside, "tool", SCRIPT, 0755);
	expect(&places, "work:", NULL);
	add(places.beside, "tool", SCRIPT, 0777);
	expect(&places, "work: its #! line: cannot trust /", "/beside/tool: everybody can write to it: chmod go-w /");
	add(places.beside, "tool", SCRIPT, 0644);
	expect(&places, "work: its #! line: cannot execute /", "chmod +x /");
	add(places.beside, "tool", nested, 0755);
	add(places.beside, "deep", SCRIPT, 0775);
	expect(&places, "work: its #! line: cannot trust /", "/beside/deep: its group can write to it: chmod go-w /");
	add(places.beside, "deep", SCRIPT, 0755);
	expect(&places, "work:", NULL);
	assert_int_equal(chmod(places.beside, 0777), 0);
	expect(&places, "work: its #! line: cannot trust /", "/beside: everybody can write to it: chmod go-w /");
	assert_int_equal(chmod(places.beside, 0755), 0);
	if (geteuid() == 0) {
		char *tool = jr_xasprintf("%s/tool", places.beside);

		assert_int_equal(chown(tool, 1, 1), 0);
		expect(&places, "work: its #! line: cannot trust /", "/beside/tool: it is owned by user 1: chown 0 /");
		free(tool);
	}
	free(script);
	free(nested);
	free_places(&places);
}

/* As the kernel reads it; a chain without end is left to it. */
static void
other_lines_name_no_interpreter(void **state)
{
	static const char *const no_lines[] = {"#", "echo #!/no/such/interpreter\n", "\n#!/no/such/interpreter\n",
	    "caf\xC3\xA9\n", "#!\n", "#! \t\n", "#!"};
	struct places places;
	char *round;

	make_places(&places, *state);
	add(places.handlers, "work", "\177ELF#!/no/such", 0755);
	expect(&places, "work:", NULL);
	for (size_t i = 0; i < JR_COUNT(no_lines); i++) {
		add(places.handlers, "work", no_lines[i], 0755);
		expect(&places, "work:", "must begin with a line such as #!/bin/sh");
	}
	add(places.handlers, "work", "", 0755);
	expect(&places, "work:", "it is empty");
	round = jr_xasprintf("#!%s/work", places.handlers);
	add(places.handlers, "work", round, 0755);
	expect(&places, "work:", NULL);
	add(places.handlers, "work", "#!good", 0755);
	expect(&places, "work:", NULL);
	add(places.handlers, "work", "#!bad", 0755);
	expect(&places, "work: its #! line:", "/handlers/bad: No such file");
	free(round);
	free_places(&places);
}

static void
scripts_in_argv_are_judged(void **state)
{
	static const char *const words[] = {"import.py", "./import.py", "sub/../import.py", "%s/import.py"};
	struct places places;

	make_places(&places, *state);
	for (size_t i = 0; i < JR_COUNT(words); i++) {
		bool whole = words[i][0] == '%';
		char *text = jr_xasprintf("{\"argv\": [\"/bin/sh\", \"-x\", \"%s%s\", \"none\"]}",
		    whole ? places.handlers : "", words[i] + (whole ? 2 : 0));

		add(places.handlers, "work.json", text, 0644);
		add(places.handlers, "import.py", "pass", 0644);
		expect(&places, "work.json:", NULL);
		add(places.handlers, "import.py", "pass", 0666);
		if (strstr(words[i], "sub/") == NULL)
			expect(
			    &places, "work.json: cannot trust /", "import.py: everybody can write to it: chmod go-w /");
		free(text);
	}
	free_places(&places);
}

/* Links, directories of their own, and what is started by another program. */
static void
scripts_in_argv_are_judged_wherever_they_are_below(void **state)
{
	struct places places;
	char *target, *link, *sub, *cwd;

	make_places(&places, *state);
	sub = jr_xasprintf("%s/sub", places.handlers);
	assert_int_equal(mkdir(sub, 0755), 0);
	add(sub, "a.py", "pass", 0666);
	add(places.handlers, "work.json", "{\"argv\": [\"/bin/sh\", \"sub/a.py\"]}", 0644);
	expect(&places, "work.json: cannot trust /", "/sub/a.py: everybody can write to it");
	add(sub, "a.py", "pass", 0644);
	assert_int_equal(chmod(sub, 0777), 0);
	expect(&places, "work.json: cannot trust /", "/sub: everybody can write to it");
	assert_int_equal(chmod(sub, 0755), 0);
	expect(&places, "work.json:", NULL);
	cwd = jr_xasprintf("{\"argv\": [\"/bin/sh\", \"a.py\"], \"cwd\": \"%s\"}", sub);
	add(places.handlers, "work.json", cwd, 0644);
	add(sub, "a.py", "pass", 0666);
	expect(&places, "work.json: cannot trust /", "/sub/a.py: everybody can write to it");
	add(sub, "a.py", "pass", 0644);
	target = jr_xasprintf("%s/b.py", places.beside);
	link = jr_xasprintf("%s/b.py", places.handlers);
	add(places.beside, "b.py", "pass", 0666);
	assert_int_equal(symlink(target, link), 0);
	add(places.handlers, "work.json", "{\"argv\": [\"/bin/sh\", \"b.py\"]}", 0644);
	expect(&places, "work.json: cannot trust /", "/beside/b.py: everybody can write to it");
	add(places.beside, "b.py", "pass", 0644);
	expect(&places, "work.json:", NULL);
	add(places.beside, "b.py", "#!/no/such/interpreter\n", 0755);
	expect(&places, "work.json: its #! line:", "/no");
	free(target);
	free(link);
	free(cwd);
	free(sub);
	free_places(&places);
}

/* The handlers directory and the argument may both be spelled in many ways, and the script be a link out of it. */
static void
scripts_in_argv_are_judged_however_they_are_spelled(void **state)
{
	/* %s: the directory around; in it are "handlers", "alias", a link to that, and "beside". */
	static const char *const directories[] = {"%s/handlers", "%s/alias", "%s/beside/../handlers"};
	static const char *const words[] = {"b.py", "../handlers/b.py", "sub/../b.py", "link/b.py", "%s/alias/b.py",
	    "%s/handlers/b.py", "%s/./handlers//b.py", "%s/beside/../alias/./b.py"};
	struct places places;
	char *around, *target;

	make_places(&places, *state);
	around = *state;
	target = jr_xasprintf("%s/b.py", places.beside);
	add(places.beside, "b.py", "pass", 0666);
	link_to(target, places.handlers, "b.py");
	link_to(places.handlers, around, "alias");
	link_to(places.beside, places.handlers, "link");
	make_sub(places.handlers, "sub");
	for (size_t i = 0; i < JR_COUNT(directories) * JR_COUNT(words); i++) {
		struct places spelled = {.handlers = with(directories[i / JR_COUNT(words)], around)};
		char *word = with(words[i % JR_COUNT(words)], around);
		char *text = jr_xasprintf("{\"argv\": [\"/bin/sh\", \"%s\"]}", word);

		add(places.handlers, "work.json", text, 0644);
		expect(&spelled, "work.json: cannot trust /", "/beside/b.py: everybody can write to it");
		free(text);
		free(word);
		free(spelled.handlers);
	}
	add(places.handlers, "work.json", "{\"argv\": [\"/bin/sh\", \"../beside/b.py\", \"link/../beside/b.py\"]}",
	    0644);
	expect(&places, "work.json:", NULL);
	free(target);
	free_places(&places);
}

/* Data that a program reads or writes elsewhere is its own affair. */
static void
other_arguments_are_not_judged(void **state)
{
	struct places places;
	char *text;

	make_places(&places, *state);
	add(places.beside, "data", "x", 0666);
	text = jr_xasprintf(
	    "{\"argv\": [\"/bin/sh\", \"%s/data\", \"../beside/data\", \"\", \".\", \"none\", \"-\"]}", places.beside);
	add(places.handlers, "work.json", text, 0644);
	expect(&places, "work.json:", NULL);
	free(text);
	free_places(&places);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A rename, as editors and installers do it: `work` is another file then. */
static void
exchange(const struct places *places, const char *text, mode_t mode)
{
	char *from = jr_xasprintf("%s/new", places->beside), *to = jr_xasprintf("%s/work", places->handlers);

	add(places->beside, "new", text, mode);
	assert_int_equal(rename(from, to), 0);
	free(from);
	free(to);
}

/* Judge as it is done before a start. problem: NULL if it may be started. */
static void
judge_again(const struct jr_handler *handler, const char *problem)
{
	struct jr_err err = {.msg = ""};
	bool good = jr_trust_check(handler, &err);

	if (good != (problem == NULL) || (problem != NULL && strstr(err.msg, problem) == NULL))
		fail_msg("\"%s\" instead of \"%s\"", err.msg, problem != NULL ? problem : "");
}

static void
a_change_is_found_before_the_next_start(void **state)
{
	struct places places;
	struct jr_handlers handlers;
	const struct jr_handler *work;
	char *path, *tool, *script;

	make_places(&places, *state);
	add(places.beside, "tool", SCRIPT, 0755);
	tool = jr_xasprintf("%s/tool", places.beside);
	script = jr_xasprintf("#!%s\n", tool);
	path = jr_xasprintf("%s/work", places.handlers);
	add(places.handlers, "work", SCRIPT, 0755);
	load(&handlers, places.handlers);
	work = jr_handlers_find(&handlers, "work");
	assert_non_null(work);
	for (int i = 0; i < 3; i++)
		judge_again(work, NULL);
	assert_int_equal(chmod(path, 0775), 0);
	judge_again(work, "work: its group can write to it");
	judge_again(work, "work: its group can write to it");
	assert_int_equal(chmod(path, 0755), 0);
	judge_again(work, NULL);
	exchange(&places, SCRIPT, 0777);
	judge_again(work, "work: everybody can write to it");
	exchange(&places, SCRIPT, 0755);
	judge_again(work, NULL);
	exchange(&places, SCRIPT, 0644);
	judge_again(work, "cannot execute");
	exchange(&places, script, 0755);
	judge_again(work, NULL);
	assert_int_equal(chmod(tool, 0775), 0);
	judge_again(work, "its #! line: cannot trust ");
	assert_int_equal(chmod(tool, 0755), 0);
	judge_again(work, NULL);
	assert_int_equal(unlink(path), 0);
	judge_again(work, "No such file");
	assert_int_equal(symlink(tool, path), 0);
	judge_again(work, NULL);
	add(places.beside, "tool", SCRIPT, 0775);
	assert_int_equal(chmod(tool, 0775), 0);
	judge_again(work, "tool: its group can write to it");
	jr_handlers_release(&handlers);
	free(script);
	free(tool);
	free(path);
	free_places(&places);
}

/* One that was opened to others counts at once if they have used it, and otherwise soon. */
static void
a_directory_that_was_opened_is_found(void **state)
{
	struct places places;
	struct jr_handlers handlers;
	const struct jr_handler *work;
	struct jr_err err;
	int tries = 0;

	make_places(&places, *state);
	add(places.handlers, "work", SCRIPT, 0755);
	load(&handlers, places.handlers);
	work = jr_handlers_find(&handlers, "work");
	assert_non_null(work);
	judge_again(work, NULL);
	assert_int_equal(chmod(places.handlers, 0777), 0);
	exchange(&places, SCRIPT, 0755);
	judge_again(work, "handlers: everybody can write to it");
	assert_int_equal(chmod(places.handlers, 0755), 0);
	judge_again(work, NULL);
	assert_int_equal(chmod(*state, 0777), 0);
	while (jr_trust_check(work, &err) && tries++ < 100)
		(void)usleep(JR_TRUST_MS * 1000 / 20);
	judge_again(work, "everybody can write to it");
	assert_int_equal(chmod(*state, 0755), 0);
	judge_again(work, NULL);
	jr_handlers_release(&handlers);
	free_places(&places);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_interpreter_of_a_script_is_judged),
	    TEST(other_lines_name_no_interpreter),
	    TEST(scripts_in_argv_are_judged),
	    TEST(scripts_in_argv_are_judged_wherever_they_are_below),
	    TEST(scripts_in_argv_are_judged_however_they_are_spelled),
	    TEST(other_arguments_are_not_judged),
	    TEST(a_change_is_found_before_the_next_start),
	    TEST(a_directory_that_was_opened_is_found),
	};

	return cmocka_run_group_tests_name("handlers_trust", tests, NULL, NULL);
}
