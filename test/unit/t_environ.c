/*
 * environ: what a handler is told, and what is kept from it.
 */
#include "clock.h"
#include "environ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const struct jr_run example = {
    .id = 41,
    .claim_seq = 7,
    .attempts = 2,
    .max_attempts = 5,
    .job_type = (char *)(uintptr_t) "send_mail",
    .queue = (char *)(uintptr_t) "default",
    .payload = (char *)(uintptr_t) "{}",
    .key = (char *)(uintptr_t) "abc-41",
};

/* The value of the only occurrence of `name`, NULL if there is none. */
static const char *
value_of(char **env, const char *name)
{
	size_t len = strlen(name);
	const char *value = NULL;

	for (size_t i = 0; env[i] != NULL; i++) {
		if (strncmp(env[i], name, len) != 0 || env[i][len] != '=')
			continue;
		assert_null(value);
		value = env[i] + len + 1;
	}
	return value;
}

/* A made environment in which `name` is looked up. `item` is all it was made from. */
static void
expect(const char *item, const char *name, const char *value)
{
	char *base[] = {(char *)(uintptr_t)item, NULL};
	char **env = jr_environ_make(base, &example, JR_NEVER);
	const char *found = value_of(env, name);

	if (value == NULL ? found != NULL : found == NULL || strcmp(found, value) != 0)
		fail_msg("%s: %s is %s", item, name, found != NULL ? found : "not there");
	jr_environ_free(env);
}

static void
a_handler_is_told_which_run_it_is(void **state)
{
	char *base[] = {NULL};
	struct jr_run run = example;
	char **env;

	(void)state;
	run.slot = (char *)(uintptr_t) "2026-11-21T01:00:00Z";
	env = jr_environ_make(base, &run, 1700000000999);
	assert_string_equal(value_of(env, "JOBRUN_RUN_ID"), "41");
	assert_string_equal(value_of(env, "JOBRUN_CLAIM"), "7");
	assert_string_equal(value_of(env, "JOBRUN_TYPE"), "send_mail");
	assert_string_equal(value_of(env, "JOBRUN_QUEUE"), "default");
	assert_string_equal(value_of(env, "JOBRUN_ATTEMPT"), "2");
	assert_string_equal(value_of(env, "JOBRUN_MAX_ATTEMPTS"), "5");
	assert_string_equal(value_of(env, "JOBRUN_KEY"), "abc-41");
	assert_string_equal(value_of(env, "JOBRUN_SLOT"), "2026-11-21T01:00:00Z");
	assert_string_equal(value_of(env, "JOBRUN_DEADLINE"), "1700000000");
	jr_environ_free(env);
}

static void
slot_and_deadline_are_not_there_without_need(void **state)
{
	(void)state;
	expect("A=b", "JOBRUN_SLOT", NULL);
	expect("A=b", "JOBRUN_DEADLINE", NULL);
}

static void
what_is_harmless_is_inherited(void **state)
{
	static const char *const items[] = {"PATH=/usr/bin:/bin", "EMPTY=", "PGHOST=db",
	    "PGSERVICE=x", "PGPASSFILE=/f", "LDFLAGS=-x", "JOBRUN_STATE_DIR=/s", "PGPASSWORDS=x"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(items); i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(items[i], "="), items[i]);
		expect(items[i], name, strchr(items[i], '=') + 1);
	}
}

static void
secrets_and_the_loader_are_not_inherited(void **state)
{
	(void)state;
	expect("PGPASSWORD=secret", "PGPASSWORD", NULL);
	expect("LD_PRELOAD=/x.so", "LD_PRELOAD", NULL);
	expect("LD_LIBRARY_PATH=/x", "LD_LIBRARY_PATH", NULL);
}

static void
what_an_outer_run_set_is_not_inherited(void **state)
{
	(void)state;
	expect("JOBRUN_RUN_ID=1", "JOBRUN_RUN_ID", "41");
	expect("JOBRUN_SLOT=1", "JOBRUN_SLOT", NULL);
	expect("JOBRUN_DEADLINE=1", "JOBRUN_DEADLINE", NULL);
}

static void
connection_strings_lose_out_if_they_have_a_password(void **state)
{
	(void)state;
	expect("DATABASE_URL=postgres://u@h/db", "DATABASE_URL", "postgres://u@h/db");
	expect("DATABASE_URL=postgres://u:p@h/db", "DATABASE_URL", NULL);
	expect("JOBRUN_DATABASE_URL=host=h dbname=d", "JOBRUN_DATABASE_URL", "host=h dbname=d");
	expect("JOBRUN_DATABASE_URL=host=h password=p", "JOBRUN_DATABASE_URL", NULL);
	expect("DATABASE_URL=sqlite3:db/dev.sqlite3", "DATABASE_URL", "sqlite3:db/dev.sqlite3");
	expect("DATABASE_URL=mysql2://u:p@h/db", "DATABASE_URL", NULL);
}

static void
the_handlers_url_becomes_the_url(void **state)
{
	char *base[] = {(char *)(uintptr_t) "JOBRUN_DATABASE_URL=host=runner",
	    (char *)(uintptr_t) "JOBRUN_HANDLER_DATABASE_URL=postgres://e:p@h/db", NULL};
	char **env = jr_environ_make(base, &example, JR_NEVER);

	(void)state;
	assert_string_equal(value_of(env, "JOBRUN_DATABASE_URL"), "postgres://e:p@h/db");
	assert_null(value_of(env, "JOBRUN_HANDLER_DATABASE_URL"));
	jr_environ_free(env);
	expect("JOBRUN_HANDLER_DATABASE_URL=", "JOBRUN_DATABASE_URL", NULL);
	jr_environ_free(NULL);
}

static void
passwords_are_found_in_every_form(void **state)
{
	static const struct {
		const char *conninfo;
		bool has;
	} cases[] = {
	    {"postgresql://u:p@h/db", true}, {"postgresql://u@h/db?password=p", true},
	    {"postgresql://u:@h/db", false}, {"postgresql://h/db?host=/run", false},
	    {"host=h password='a b'", true}, {"host=h sslpassword=x", true},
	    {"host=h password=", false}, {"", false}, {"just_a_name", false},
	    {"jdbc:postgresql://h/db?user=u&password=p", true}, {"redis://:p@h:1", true},
	    {"http://h:80/", false}, {"postgres://u:p%zz@h/db", true}, /* libpq refuses it */
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		if (jr_environ_has_password(cases[i].conninfo) != cases[i].has)
			fail_msg("%s", cases[i].conninfo);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_handler_is_told_which_run_it_is),
	    cmocka_unit_test(slot_and_deadline_are_not_there_without_need),
	    cmocka_unit_test(what_is_harmless_is_inherited),
	    cmocka_unit_test(secrets_and_the_loader_are_not_inherited),
	    cmocka_unit_test(what_an_outer_run_set_is_not_inherited),
	    cmocka_unit_test(connection_strings_lose_out_if_they_have_a_password),
	    cmocka_unit_test(the_handlers_url_becomes_the_url),
	    cmocka_unit_test(passwords_are_found_in_every_form),
	};

	return cmocka_run_group_tests_name("environ", tests, NULL, NULL);
}
