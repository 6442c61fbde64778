/*
 * sql_scan: which texts are one statement. What PostgreSQL itself would say of them is the server's business.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "handler/sql_scan.h"

static void
take(const char *text)
{
	size_t len = strlen(text);
	char *copy = jr_xrealloc(jr_xstrdup(text), len, 1); /* without the NUL, for the sanitizer */
	struct jr_err err;

	if (!jr_handler_sql_scan(copy, len, &err))
		fail_msg("%s: %s", text, err.msg);
	free(copy);
}

static void
refuse(const char *text, const char *expected)
{
	struct jr_err err;

	if (jr_handler_sql_scan(text, strlen(text), &err))
		fail_msg("%s: was taken, expected \"%s\"", text, expected);
	assert_int_equal(err.code, JR_E_CONFIG);
	if (strncmp(err.msg, expected, strlen(expected)) != 0)
		fail_msg("%s: \"%s\" instead of \"%s\"", text, err.msg, expected);
}

static void
one_statement_is_taken(void **state)
{
	(void)state;
	take("select $1");
	take("select $1;");
	take("select 1 ; \n -- end\n /* of /* it */ */ ;; \t");
	take("-- first\n/* then */ (select 1) union (select 2)");
	take("with a as (insert into t select 1 returning *) select * from a");
	take("update t set begin = 1, \"commit\" = 2 where \"end\" = 'x'");
	take("do $$ begin perform 1; commit; end $$");
	take("call do_it($1)");
	take("prepare p as select 1");
	take("delete from t where a = $1 and b = $2");
	take("explain select 1");
	take("values (1)");
	take("select 1 -- no newline at the end");
}

static void
what_is_quoted_counts_for_nothing(void **state)
{
	(void)state;
	take("select 'a;b', 'it''s; so', \"odd;\"\"name;\"");
	take("select 'back\\', 1");
	take("select E'it\\'s; so', e'\\\\'");
	take("select E'a'\n '\\'; b'");
	take("select U&'d\\0061t;', B'1;', n'a;b'");
	take("select $$a;b$$, $tag$ $$ ; $other$ $tag$, $_1\xC3\xA4$;$_1\xC3\xA4$");
	take("select a$b$c; ");
	take("select 1 /* a; /* b; */ c; */ + 2");
	take("select 1 -- a; b\n + 2");
	take("select '/*', '--', $$/*$$");
	take("select 1.5e3, 1_000, $1::int;");
}

static void
a_second_statement_is_refused_where_it_begins(void **state)
{
	(void)state;
	refuse("select 1; select 2", "1:11: a second statement begins here, but a handler has only one");
	refuse("select 1;\n\t-- x\n\tselect 2", "3:2: a second statement begins here");
	refuse("select '\xC3\xA4'; x", "1:13: a second statement begins here");
	refuse("select 'back\\'; select 2", "1:17: a second statement");
	refuse("select E'a' '\\'; select 2 --'", "1:18: a second statement");
	refuse("select $1;$2", "1:11: a second statement");
	refuse("select a$b$c; $b$", "1:15: this dollar quote has no end");
	refuse("do $$ a; $$; commit", "1:14: a second statement");
	refuse("select 1; /* */ ; ;; 5", "1:22: a second statement");
	refuse("create function f() returns int language sql as 'select 1'; select f()", "1:61: a second statement");
	refuse("create table atomic (begin int); select 1", "1:34: a second statement");
	refuse("select 1) ; select (2", "1:13: a second statement");
}

static void
bodies_and_parentheses_hold_semicolons(void **state)
{
	(void)state;
	take("create function f() returns int language sql begin atomic select 1; select 2; end;");
	take("CREATE OR REPLACE PROCEDURE p() BEGIN /* */ ATOMIC\n"
	     "select CASE when a then case b when 1 then 2 end else 3 END; select x.end, 1 as case;\n"
	     "END");
	take("create rule r as on insert to t do also (insert into a values (1); delete from b)");
	refuse("create function f() returns int begin atomic select 1; end; select 2", "1:61: a second statement");
	refuse("create function f() begin atomic select case when a then b end; end; x", "1:70: a second statement");
	refuse("select begin atomic; select 2", "1:22: a second statement");
}

static void
what_would_leave_the_transaction_is_refused(void **state)
{
	static const char *const words[] = {"BEGIN", "Start Transaction", "commit", "END", "rollback", "ABORT",
	    "savepoint a", "release a", "prepare transaction 'x'"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(words); i++) {
		char *with_more = jr_xasprintf("-- x\n %s; select 1; commit", words[i]);

		refuse(words[i], "1:");
		refuse(with_more, "2:");
		free(with_more);
	}
	refuse("commit", "1:1: a handler runs inside jobrun's transaction: leave out COMMIT");
	refuse(" begin; select 1", "1:2: a handler runs inside jobrun's transaction: leave out BEGIN");
	refuse("/**/rollback", "1:5: a handler runs inside jobrun's transaction: leave out ROLLBACK; to undo");
	refuse("prepare /* */ Transaction 'a'",
	    "1:15: a handler runs inside jobrun's transaction: leave out PREPARE TRANSACTION");
	refuse("copy t to stdout", "1:1: COPY moves rows");
	take("select commit, rollback from begin");
	take("committed()");
}

static void
nothing_and_halves_are_refused(void **state)
{
	struct jr_err err;

	(void)state;
	refuse("", "1:1: there is no statement in it");
	refuse(" \n; -- nothing\n/* at all */;", "1:1: there is no statement in it");
	refuse("select 'a", "1:8: this quote has no end");
	refuse("select\n \"a'", "2:2: this quote has no end");
	refuse("select E'a\\'", "1:9: this quote has no end");
	refuse("select E'a\\", "1:9: this quote has no end");
	refuse("select 1 /* a /* b */", "1:10: this comment has no end");
	refuse("select 1; /*", "1:11: this comment has no end");
	refuse("select $a$ $b$", "1:8: this dollar quote has no end");
	refuse("select $$ $", "1:8: this dollar quote has no end");
	take("select $");
	take("select 1 $a");
	assert_false(jr_handler_sql_scan("select 1\0;", 10, &err));
	assert_string_equal(err.msg, "1:9: the text contains a NUL byte");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_statement_is_taken),
	    cmocka_unit_test(what_is_quoted_counts_for_nothing),
	    cmocka_unit_test(a_second_statement_is_refused_where_it_begins),
	    cmocka_unit_test(bodies_and_parentheses_hold_semicolons),
	    cmocka_unit_test(what_would_leave_the_transaction_is_refused),
	    cmocka_unit_test(nothing_and_halves_are_refused),
	};

	return cmocka_run_group_tests_name("sql_scan", tests, NULL, NULL);
}
