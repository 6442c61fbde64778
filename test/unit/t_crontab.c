/*
 * crontab: lines, "%" and backslashes, names.
 */
#include "base/crontab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* clang-format off */
static const struct {
	const char *text;
	bool system;
	enum jr_crontab_kind kind;
	const char *first, *second, *user; /* name and value; schedule and command */
} lines[] = {
	{ "", false, JR_CRONTAB_NOTHING, NULL, NULL, NULL },
	{ " \t# x", false, JR_CRONTAB_NOTHING, NULL, NULL, NULL },
	{ "A=b", false, JR_CRONTAB_VARIABLE, "A", "b", NULL },
	{ " \"A_1\" = ' b c '  ", false, JR_CRONTAB_VARIABLE, "A_1", " b c ", NULL },
	{ "A = \"b", false, JR_CRONTAB_VARIABLE, "A", "\"b", NULL },
	{ "A=", true, JR_CRONTAB_VARIABLE, "A", "", NULL },
	{ "1A=b", false, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "* * * * * a  b\t", false, JR_CRONTAB_ENTRY, "* * * * *", "a  b\t", NULL },
	{ "\t1,2\t*/3 1-5 jan MON-fri\t A=b c", false, JR_CRONTAB_ENTRY, "1,2 */3 1-5 jan MON-fri", "A=b c", NULL },
	{ "@daily  x", false, JR_CRONTAB_ENTRY, "@daily", "x", NULL },
	{ "-*/5 * * * * x", false, JR_CRONTAB_ENTRY, "*/5 * * * *", "x", NULL },
	{ " -@daily root x", true, JR_CRONTAB_ENTRY, "@daily", "x", "root" },
	{ "--5 * * * * x", false, JR_CRONTAB_ENTRY, "-5 * * * *", "x", NULL },
	{ "* * * * * root  x y", true, JR_CRONTAB_ENTRY, "* * * * *", "x y", "root" },
	{ "* * * * * root", true, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "* * * * * root ", true, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "* * * * *", false, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "* * * * * ", false, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "@daily", false, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
	{ "* * ? * * x", false, JR_CRONTAB_UNKNOWN, NULL, NULL, NULL },
};

static const struct {
	const char *command, *shell, *input;
} commands[] = {
	{ "a b", "a b", NULL },
	{ "a%", "a", "\n" },
	{ "a%b%c", "a", "b\nc\n" },
	{ "a%b%", "a", "b\n" },
	{ "a\\%b", "a%b", NULL },
	{ "a\\\\%b", "a\\\\", "b\n" },
	{ "a\\b\\\\", "a\\b\\\\", NULL },
	{ "'%'\\", "'", "'\\\n" },
	{ "a%\\%\\n", "a", "%\\n\n" },
	{ "a\\", "a\\", NULL },
};

static const struct {
	const char *command, *name;
} names[] = {
	{ "/usr/bin/backup --all", "backup" },
	{ "cd /x && ./Run_It.sh", "run_it.sh" },
	{ "A=b nice -n 5 /x/y", "y" },
	{ "\"/x y/z\"", "z" },
	{ "'/x y/z.sh' --a", "z.sh" },
	{ "\"$HOME\"/x/y.sh --tag \"z\"", "y.sh" },
	{ "'/x'/b c 'd'", "x" },
	{ "/x\\ y/z\\ a b", "z--a" },
	{ "A=1 nice -n 5 \"/x y/z\" && 'a b'", "z" },
	{ "bash -lc '\"/x y/z\" a'", "z" },
	{ "bash -c \"/x/y z/a\"", "y" },
	{ "cd \"/x y; z\" && ./a", "a" },
	{ "[ -x \"/x y/z\" ] && \"/x y/z\"", "z" },
	{ "su --command '/x/y z/a' www", "y" },
	{ "...", "job" },
	{ "", "job" },
	{ "cd", "job" },
	{ "x.sql", "job" },
	{ "/a/jobrun.x", "jobrun-x" },
	{ "/a/", "job" },
	{ "\xff\xc3\xa4z", "z" },
	{ "if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron; fi",
	    "checkarray" },
	{ "[ \"$(date +%u)\" = 6 ] && /opt/x/first-saturday", "first-saturday" },
	{ "[ \"$(hostname | cut -d. -f1)\" = web1 ] && /opt/x/y", "y" },
	{ "[[ $A == b ]] && /opt/x/y", "y" },
	{ ". /etc/profile; python3 -m foo.bar", "foo.bar" },
	{ ". /etc/profile >/dev/null 2>&1 && /x/y", "y" },
	{ "/usr/bin/test -x /usr/bin/y || exit 0; /usr/bin/y", "y" },
	{ "test -x /usr/bin/certbot -a \\! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && certbot -q renew",
	    "certbot" },
	{ "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts" },
	{ "cd &>/dev/null; /x/y", "y" },
	{ "cd && /x/y", "y" },
	{ "umask 022; /x/y", "y" },
	{ "set -o pipefail; ulimit -n 1024; export A B=c; true && /x/y", "y" },
	{ "false\n/x/y", "y" },
	{ "A=$(date +%F) /x/y", "y" },
	{ "date; /x/y", "y" },
	{ "sleep $((RANDOM % 60)); /x/y", "y" },
	{ "timeout 300 /x/y", "y" },
	{ "timeout -s KILL -k 5 1.5h /x/y", "y" },
	{ "flock -w 5 /run/z /x/y", "y" },
	{ "(flock -n 9 || exit 1; /x/y) 9>/run/z", "y" },
	{ "for f in a b; do /x/y $f; done", "y" },
	{ "/x/7z a", "7z" },
	{ "7z a", "7z" },
	{ "exit 0", "job" },
	{ "[ -x /x/y", "job" },
	{ "sudo -u www /x/y", "y" },
	{ "sudo -Hu www -g grp -- /x/y", "y" },
	{ "sudo --user www -uwww --user=www /x/y", "y" },
	{ "doas -u www /x/y", "y" },
	{ "su - www -c \"/x/y z\"", "y" },
	{ "su -s /bin/sh -c '/x/y z' www", "y" },
	{ "runuser -u www -- /x/y", "y" },
	{ "runuser -l www -c /x/y", "y" },
	{ ">/dev/null /x/y", "y" },
	{ "2>/dev/null >> \"/tmp/a b\" < /etc/in /x/y", "y" },
	{ "cd /x; >/tmp/z 2>&1 /x/y", "y" },
	{ "cd /x >/dev/null 2>&1 && y &>/tmp/z", "y" },
	{ "exec >/tmp/z 2>&1; /x/y", "y" },
	{ "A=\"b c\" D='e f' /x/y", "y" },
	{ "env -u HOME -i A=1 /x/y", "y" },
	{ "ionice -c idle nice -n 5 y", "y" },
	{ "timeout --signal HUP 5m y", "y" },
	{ "bash -euo pipefail -c 'cd /x && ./y z'", "y" },
	{ "flock -n /run/z -c 'y z'", "y" },
	{ "chronic y", "y" },
	{ "( y )", "y" },
	{ "$HOME/bin/y", "y" },
	{ "\"${HOME}/bin/y\" z", "y" },
	{ "~/bin/y", "y" },
	{ "/x/$A", "a" },
	{ "$X/$Y", "job" },
	{ "php8.2 -d memory_limit=1G /x/y.php", "y.php" },
	{ "python3.11 -W ignore -m x.y", "x.y" },
	{ "php -r 'echo 1;'", "php" },
	{ "perl -MPOSIX -e 'print \"x y\"' && cd /", "perl" },
	{ "java -Xmx1g -cp /a.jar:/b.jar com.acme.Main", "com.acme.main" },
	{ "/x/test1", "test1" },
};
/* clang-format on */

static void
is_text(const char *got, const char *expected)
{
	if (expected == NULL)
		assert_null(got);
	else {
		assert_non_null(got);
		assert_string_equal(got, expected);
	}
}

static void
test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(lines); i++) {
		struct jr_crontab_line line;
		bool entry = lines[i].kind == JR_CRONTAB_ENTRY;

		jr_crontab_read(&line, lines[i].text, strlen(lines[i].text), lines[i].system);
		assert_int_equal(line.kind, lines[i].kind);
		is_text(entry ? line.schedule : line.name, lines[i].first);
		is_text(entry ? line.command : line.value, lines[i].second);
		is_text(line.user, lines[i].user);
		if (entry)
			assert_string_equal(lines[i].text + line.before, lines[i].second);
		jr_crontab_release(&line);
	}
}

static void
test_commands(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(commands); i++) {
		char *shell, *input;

		jr_crontab_translate(commands[i].command, &shell, &input);
		assert_string_equal(shell, commands[i].shell);
		is_text(input, commands[i].input);
		free(shell);
		free(input);
	}
}

static void
test_entries(void **state)
{
	static const char *const shells[] = {"", "a b", "date +%F", "%%", "a\\b%c\\"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(shells); i++) {
		char *entry = jr_crontab_entry(shells[i]), *shell, *input;

		jr_crontab_translate(entry, &shell, &input);
		assert_string_equal(shell, shells[i]);
		assert_null(input);
		free(entry);
		free(shell);
		free(input);
	}
}

static void
test_names(void **state)
{
	char longest[300];
	char *name;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(names); i++) {
		name = jr_crontab_name(names[i].command);
		assert_string_equal(name, names[i].name);
		free(name);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	name = jr_crontab_name(longest);
	assert_int_equal(strlen(name), 50);
	free(name);
}

static void
test_words(void **state)
{
	char *word;

	(void)state;
	assert_true(jr_crontab_is_plain("/x/y --a=b c"));
	assert_false(jr_crontab_is_plain("x --a"));
	assert_false(jr_crontab_is_plain("A=/b c"));
	assert_false(jr_crontab_is_plain("/x/y ~"));
	assert_false(jr_crontab_is_plain("/x/y $a"));
	word = jr_crontab_word("");
	assert_string_equal(word, "''");
	free(word);
	word = jr_crontab_word("it's");
	assert_string_equal(word, "'it'\\''s'");
	free(word);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_commands),
	    cmocka_unit_test(test_entries),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
