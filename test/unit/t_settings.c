/*
 * settings: NAME.json of exec and sql handlers: each member understood, and each mistake refused with its place. What
 * "http" says is in t_settings_http.c.
 */
#include "settings_files.h"

#define EXEC JR_SETTINGS_EXEC
#define SQL JR_SETTINGS_SQL
#define ALONE JR_SETTINGS_ALONE

static void
nothing_said_is_nothing_set(void **state)
{
	struct jr_settings settings, untouched;

	jr_settings_init(&untouched);
	understand(&settings, *state, EXEC, " {\n} \n");
	assert_memory_equal(&settings, &untouched, sizeof(settings));
	assert_int_equal(settings.timeout_ms, -1);
	assert_int_equal(settings.timeout_max_ms, -1);
	assert_int_equal(settings.limits.memory, -1);
	jr_settings_release(&settings);
	jr_settings_release(&settings);
}

static void
every_member_of_a_program_is_understood(void **state)
{
	struct jr_settings settings;

	understand(&settings, *state, EXEC,
	    "{\"timeout\": \"1h30m\", \"grace\": \"0\", \"cwd\": \"sub/dir\", \"nice\": -20, \"cpu\": \"1500ms\", \"memory\": \"512M\", \"files\": 8, \"processes\": 1, \"env\": {\"A\": \"x=y\", \"_b2\": \"\", \"C\": \"\\u00e4\"}, \"give_up\": [1, 255], \"later\": []}");
	assert_int_equal(settings.timeout_ms, 5400000);
	assert_int_equal(settings.grace_ms, 0);
	assert_true(strncmp(settings.cwd, *state, strlen(*state)) == 0);
	assert_string_equal(settings.cwd + strlen(*state), "/sub/dir");
	assert_true(settings.limits.has_nice);
	assert_int_equal(settings.limits.nice, -20);
	assert_int_equal(settings.limits.cpu_s, 2);
	assert_int_equal(settings.limits.memory, 536870912);
	assert_int_equal(settings.limits.files, 8);
	assert_int_equal(settings.limits.processes, 1);
	assert_string_equal(settings.env[0], "A=x=y");
	assert_string_equal(settings.env[1], "_b2=");
	assert_string_equal(settings.env[2], "C=\xC3\xA4");
	assert_null(settings.env[3]);
	assert_true(settings.rules.give_up_set && settings.rules.later_set);
	assert_int_equal(settings.rules.give_up.count, 2);
	assert_string_equal(settings.rules.give_up.items[1], "255");
	assert_int_equal(settings.rules.later.count, 0);
	assert_false(settings.limits.has_account);
	assert_null(settings.argv);
	assert_null(settings.http);
	assert_false(settings.isolate);
	jr_settings_release(&settings);
	assert_null(settings.cwd);
}

static void
isolate_has_one_value(void **state)
{
	struct jr_settings settings;
	json_t *document;
	char *words;

	understand(&settings, *state, EXEC, "{\"isolate\": \"pidns\"}");
	assert_true(settings.isolate);
	words = jr_settings_words(&settings);
	assert_string_equal(words, "isolate pidns");
	document = jr_settings_document(&settings);
	assert_string_equal(json_string_value(json_object_get(document, "isolate")), "pidns");
	json_decref(document);
	free(words);
	jr_settings_release(&settings);
	assert_false(settings.isolate);
	refuse(
	    *state, EXEC, "{\"isolate\": \"pidsn\"}", "1:2: isolate: unknown value \"pidsn\"; did you mean \"pidns\"?");
	refuse(*state, EXEC, "{\"isolate\": \"container\"}",
	    "1:2: isolate: unknown value \"container\"; the known one is \"pidns\"");
	refuse(*state, EXEC, "{\"isolate\": true}", "1:2: isolate: expected \"pidns\", not true");
	refuse(*state, EXEC, "{\"isolate\": \"\"}", "1:2: isolate: expected \"pidns\", not \"\"");
	refuse(
	    *state, EXEC, "{\"isolated\": \"pidns\"}", "1:2: unknown member \"isolated\"; did you mean \"isolate\"?");
	refuse(*state, SQL, "{\"isolate\": \"pidns\"}",
	    "1:2: \"isolate\" goes with an exec handler, this is a sql handler");
	refuse(*state, ALONE, "{\"isolate\": \"pidns\", \"http\": {\"url\": \"http://a\"}}",
	    "1:2: \"isolate\" goes with an exec handler, this is an http handler");
}

static void
no_time_is_no_limit_and_less_than_a_second_of_processor_is_one(void **state)
{
	struct jr_settings settings;

	understand(&settings, *state, EXEC, "{\"timeout\": \"0\", \"timeout_max\": \"1h\", \"cpu\": \"500ms\"}");
	assert_int_equal(settings.timeout_ms, 0);
	assert_int_equal(settings.timeout_max_ms, 3600000);
	assert_int_equal(settings.limits.cpu_s, 1);
	jr_settings_release(&settings);
}

static void
every_member_of_a_statement_is_understood(void **state)
{
	struct jr_settings settings;

	understand(&settings, *state, SQL,
	    "{\"batch\": 1000, \"timeout\": \"1ms\", \"give_up\": [\"22\", \"JR065\"], \"later\": [\"55P03\"]}");
	assert_int_equal(settings.batch, 1000);
	assert_int_equal(settings.timeout_ms, 1);
	assert_string_equal(settings.rules.give_up.items[0], "22");
	assert_string_equal(settings.rules.give_up.items[1], "JR065");
	assert_string_equal(settings.rules.later.items[0], "55P03");
	jr_settings_release(&settings);
}

static void
sizes_are_bytes_or_have_a_letter(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} sizes[] = {{"\"1024K\"", 1048576}, {"\"1M\"", 1048576}, {"\"2G\"", INT64_C(2147483648)},
	    {"\"1048576\"", 1048576}, {"2097152", 2097152}};

	for (size_t i = 0; i < JR_COUNT(sizes); i++) {
		char *text = jr_xasprintf("{\"memory\": %s}", sizes[i].text);
		struct jr_settings settings;

		understand(&settings, *state, EXEC, text);
		assert_int_equal(settings.limits.memory, sizes[i].bytes);
		jr_settings_release(&settings);
		free(text);
	}
}

static void
a_program_of_its_own_is_found_from_the_directory(void **state)
{
	char *expected = jr_xasprintf("%s/bin/send", (char *)*state);
	struct jr_settings settings;

	understand(&settings, *state, ALONE, "{\"argv\": [\"bin/send\", \"\", \"-x\"], \"nice\": 1}");
	assert_string_equal(settings.argv[0], expected);
	assert_string_equal(settings.argv[1], "");
	assert_string_equal(settings.argv[2], "-x");
	assert_null(settings.argv[3]);
	jr_settings_release(&settings);
	understand(&settings, *state, ALONE, "{\"argv\": [\"/bin/true\"]}");
	assert_string_equal(settings.argv[0], "/bin/true");
	jr_settings_release(&settings);
	understand(&settings, *state, ALONE, "{\"argv\": [\"send.json\"]}"); /* a file of the directory */
	jr_settings_release(&settings);
	free(expected);
}

static void
accounts_are_looked_up_with_their_groups(void **state)
{
	struct jr_settings settings;

	if (geteuid() != 0) {
		refuse(*state, EXEC, "{\"user\": \"root\"}", "1:2: user: only when jobrun is started");
		return;
	}
	understand(&settings, *state, EXEC, "{\"user\": \"root\"}");
	assert_string_equal(settings.user, "root");
	assert_true(settings.limits.has_account);
	assert_int_equal(settings.limits.uid, 0);
	assert_int_equal(settings.limits.gid, 0);
	assert_true(settings.limits.group_count >= 1);
	assert_int_equal(settings.limits.groups[0], 0);
	jr_settings_release(&settings);
	refuse(*state, EXEC, "{\"user\": \"no-such-account\"}",
	    "1:2: user: there is no account \"no-such-account\" on this host");
}

static void
no_new_privs_goes_with_user_unless_said(void **state)
{
	static const struct {
		const char *text;
		bool for_root, no_new_privs;
	} cases[] = {
	    {"{}", false, false},
	    {"{\"no_new_privs\": true}", false, true},
	    {"{\"no_new_privs\": false}", false, false},
	    {"{\"user\": \"root\"}", true, true},
	    {"{\"user\": \"root\", \"no_new_privs\": false}", true, false},
	    {"{\"no_new_privs\": false, \"user\": \"root\"}", true, false},
	};
	struct jr_settings settings;

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		if (cases[i].for_root && geteuid() != 0)
			continue;
		understand(&settings, *state, EXEC, cases[i].text);
		if (settings.limits.no_new_privs != cases[i].no_new_privs)
			fail_msg("%s", cases[i].text);
		jr_settings_release(&settings);
	}
	refuse(*state, EXEC, "{\"no_new_privs\": 1}", "1:2: no_new_privs: expected true or false");
}

static void
only_root_may_name_an_account(void **state)
{
	char *path = make_file(*state, "send.json", "{\"user\": \"root\"}", 0644);
	struct jr_settings settings;
	struct jr_err err;
	bool ok;

	if (geteuid() != 0) {
		free(path);
		skip();
		return;
	}
	assert_int_equal(chmod(*state, 0755), 0);
	assert_int_equal(seteuid(12345), 0);
	ok = jr_settings_read(&settings, path, *state, EXEC, &err);
	assert_int_equal(seteuid(0), 0);
	assert_false(ok);
	assert_non_null(strstr(err.msg, "send.json:1:2: user: a handler can run as \""));
	free(path);
}

static void
what_is_no_document_is_refused_with_its_place(void **state)
{
	static const struct refusal refusals[] = {
	    {EXEC, "", "1:1: the file is empty; write {}"},
	    {EXEC, " \n\n", "3:1: the file is empty"},
	    {EXEC, "[]", "1:1: expected an object, { ... }, not a list"},
	    {EXEC, "5", "1:1: '[' or '{' expected near '5'"},
	    {EXEC, "{\n\t\"timeout\": \"5m\",\n}", "3:1: string or '}' expected near '}'"},
	    {EXEC, "{\n\"timeout\" \"5m\"}", "2:14: ':' expected"},
	    {EXEC, "{} {}", "1:4: end of file expected near '{'"},
	    {EXEC, "{\"a\": \"\xFF\"}", "1:7: unable to decode byte 0xff"},
	    {EXEC, "{\"timeout\": \"1m\",\n \"timeout\": \"2m\"}", "2:10: duplicate object key near '\"timeout\"'"},
	    {EXEC, "{\"env\": {\"A\": \"\\u0000\"}}", "1:22: \\u0000 is not allowed"},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
no_piece_of_a_string_is_shown(void **state)
{
	struct jr_settings settings;
	struct jr_err err;

	assert_false(read_text(&settings, *state, ALONE,
	    "{\"http\": {\"headers\": {\"Authorization\": \"x\" \"Bearer hunter2\"}}}", &err));
	assert_null(strstr(err.msg, "hunter2"));
	assert_non_null(strstr(err.msg, "send.json:1:"));
}

static void
unknown_members_are_refused_with_the_nearest(void **state)
{
	static const struct refusal refusals[] = {
	    {EXEC, "{\n  \"nice\": 1,\n\t\"tiemout\": \"5m\"\n}",
		"3:2: unknown member \"tiemout\"; did you mean \"timeout\"?"},
	    {EXEC, "{\"Timeout\": \"5m\"}", "1:2: unknown member \"Timeout\"; did you mean"},
	    {SQL, "{\"xyzzyx\": 1}",
		"1:2: unknown member \"xyzzyx\"; the known ones are timeout, timeout_max, grace, give_up, later, batch"},
	    {ALONE, "{\"htpp\": {}}", "1:2: unknown member \"htpp\"; did you mean \"http\"?"},
	    {EXEC, "{\"env\": {\"tiemout\": \"x\"}, \"tiemout\": 1}", "1:27: unknown member"},
	    {EXEC, "{\"\\u0074iemout\": 1}", "1:1: unknown member \"tiemout\""},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
members_of_another_kind_are_refused(void **state)
{
	static const struct refusal refusals[] = {
	    {EXEC, "{\"batch\": 5}", "1:2: \"batch\" goes with a sql handler, this is an exec handler"},
	    {SQL, "{\"nice\": 5}", "1:2: \"nice\" goes with an exec handler, this is a sql handler"},
	    {ALONE, "{\"http\": {\"url\": \"http://x\"}, \"env\": {}}",
		"1:31: \"env\" goes with an exec handler, this is an http handler"},
	    {ALONE, "{\"argv\": [\"/bin/true\"], \"batch\": 2}", "1:25: \"batch\" goes with a sql handler"},
	    {EXEC, "{\"http\": {}}", "1:2: \"http\" makes a handler of its own, but there is an executable"},
	    {SQL, "{\"argv\": []}", "1:2: \"argv\" makes a handler of its own, but there is a .sql"},
	    {ALONE, "{\"argv\": [], \"http\": {}}", "1:14: \"http\" and \"argv\" are both here"},
	    {ALONE, "\n {}", "2:2: \"http\" or \"argv\" is missing"},
	    {ALONE, "{\"nice\": 5}", "1:1: \"http\" or \"argv\" is missing"},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
wrong_values_are_refused(void **state)
{
	static const struct refusal refusals[] = {
	    {EXEC, "{\"timeout\": 600}", "1:2: timeout: 600 has no unit; write \"600s\" or \"600m\""},
	    {EXEC, "{\"timeout\": \"600\"}", "1:2: timeout: \"600\" has no unit; write 600s or 600m"},
	    {EXEC, "{\"timeout\": 1.5}", "1:2: timeout: expected a duration like \"10m\", not a number"},
	    {EXEC, "{\"grace\": null}", "1:2: grace: expected a duration like \"10m\", not null"},
	    {EXEC, "{\"grace\": \"-5s\"}", "1:2: grace: \"-5s\" is negative"},
	    {EXEC, "{\"nice\": 20}", "1:2: nice: 20 is out of range, expected -20 to 19"},
	    {EXEC, "{\"nice\": -21}", "1:2: nice: -21 is out of range"},
	    {EXEC, "{\"nice\": \"5\"}", "1:2: nice: expected a whole number, not a string"},
	    {EXEC, "{\"nice\": 1.0}", "1:2: nice: expected a whole number, not a number with a point"},
	    {EXEC, "{\"cpu\": \"0\"}", "1:2: cpu: \"0\" is too short, at least 1ms"},
	    {EXEC, "{\"cpu\": 30}", "1:2: cpu: 30 has no unit"},
	    {EXEC, "{\"memory\": \"512m\"}", "1:2: memory: \"512m\" is not a size; write it like \"512M\""},
	    {EXEC, "{\"memory\": \"M\"}", "1:2: memory: \"M\" is not a size"},
	    {EXEC, "{\"memory\": \"\"}", "1:2: memory: \"\" is not a size"},
	    {EXEC, "{\"memory\": \"-1G\"}", "1:2: memory: \"-1G\" is not a size"},
	    {EXEC, "{\"memory\": \"9000000000000G\"}", "1:2: memory: \"9000000000000G\" is not a size"},
	    {EXEC, "{\"memory\": 512}", "1:2: memory: 512 bytes are too little, at least \"1M\""},
	    {EXEC, "{\"memory\": true}", "1:2: memory: expected a size like \"512M\", not true"},
	    {EXEC, "{\"files\": 7}", "1:2: files: 7 is out of range, expected 8 to "},
	    {EXEC, "{\"processes\": 0}", "1:2: processes: 0 is out of range, expected 1 to "},
	    {EXEC, "{\"cwd\": \"\"}", "1:2: cwd: expected a path, not \"\""},
	    {EXEC, "{\"cwd\": 1}", "1:2: cwd: expected a path, not a number"},
	    {EXEC, "{\"user\": \"0\"}", "1:2: user: \"0\" is a number; write the account's name"},
	    {EXEC, "{\"user\": 0}", "1:2: user: expected the name of an account, not a number"},
	    {EXEC, "{\"env\": []}", "1:2: env: expected an object of names and strings, not a list"},
	    {EXEC, "{\"env\": {\"A\": 1}}", "1:10: env.A: expected a string, not a number"},
	    {EXEC, "{\"env\": {\"1A\": \"\"}}", "1:10: env: \"1A\" cannot be a variable"},
	    {EXEC, "{\"env\": {\"A=\": \"\"}}", "1:10: env: \"A=\" cannot be a variable"},
	    {EXEC, "{\"env\": {\"\": \"\"}}", "1:10: env: \"\" cannot be a variable"},
	    {EXEC, "{\"env\": {\"B\": \"\",\n\"JOBRUN_KEY\": \"\"}}",
		"2:1: env.JOBRUN_KEY: jobrun itself sets variables that begin with JOBRUN_"},
	    {ALONE, "{\"argv\": []}", "1:2: argv: the list is empty"},
	    {ALONE, "{\"argv\": \"/bin/true\"}", "1:2: argv: expected a list, not a string"},
	    {ALONE, "{\"argv\": [\"/bin/true\",\n 1]}", "2:2: argv: expected strings, not a number"},
	    {ALONE, "{\"argv\": [\"\"]}", "1:11: argv: expected the path of a program, not \"\""},
	    {ALONE, "{\"argv\": [\"python3\", \"x\"]}",
		"1:11: argv: there is no \"python3\" in the handlers directory, and PATH is not searched: write the whole path"},
	    {SQL, "{\"batch\": 0}", "1:2: batch: 0 is out of range, expected 1 to 1000"},
	    {SQL, "{\"batch\": 1001}", "1:2: batch: 1001 is out of range"},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
wrong_codes_are_refused(void **state)
{
	static const struct refusal refusals[] = {
	    {EXEC, "{\"give_up\": 65}", "1:2: give_up: expected a list, not a number"},
	    {EXEC, "{\"give_up\": [0]}", "1:14: give_up: 0 is out of range, expected 1 to 255"},
	    {EXEC, "{\"later\": [1, 256]}", "1:15: later: 256 is out of range"},
	    {EXEC, "{\"later\": [\"75\"]}", "1:12: later: expected whole numbers, not a string"},
	    {EXEC, "{\"later\": [3, 4],\n\"give_up\": [4]}", "1:15: later: 4 is in \"give_up\" too"},
	    {SQL, "{\"later\": [40]}", "1:12: later: expected strings like \"23505\" or \"23\", not a number"},
	    {SQL, "{\"later\": [\"4001\"]}", "1:12: later: \"4001\" is not an SQLSTATE"},
	    {SQL, "{\"later\": [\"jr075\"]}", "1:12: later: \"jr075\" is not an SQLSTATE"},
	    {SQL, "{\"later\": [\"22\"], \"give_up\": [\"22\"]}", "1:12: later: 22 is in \"give_up\" too"},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
files_and_lists_have_a_limit(void **state)
{
	char *text = jr_xmalloc(JR_SETTINGS_MAX + 2);
	struct jr_settings settings;

	memset(text, ' ', JR_SETTINGS_MAX + 1);
	text[0] = '{';
	text[1] = '}';
	text[JR_SETTINGS_MAX] = '\0';
	understand(&settings, *state, EXEC, text);
	text[JR_SETTINGS_MAX] = ' ';
	text[JR_SETTINGS_MAX + 1] = '\0';
	refuse(*state, EXEC, text, " larger than 65536 bytes");
	memset(text, ' ', JR_SETTINGS_MAX);
	memcpy(text, "{\"give_up\": [1", 14);
	for (size_t i = 0; i < 100; i++)
		memcpy(text + 14 + i * 2, ",1", 2);
	memcpy(text + 214, "]}", 3);
	refuse(*state, EXEC, text, "1:2: give_up: more than 100 elements");
	memcpy(text + 212, "]}", 3);
	understand(&settings, *state, EXEC, text);
	jr_settings_release(&settings);
	free(text);
}

static void
a_file_that_cannot_be_read_is_refused(void **state)
{
	char *missing = jr_xasprintf("%s/missing.json", (char *)*state);
	struct jr_settings settings;
	struct jr_err err;

	assert_false(jr_settings_read(&settings, missing, *state, EXEC, &err));
	assert_non_null(strstr(err.msg, "missing.json: cannot read /tmp/"));
	assert_false(jr_settings_read(&settings, *state, *state, EXEC, &err));
	assert_non_null(strstr(err.msg, "Is a directory"));
	free(missing);
}

static void
columns_are_characters(void **state)
{
	refuse(*state, EXEC, "{\"env\": {\"A\": \"\xC3\xA4\xE2\x82\xAC\\\"{\", \"B\": [1, {\"C\": 2}]}}",
	    "1:24: env.B: expected a string, not a list");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(nothing_said_is_nothing_set),
	    TEST(every_member_of_a_program_is_understood),
	    TEST(no_time_is_no_limit_and_less_than_a_second_of_processor_is_one),
	    TEST(every_member_of_a_statement_is_understood),
	    TEST(sizes_are_bytes_or_have_a_letter),
	    TEST(a_program_of_its_own_is_found_from_the_directory),
	    TEST(accounts_are_looked_up_with_their_groups),
	    TEST(no_new_privs_goes_with_user_unless_said),
	    TEST(isolate_has_one_value),
	    TEST(only_root_may_name_an_account),
	    TEST(what_is_no_document_is_refused_with_its_place),
	    TEST(no_piece_of_a_string_is_shown),
	    TEST(unknown_members_are_refused_with_the_nearest),
	    TEST(members_of_another_kind_are_refused),
	    TEST(wrong_values_are_refused),
	    TEST(wrong_codes_are_refused),
	    TEST(files_and_lists_have_a_limit),
	    TEST(a_file_that_cannot_be_read_is_refused),
	    TEST(columns_are_characters),
	};

	return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
