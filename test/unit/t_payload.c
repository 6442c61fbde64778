/*
 * payload: line and column of what is not JSON, from what servers say; and which part of it is about JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pg/pg_error.h"

/* The program is no library: what is tested is compiled into the test. */
#include "../../cmd/payload.c" /* NOLINT(bugprone-suspicious-include) */

#define REFUSED "invalid input syntax for type json: Token \"x\" is invalid."

/* What a server says of a text, as jr_pg_result_error puts it together, and the place that is named. */
static void
check(const char *text, const char *context, const char *expected)
{
	struct jr_err err;
	const char *quoted;
	char begin[200];
	long line;
	int len;

	assert_true(jr_pg_json_context(context, &line, &quoted, &len));
	jr_fail(&err, JR_E_DATA, "%s: JSON data, line %ld: %.*s", REFUSED, line, len, quoted);
	jr_payload_locate(text, &err);
	snprintf(begin, sizeof(begin), "the payload is not JSON: %s: " REFUSED, expected);
	assert_string_equal(err.msg, begin);
}

static void
test_since_14(void **state)
{
	(void)state;
	check("{\"a\":[1,2,x]}", "JSON data, line 1: {\"a\":[1,2,x...", "line 1, column 11");
	check("{\"a\":1,\n \"\xc3\xbc\": y}\n", "JSON data, line 2:  \"\xc3\xbc\": y...", "line 2, column 7");
	check("{\"a\":1,\n x}", "JSON data, line 2:  x...\nunnamed portal parameter $2 = '{\"a\":1,\n x}'",
	    "line 2, column 2");
	check("", "JSON data, line 1: ", "line 1");
}

/* The text of the lines in front of the mistake is quoted, too, and the line is the one in which that begins. */
static void
test_before_14(void **state)
{
	(void)state;
	check("{\"a\":[1,2,x]}", "JSON data, line 1: {\"a\":[1,2,x...", "line 1, column 11");
	check(
	    "{\"a\":1,\n \"\xc3\xbc\": y}\n", "JSON data, line 1: {\"a\":1,\n \"\xc3\xbc\": y...", "line 2, column 7");
	check("{\n\n\n\"a\": x}", "JSON data, line 1: {\n\n\n\"a\": x...", "line 4, column 6");
	check("{\"a\":1,\n\t\"b\": 2,\r\n x}",
	    "JSON data, line 1: {\"a\":1,\n\t\"b\": 2,\r\n x...\nPL/pgSQL function f() line 1 at RETURN",
	    "line 3, column 2");
	check("{\"first\": 1,\n\"second\": \"0123456789 0123456789\",\n\"third\": x}",
	    "JSON data, line 2: ...\"0123456789 0123456789\",\n\"third\": x...\n"
	    "unnamed portal parameter $2 = '...'",
	    "line 3, column 10");
	check("{\"a\": 1,\n", "JSON data, line 1: {\"a\": 1,\n", "line 1, column 8");
}

/* A line that is there twice: in which it begins is told. */
static void
test_repeated(void **state)
{
	(void)state;
	check("[\n[1,\n[1,\n[1,\n[1,\nx", "JSON data, line 3: [1,\n[1,\n[1,\nx", "line 6, column 1");
}

static void
test_other_languages(void **state)
{
	(void)state;
	check("{\"a\":[1,2,x]}", "JSON-Daten, Zeile 1: {\"a\":[1,2,x...\nSQL-Funktion f Anweisung 1",
	    "line 1, column 11");
	check("{\"a\":1,\n x}",
	    "donn\xc3\xa9"
	    "es JSON, ligne 2 :  x...",
	    "line 2, column 2");
	check("[1,\n2:]",
	    "JSON\xe3\x83\x87\xe3\x83\xbc\xe3\x82\xbf\xe3\x80\x81"
	    "2\xe8\xa1\x8c\xe7\x9b\xae: 2:...",
	    "line 2, column 2");
}

static void
test_what_is_no_json(void **state)
{
	static const char *const others[] = {"", "PL/pgSQL function f() line 1 at RETURN", "JSON data: x",
	    "JSON data, line 1", "PL/pgSQL function f() line 1 at RETURN\nJSON data, line 1: x",
	    "SQL statement \"select JSON 1: x\""};
	struct jr_err err;
	const char *quoted;
	long line;
	int len;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(others); i++)
		assert_false(jr_pg_json_context(others[i], &line, &quoted, &len));
	jr_fail(&err, JR_E_DATA, "queue is not a name");
	assert_false(jr_payload_locate_in("x", "{}", &err));
	assert_string_equal(err.msg, "queue is not a name");
}

/* However long it is, and whatever stands behind it. */
static void
test_bounded(void **state)
{
	char context[1000] = "JSON data, line 1: {";
	const char *quoted;
	long line;
	int len;

	(void)state;
	for (size_t i = strlen(context); i < sizeof(context) - 1; i++)
		context[i] = i % 10 == 0 ? '\n' : 'x';
	assert_true(jr_pg_json_context(context, &line, &quoted, &len));
	assert_in_range(len, 90, 120);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_since_14),
	    cmocka_unit_test(test_before_14),
	    cmocka_unit_test(test_repeated),
	    cmocka_unit_test(test_other_languages),
	    cmocka_unit_test(test_what_is_no_json),
	    cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests_name("payload", tests, NULL, NULL);
}
