/*
 * environ: what a handler is told, and what is kept from it.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "handler/environ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
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

static const struct jr_environ_extra no_extra;

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

static char **
make(char *const *base, const struct jr_run *run, int64_t deadline_wall_ms, const struct jr_environ_extra *extra)
{
	char **inherited = jr_environ_inherit(base);
	char **env = jr_environ_make(inherited, run, deadline_wall_ms, extra);

	jr_strings_free(inherited);
	return env;
}

/* A made environment in which `name` is looked up. `item` is all it was made from. */
static void
expect(const char *item, const char *name, const char *value)
{
	char *base[] = {(char *)(uintptr_t)item, NULL};
	char **env = make(base, &example, JR_NEVER, &no_extra);
	const char *found = value_of(env, name);

	if (value == NULL ? found != NULL : found == NULL || strcmp(found, value) != 0)
		fail_msg("%s: %s is %s", item, name, found != NULL ? found : "not there");
	jr_strings_free(env);
}

static void
a_handler_is_told_which_run_it_is(void **state)
{
	char *base[] = {NULL};
	struct jr_run run = example;
	char **env;

	(void)state;
	run.slot = (char *)(uintptr_t) "2026-11-21T01:00:00Z";
	run.slot_local = (char *)(uintptr_t) "2026-11-21T02:00:00+01:00";
	env = make(base, &run, 1700000000999, &no_extra);
	assert_string_equal(value_of(env, "JOBRUN_RUN_ID"), "41");
	assert_string_equal(value_of(env, "JOBRUN_CLAIM"), "7");
	assert_string_equal(value_of(env, "JOBRUN_TYPE"), "send_mail");
	assert_string_equal(value_of(env, "JOBRUN_QUEUE"), "default");
	assert_string_equal(value_of(env, "JOBRUN_ATTEMPT"), "2");
	assert_string_equal(value_of(env, "JOBRUN_MAX_ATTEMPTS"), "5");
	assert_string_equal(value_of(env, "JOBRUN_KEY"), "abc-41");
	assert_string_equal(value_of(env, "JOBRUN_SLOT"), "2026-11-21T01:00:00Z");
	assert_string_equal(value_of(env, "JOBRUN_SLOT_LOCAL"), "2026-11-21T02:00:00+01:00");
	assert_string_equal(value_of(env, "JOBRUN_DEADLINE"), "1700000000");
	jr_strings_free(env);
}

static void
slot_and_deadline_are_not_there_without_need(void **state)
{
	(void)state;
	expect("A=b", "JOBRUN_SLOT", NULL);
	expect("JOBRUN_SLOT_LOCAL=outer", "JOBRUN_SLOT_LOCAL", NULL);
	expect("A=b", "JOBRUN_DEADLINE", NULL);
}

static void
what_is_harmless_is_inherited(void **state)
{
	static const char *const items[] = {"PATH=/usr/bin:/bin", "EMPTY=", "PGHOST=db", "PGSERVICE=x", "PGPASSFILE=/f",
	    "LDFLAGS=-x", "JOBRUN_STATE_DIR=/s", "PGPASSWORDS=x"};

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
	expect("JOBRUN_OUT=/tmp/x", "JOBRUN_OUT", NULL);
	expect("JOBRUN_CHECKPOINT=/tmp/x", "JOBRUN_CHECKPOINT", NULL);
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

struct value {
	const char *value;
	bool reveals;
};

static void
check_values(const struct value *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *item = jr_xasprintf("ANY=%s", values[i].value);

		if (jr_environ_reveals(values[i].value) != values[i].reveals)
			fail_msg("%s", values[i].value);
		expect(item, "ANY", values[i].reveals ? NULL : values[i].value);
		free(item);
	}
}

/* What a PostgreSQL password may stand in, and what only looks like it. */
static void
passwords_are_found_in_every_value(void **state)
{
	static const struct value cases[] = {
	    {"postgresql://u:p@h/db", true},
	    {"postgres://u:p@h", true},
	    {"postgresql://u@h/db?password=p", true},
	    {"postgresql://u@h/db", false},
	    {"postgresql://u:@h/db", false},
	    {"postgresql://h:5432/db?options=-csearch_path%3Da@b", false},
	    {"postgres://u:p%zz@h/db", true},
	    {"POSTGRES://u:p@h/db", true},
	    {"postgresql+psycopg2://u:p@h/db", true},
	    {"postgis://u:p/@w@h/db", true},
	    {"pgsql://u:p@h/db", true},
	    {"jdbc:postgresql://h/db?user=u&password=p", true},
	    {"jdbc:postgresql://h/db?user=u&password=&ssl=true", false},
	    {"pg_dump -d 'postgres://u:p@h/db' -f x", true},
	    {"{\"primary\": \"redis://h\", \"db\": \"postgres://u:p@h/db\"}", true},
	    {"redis://h:1 postgresql://h/db", false},
	    {"host=h password=p", true},
	    {"password=p", true},
	    {"host=h password='a b'", true},
	    {"host=h password=''", false},
	    {"host=h password=", false},
	    {"psql \"host=h password = p\" -c 'select 1'", true},
	    {"pgsql:host=h;dbname=d;user=u;password=p", true},
	    {"Host=h;Username=u;Password=p;Database=d", true},
	    {"Driver={PostgreSQL};Server=h;Uid=u;Pwd=p", true},
	    /* Of others, or nothing. */
	    {"", false},
	    {"redis://:p@h:1", false},
	    {"amqp://u:p@h/postgres", false},
	    {"http://u:p@proxy:3128", false},
	    {"mysql --user=u --password=p", false},
	    {"the password is secret", false},
	    {"password", false},
	    {"PGPASSFILE=/f host=h", false},
	    {"/home/u/pwd", false},
	    {"://", false},
	    {"postgres://", false},
	    {"://u:p@h", false},
	};

	(void)state;
	check_values(cases, JR_COUNT(cases));
}

static void
passwords_are_found_among_other_things(void **state)
{
	static const struct value cases[] = {
	    {"PGPASSWORD='p' pg_dump shop", true},
	    {"pgsql://h/db?user=u&sslpassword=p", true},
	    {"psql://u:p@h/db", true},
	    {"timescaledb://u:p@h/db", true},
	    {"pgx5://u:p@h/db", true},
	    /* libpq takes the second for a part of the name of the first one's database. */
	    {"postgresql://u@h/db postgresql://u:p@h/db", true},
	    {"postgresql://u@h/db,postgresql+asyncpg://u:p@h/db", true},
	    {"postgresql://u@h/db postgresql://u@h/db", false},
	    {"postgresql://h:5432/db postgresql://u@h/db", false},
	    {"dbname=postgresql://u:p@h/db", true},
	    /* Quotes and blanks that nobody escaped. */
	    {"postgresql+asyncpg://u:p\"a b@h/db", true},
	    {"psql \"postgresql://u:it's@h/db\" -c x", true},
	    {"psql 'postgresql://u:a b@h/db'", true},
	    {"psql 'postgresql://h:5432/db' -c 'select 1 @ 2'", false},
	    {"{\"db\":\"postgres:\\/\\/u:p@h\\/db\"}", true},
	    {"{\"db\":\"postgres:\\/\\/u@h\\/db\"}", false},
	    /* What is of another service stays. */
	    {"http://h/?user=u&password=p", false},
	    {"jdbc:mysql://h/db?user=u&password=p", false},
	    {"http://h/?password=p host=h password=p", true},
	};

	(void)state;
	check_values(cases, JR_COUNT(cases));
}

static void
the_handlers_url_becomes_the_url(void **state)
{
	char *base[] = {(char *)(uintptr_t) "JOBRUN_DATABASE_URL=host=runner",
	    (char *)(uintptr_t) "JOBRUN_HANDLER_DATABASE_URL=postgres://e:p@h/db", NULL};
	char **env = make(base, &example, JR_NEVER, &no_extra);

	(void)state;
	assert_string_equal(value_of(env, "JOBRUN_DATABASE_URL"), "postgres://e:p@h/db");
	assert_null(value_of(env, "JOBRUN_HANDLER_DATABASE_URL"));
	jr_strings_free(env);
	expect("JOBRUN_HANDLER_DATABASE_URL=", "JOBRUN_DATABASE_URL", NULL);
	jr_strings_free(NULL);
}

static void
the_files_to_talk_through_are_named(void **state)
{
	char *base[] = {(char *)(uintptr_t) "JOBRUN_OUT=/outer", NULL};
	struct jr_environ_extra extra = {.out = "/tmp/41.7.out", .checkpoint = "/tmp/41.7.checkpoint"};
	char **env = make(base, &example, JR_NEVER, &extra);

	(void)state;
	assert_string_equal(value_of(env, "JOBRUN_OUT"), "/tmp/41.7.out");
	assert_string_equal(value_of(env, "JOBRUN_CHECKPOINT"), "/tmp/41.7.checkpoint");
	jr_strings_free(env);
}

static void
settings_replace_what_is_inherited(void **state)
{
	char *base[] = {(char *)(uintptr_t) "PATH=/usr/bin", (char *)(uintptr_t) "PATHS=kept",
	    (char *)(uintptr_t) "HOME=/root", (char *)(uintptr_t) "JOBRUN_STATE_DIR=/s", NULL};
	char *own[] = {(char *)(uintptr_t) "PATH=/opt/bin",
	    (char *)(uintptr_t) "EMPTY=", (char *)(uintptr_t) "LD_LIBRARY_PATH=/opt/lib",
	    (char *)(uintptr_t) "JOBRUN_RUN_ID=1", (char *)(uintptr_t) "JOBRUN_STATE_DIR=/evil", NULL};
	struct jr_environ_extra extra = {.env = own};
	char **env = make(base, &example, JR_NEVER, &extra);

	(void)state;
	assert_string_equal(value_of(env, "PATH"), "/opt/bin");
	assert_string_equal(value_of(env, "PATHS"), "kept");
	assert_string_equal(value_of(env, "HOME"), "/root");
	assert_string_equal(value_of(env, "EMPTY"), "");
	assert_string_equal(value_of(env, "LD_LIBRARY_PATH"), "/opt/lib"); /* somebody said so */
	assert_string_equal(value_of(env, "JOBRUN_RUN_ID"), "41");
	assert_string_equal(value_of(env, "JOBRUN_STATE_DIR"), "/s");
	jr_strings_free(env);
}

static void
another_account_has_its_own_home(void **state)
{
	char *base[] = {(char *)(uintptr_t) "HOME=/root", (char *)(uintptr_t) "USER=root",
	    (char *)(uintptr_t) "LOGNAME=root", (char *)(uintptr_t) "SHELL=/bin/zsh",
	    (char *)(uintptr_t) "XDG_RUNTIME_DIR=/run/user/0", NULL};
	char *own[] = {(char *)(uintptr_t) "LOGNAME=other", NULL};
	struct jr_environ_extra extra = {.user = "www-data", .home = "/var/www", .env = own};
	char **env = make(base, &example, JR_NEVER, &extra);

	(void)state;
	assert_string_equal(value_of(env, "HOME"), "/var/www");
	assert_string_equal(value_of(env, "USER"), "www-data");
	assert_string_equal(value_of(env, "LOGNAME"), "other");
	assert_null(value_of(env, "SHELL"));
	assert_null(value_of(env, "XDG_RUNTIME_DIR"));
	jr_strings_free(env);
}

static void
another_account_gets_what_is_on_a_list(void **state)
{
	static const char *const kept[] = {"PATH=/bin", "LANG=C", "LANGUAGE=de", "LC_TIME=C", "TZ=UTC", "TMPDIR=/t",
	    "JOBRUN_LOG_FORMAT=json", "JOBRUN_DATABASE_URL=host=h"};
	static const char *const lost[] = {"API_TOKEN=t", "PGHOST=h", "PGPASSFILE=/root/.pgpass", "SSH_AUTH_SOCK=/s",
	    "PATHS=/x", "TZDIR=/x", "LC=x", "JOBRUN_DATABASE_URL=postgres://u:p@h/d", "DATABASE_URL=host=h",
	    "JOBRUN=x"};
	struct jr_environ_extra extra = {.user = "www-data"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(kept) + JR_COUNT(lost); i++) {
		bool is_kept = i < JR_COUNT(kept);
		const char *item = is_kept ? kept[i] : lost[i - JR_COUNT(kept)];
		char *base[] = {(char *)(uintptr_t)item, NULL};
		char *name = jr_xmemdup0(item, strcspn(item, "="));
		char **env = make(base, &example, JR_NEVER, &extra);

		if ((value_of(env, name) != NULL) != is_kept)
			fail_msg("%s", item);
		jr_strings_free(env);
		free(name);
	}
}

static void
passwords_are_found_in_every_form(void **state)
{
	static const struct {
		const char *conninfo;
		bool has;
	} cases[] = {
	    {"postgresql://u:p@h/db", true}, {"postgresql://u@h/db?password=p", true}, {"postgresql://u:@h/db", false},
	    {"postgresql://h/db?host=/run", false}, {"host=h password='a b'", true}, {"host=h sslpassword=x", true},
	    {"host=h password=", false}, {"", false}, {"just_a_name", false},
	    {"jdbc:postgresql://h/db?user=u&password=p", true}, {"redis://:p@h:1", true}, {"http://h:80/", false},
	    {"postgres://u:p%zz@h/db", true}, /* libpq refuses it */
	};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		if (jr_environ_has_password(cases[i].conninfo) != cases[i].has)
			fail_msg("%s", cases[i].conninfo);
	}
}

static void
a_command_finds_its_surroundings_and_the_run(void **state)
{
	char *base[] = {(char *)(uintptr_t) "PGPASSWORD=p", (char *)(uintptr_t) "LD_LIBRARY_PATH=/x",
	    (char *)(uintptr_t) "DATABASE_URL=postgresql://u:p@h/d",
	    (char *)(uintptr_t) "JOBRUN_HANDLER_DATABASE_URL=postgresql://h/d", (char *)(uintptr_t) "JOBRUN_RUN_ID=1",
	    (char *)(uintptr_t) "JOBRUN_SLOT=outer", (char *)(uintptr_t) "ODD", NULL};
	char **env = jr_environ_keep(base, &example, JR_NEVER, &no_extra);
	size_t count = 0;

	(void)state;
	assert_string_equal(value_of(env, "PGPASSWORD"), "p");
	assert_string_equal(value_of(env, "LD_LIBRARY_PATH"), "/x");
	assert_string_equal(value_of(env, "DATABASE_URL"), "postgresql://u:p@h/d");
	assert_non_null(value_of(env, "JOBRUN_HANDLER_DATABASE_URL"));
	assert_null(value_of(env, "JOBRUN_DATABASE_URL"));
	assert_string_equal(value_of(env, "JOBRUN_RUN_ID"), "41");
	assert_null(value_of(env, "JOBRUN_SLOT"));
	while (env[count] != NULL)
		count++;
	assert_int_equal(count, 5 + 7); /* ODD is there too; and what says which run it is */
	jr_strings_free(env);
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
	    cmocka_unit_test(the_files_to_talk_through_are_named),
	    cmocka_unit_test(settings_replace_what_is_inherited),
	    cmocka_unit_test(another_account_has_its_own_home),
	    cmocka_unit_test(another_account_gets_what_is_on_a_list),
	    cmocka_unit_test(passwords_are_found_in_every_value),
	    cmocka_unit_test(passwords_are_found_among_other_things),
	    cmocka_unit_test(passwords_are_found_in_every_form),
	    cmocka_unit_test(a_command_finds_its_surroundings_and_the_run),
	};

	return cmocka_run_group_tests_name("environ", tests, NULL, NULL);
}
