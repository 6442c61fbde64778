/*
 * settings: what "http" says, and the files of its secrets.
 */
#include "settings_files.h"

#define ALONE JR_SETTINGS_ALONE
#define SECRET_32 "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define A_16 "AAAAAAAAAAAAAAAA"
#define A_64 A_16 A_16 A_16 A_16
#define URL "\"url\": \"https://example.org/hook?a=b\""

static void
what_is_not_said_is_the_default(void **state)
{
	struct jr_settings settings;

	understand(&settings, *state, ALONE, "{\"http\": {" URL "}}");
	assert_string_equal(settings.http->url, "https://example.org/hook?a=b");
	assert_string_equal(settings.http->method, "POST");
	assert_null(settings.http->headers);
	assert_null(settings.http->proxy);
	assert_null(settings.http->ca_file);
	assert_int_equal(settings.http->secret_count, 0);
	assert_int_equal(settings.http->timeout_ms, JR_HTTP_TIMEOUT_MS);
	assert_int_equal(settings.http->connect_timeout_ms, JR_HTTP_CONNECT_MS);
	assert_int_equal(settings.http->expect_count, 1);
	assert_int_equal(settings.http->expect[0].from, 200);
	assert_int_equal(settings.http->expect[0].to, 299);
	assert_true(settings.http->allow_private);
	jr_settings_release(&settings);
	assert_null(settings.http);
}

static void
a_request_without_a_timeout_has_that_of_the_attempt(void **state)
{
	static const struct {
		const char *text;
		int64_t timeout_ms;
	} timeouts[] = {{"{\"http\": {" URL "}, \"timeout\": \"5m\"}", JR_HTTP_NO_TIMEOUT},
	    {"{\"timeout\": \"0\", \"http\": {" URL "}}", JR_HTTP_NO_TIMEOUT},
	    {"{\"timeout\": \"5m\", \"http\": {" URL ", \"timeout\": \"1m\"}}", 60000}};

	for (size_t i = 0; i < JR_COUNT(timeouts); i++) {
		struct jr_settings settings;

		understand(&settings, *state, ALONE, timeouts[i].text);
		assert_int_equal(settings.http->timeout_ms, timeouts[i].timeout_ms);
		jr_settings_release(&settings);
	}
}

static void
every_member_is_understood(void **state)
{
	char *ca_file = make_file(*state, "ca.pem", "", 0644);
	struct jr_settings settings;

	understand(&settings, *state, ALONE,
	    "{\"timeout\": \"1m\", \"later\": [429, 500], \"give_up\": [404], \"http\": {" URL
	    ", \"method\": \"PUT\", \"headers\": {\"Authorization\": \"Bearer x\", \"X-Blank\": \"a b~\", \"Host\": \"other\"}, \"timeout\": \"5s\", \"connect_timeout\": \"1s\", \"expect\": [202, \"3xx\"], \"allow_private\": false, \"proxy\": \"socks5://proxy:1080\", \"ca_file\": \"ca.pem\"}}");
	assert_int_equal(settings.timeout_ms, 60000);
	assert_string_equal(settings.rules.later.items[1], "500");
	assert_string_equal(settings.http->method, "PUT");
	assert_string_equal(settings.http->headers[0], "Authorization: Bearer x");
	assert_string_equal(settings.http->headers[1], "X-Blank: a b~");
	assert_string_equal(settings.http->headers[2], "Host: other");
	assert_null(settings.http->headers[3]);
	assert_int_equal(settings.http->timeout_ms, 5000);
	assert_int_equal(settings.http->connect_timeout_ms, 1000);
	assert_int_equal(settings.http->expect_count, 2);
	assert_int_equal(settings.http->expect[0].from, 202);
	assert_int_equal(settings.http->expect[0].to, 202);
	assert_int_equal(settings.http->expect[1].from, 300);
	assert_int_equal(settings.http->expect[1].to, 399);
	assert_false(settings.http->allow_private);
	assert_string_equal(settings.http->proxy, "socks5://proxy:1080");
	assert_string_equal(settings.http->ca_file, ca_file);
	jr_settings_release(&settings);
	free(ca_file);
}

/* The value of one member of "http", beside a good URL. */
static void
refuse_member(const char *directory, const char *member, const char *expected)
{
	char *text = jr_xasprintf("{\"http\": {" URL ",\n%s}}", member);
	char *placed = jr_xasprintf("2:%s", expected);

	refuse(directory, ALONE, text, placed);
	free(text);
	free(placed);
}

static void
urls_that_cannot_be_used_are_refused(void **state)
{
	static const struct refusal refusals[] = {
	    {ALONE, "{\"http\": []}", "1:2: http: expected an object with at least \"url\", not a list"},
	    {ALONE, "{\"http\": {}}", "1:2: http: \"url\" is missing"},
	    {ALONE, "{\"http\": {\"url\": 1}}", "1:11: url: expected a URL, not a number"},
	    {ALONE, "{\"http\": {\"url\": \"\"}}", "1:11: url: expected a URL, not \"\""},
	    {ALONE, "{\"http\": {\"url\": \"example.org/x\"}}", "1:11: url: cannot be used: "},
	    {ALONE, "{\"http\": {\"url\": \"ftp://example.org/x\"}}",
		"1:11: url: cannot be used: it must begin with https:// or http://"},
	    {ALONE, "{\"http\": {\"url\": \"file:///etc/passwd\"}}",
		"1:11: url: cannot be used: it must begin with https:// or http://"},
	    {ALONE, "{\"http\": {\"url\": \"https://\"}}", "1:11: url: cannot be used: "},
	    {ALONE, "{\"http\": {\"url\": \"https://a b/\"}}", "1:11: url: cannot be used: "},
	    {ALONE, "{\"http\": {\"url\": \"https://a/\\r\\nX: y\"}}", "1:11: url: cannot be used: "},
	    {ALONE, "{\"http\": {\"url\": \"https://me@example.org/\"}}",
		"1:11: url: cannot be used: there must be no user or password in it"},
	    {ALONE, "{\"http\": {\"url\": \"https://me:hunter2@example.org/\"}}",
		"1:11: url: cannot be used: there must be no user or password in it"},
	    {ALONE, "{\"http\": {\"url\": \"https://example.org/#here\"}}",
		"1:11: url: cannot be used: there must be no # in it"},
	    {ALONE, "{\"http\": {\"url\": \"https://example.org:99999/\"}}", "1:11: url: cannot be used: "},
	};

	refuse_all(*state, refusals, JR_COUNT(refusals));
}

static void
wrong_values_are_refused(void **state)
{
	static const struct {
		const char *member, *expected;
	} refusals[] = {
	    {"\"methd\": \"PUT\"", "1: unknown member \"methd\"; did you mean \"method\"?"},
	    {"\"batch\": 1", "1: unknown member \"batch\""},
	    {"\"give_up\": [404]", "1: \"give_up\" belongs beside \"http\", not in it"},
	    {"\"later\": []", "1: \"later\" belongs beside \"http\", not in it"},
	    {"\"grace\": \"1s\"", "1: \"grace\" belongs beside \"http\", not in it"},
	    {"\"method\": \"post\"", "1: method: \"post\" is not a method"},
	    {"\"method\": \"A B\"", "1: method: \"A B\" is not a method"},
	    {"\"method\": \"CONNECT\"", "1: method: CONNECT opens a tunnel through a proxy"},
	    {"\"method\": \"ABCDEFGHIJKLMNOPQRSTU\"", "1: method: "},
	    {"\"headers\": []", "1: headers: expected an object of names and strings, not a list"},
	    {"\"headers\": {\"A\": 1}", "13: headers.A: expected a string, not a number"},
	    {"\"headers\": {\"\": \"x\"}", "13: headers: \"\" cannot be the name of a header"},
	    {"\"headers\": {\"A B\": \"x\"}", "13: headers: \"A B\" cannot be the name"},
	    {"\"headers\": {\"A:\": \"x\"}", "13: headers: \"A:\" cannot be the name"},
	    {"\"headers\": {\"A\": \"x\\r\\nB: y\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \"x\\ny\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \"a\\tb\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \"J\\u00fcrgen\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \" x\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \"x \"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"Jobrun-Slot\": \"1\"}", "13: headers: jobrun itself sets"},
	    {"\"headers\": {\"A\": \"file:\"}", "13: headers.A: expected \"file:PATH\""},
	    {"\"headers\": {\"A\": \"file:none\"}", "13: headers.A: cannot read /tmp/"},
	    {"\"headers\": {\"A\": \"\\u0001\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \"\\u007f\"}", "13: headers: the value of \"A\" has a line end"},
	    {"\"headers\": {\"A\": \" \"}", "13: headers: the value of \"A\" is empty"},
	    {"\"headers\": {\"A\": \"1\", \"a\": \"2\"}", "23: headers: \"a\" is there twice"},
	    {"\"headers\": {\"WebHook-ID\": \"1\"}", "13: headers: jobrun itself sets \"WebHook-ID\""},
	    {"\"headers\": {\"content-length\": \"1\"}", "13: headers: jobrun itself sets"},
	    {"\"headers\": {\"Transfer-Encoding\": \"1\"}", "13: headers: jobrun itself sets"},
	    {"\"headers\": {\"Idempotency-Key\": \"1\"}", "13: headers: jobrun itself sets"},
	    {"\"headers\": {\"traceparent\": \"1\"}", "13: headers: jobrun itself sets"},
	    {"\"timeout\": \"0\"", "1: timeout: \"0\" is too short"},
	    {"\"connect_timeout\": 5", "1: connect_timeout: 5 has no unit"},
	    {"\"expect\": 200", "1: expect: expected a list, not a number"},
	    {"\"expect\": []", "1: expect: the list is empty"},
	    {"\"expect\": [99]", "12: expect: expected statuses from 100 to 599"},
	    {"\"expect\": [200, 600]", "17: expect: expected statuses"},
	    {"\"expect\": [\"6xx\"]", "12: expect: expected statuses"},
	    {"\"expect\": [\"2XX\"]", "12: expect: expected statuses"},
	    {"\"expect\": [\"200\"]", "12: expect: expected statuses"},
	    {"\"allow_private\": 0", "1: allow_private: expected true or false, not a number"},
	    {"\"proxy\": \"ftp://x\"", "1: proxy: cannot be used: it must begin with http://"},
	    {"\"proxy\": \"http://u:hunter2@x\"", "1: proxy: cannot be used: there must be no user"},
	    {"\"proxy\": false", "1: proxy: expected a URL or \"environment\", not false"},
	    {"\"ca_file\": \"none.pem\"", "1: ca_file: cannot use /tmp/"},
	};

	for (size_t i = 0; i < JR_COUNT(refusals); i++)
		refuse_member(*state, refusals[i].member, refusals[i].expected);
}

/* Whoever can change it says whom to trust; and libcurl would wait for a pipe. */
static void
a_ca_file_that_is_not_safe_is_refused(void **state)
{
	char *fifo = jr_xasprintf("%s/fifo.pem", (char *)*state);
	char *open = make_file(*state, "open.pem", "", 0644);

	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(chmod(open, 0666), 0);
	refuse_member(*state, "\"ca_file\": \"fifo.pem\"", "1: ca_file: cannot use /tmp/");
	refuse_member(*state, "\"ca_file\": \"/dev/zero\"", "1: ca_file: cannot ");
	refuse_member(*state, "\"ca_file\": \"open.pem\"", "1: ca_file: cannot trust /tmp/");
	free(fifo);
	free(open);
}

static void
a_ca_file_that_cannot_be_read_is_refused_with_the_reason(void **state)
{
	struct jr_settings settings;
	struct jr_err err;

	assert_false(read_text(&settings, *state, ALONE, "{\"http\": {" URL ", \"ca_file\": \"none.pem\"}}", &err));
	assert_non_null(strstr(err.msg, "/none.pem: No such file or directory"));
}

static void
codes_that_are_expected_are_no_failures(void **state)
{
	refuse(*state, ALONE, "{\"later\": [429, 201], \"http\": {" URL "}}",
	    "1:17: later: 201 means done, see \"expect\"");
	refuse(*state, ALONE, "{\"http\": {" URL ", \"expect\": [404]}, \"give_up\": [404]}",
	    "1:80: give_up: 404 means done, see \"expect\"");
	refuse(*state, ALONE, "{\"later\": [99], \"http\": {" URL "}}",
	    "1:12: later: 99 is out of range, expected 100 to 599");
}

static void
secrets_are_read_from_their_files(void **state)
{
	struct jr_settings settings;

	free(make_file(*state, "send.secret", "\n " SECRET_32 "\n", 0640));
	free(make_file(*state, ".old", "whsec_////////////////////////////////", 0400));
	understand(
	    &settings, *state, ALONE, "{\"http\": {" URL ", \"secret\": [\"file:send.secret\", \"file:.old\"]}}");
	assert_int_equal(settings.http->secret_count, 2);
	assert_int_equal(settings.http->secrets[0].len, 32);
	assert_int_equal(settings.http->secrets[0].bytes[31], 31);
	assert_int_equal(settings.http->secrets[1].len, 24);
	assert_int_equal(settings.http->secrets[1].bytes[0], 255);
	jr_settings_release(&settings);
	understand(&settings, *state, ALONE, "{\"http\": {" URL ", \"secret\": \"file:send.secret\"}}");
	assert_int_equal(settings.http->secret_count, 1);
	jr_settings_release(&settings);
}

static void
secrets_that_are_not_safe_are_refused_and_not_shown(void **state)
{
	char *fifo = jr_xasprintf("%s/fifo", (char *)*state);
	char *large = jr_xmalloc(2000);
	struct jr_settings settings;
	struct jr_err err;

	memset(large, ' ', 1999);
	memcpy(large, SECRET_32, strlen(SECRET_32));
	large[1999] = '\0';
	free(make_file(*state, "open", SECRET_32, 0644));
	free(make_file(*state, "group", SECRET_32, 0660));
	free(make_file(*state, "listed", SECRET_32, 0601));
	free(make_file(*state, "large", large, 0600));
	free(make_file(*state, "good", SECRET_32, 0600));
	free(make_file(*state, "bad", "hunter2", 0600));
	assert_int_equal(mkfifo(fifo, 0600), 0);
	refuse_member(*state, "\"secret\": \"file:open\"", "1: secret: /tmp/");
	refuse_member(*state, "\"secret\": \"file:group\"", "1: secret: /tmp/");
	refuse_member(*state, "\"secret\": \"file:listed\"", "1: secret: /tmp/");
	refuse_member(*state, "\"secret\": [\"file:good\", \"file:large\"]", "25: secret: /tmp/");
	refuse_member(*state, "\"secret\": \"file:fifo\"", "1: secret: /tmp/");
	refuse_member(*state, "\"secret\": \"file:none\"", "1: secret: cannot read /tmp/");
	refuse_member(*state, "\"secret\": \"file:\"", "1: secret: expected \"file:PATH\"");
	refuse_member(*state, "\"secret\": 5", "1: secret: expected \"file:PATH\"");
	refuse_member(*state, "\"secret\": []", "1: secret: expected one or two files, not 0");
	refuse_member(*state, "\"secret\": [\"file:good\", \"file:good\", \"file:good\"]",
	    "1: secret: expected one or two files, not 3");
	assert_false(read_text(&settings, *state, ALONE, "{\"http\": {" URL ", \"secret\": \"" SECRET_32 "\"}}", &err));
	assert_null(strstr(err.msg, "AAEC"));
	assert_false(read_text(&settings, *state, ALONE, "{\"http\": {" URL ", \"secret\": \"file:bad\"}}", &err));
	assert_null(strstr(err.msg, "hunter2"));
	assert_non_null(strstr(err.msg, "expected \"whsec_\""));
	assert_false(read_text(&settings, *state, ALONE, "{\"http\": {" URL ", \"secret\": \"file:open\"}}", &err));
	assert_non_null(strstr(err.msg, "chmod o-rwx,g-w /tmp/"));
	if (geteuid() == 0) {
		char *foreign = make_file(*state, "foreign", SECRET_32, 0600);

		assert_int_equal(chown(foreign, 1, 1), 0);
		refuse_member(*state, "\"secret\": \"file:foreign\"", "1: secret: cannot trust /tmp/");
		free(foreign);
	}
	free(fifo);
	free(large);
}

static void
values_of_headers_are_read_from_files(void **state)
{
	static const char text[] =
	    "{\"http\": {" URL ", \"headers\": {\"Authorization\": \"file:token\", \"X-Name\": \"x\"}}}";
	struct jr_settings settings;
	struct jr_err err;

	free(make_file(*state, "token", "Bearer hunter2\r\n\n", 0640));
	understand(&settings, *state, ALONE, text);
	assert_string_equal(settings.http->headers[0], "Authorization: Bearer hunter2");
	assert_string_equal(settings.http->headers[1], "X-Name: x");
	jr_settings_release(&settings);
	free(make_file(*state, "token", "Bearer\nX-Evil: hunter2", 0600));
	assert_false(read_text(&settings, *state, ALONE, text, &err));
	assert_non_null(strstr(err.msg, "headers: the value of \"Authorization\" has a line end"));
	assert_null(strstr(err.msg, "hunter2"));
	free(make_file(*state, "token", "\n", 0600));
	assert_false(read_text(&settings, *state, ALONE, text, &err));
	assert_non_null(strstr(err.msg, "headers: the value of \"Authorization\" is empty"));
	free(make_file(*state, "token", "hunter2", 0644));
	assert_false(read_text(&settings, *state, ALONE, text, &err));
	assert_non_null(strstr(err.msg, "headers.Authorization: /tmp/"));
	assert_non_null(strstr(err.msg, "/token is open to others: chmod o-rwx,g-w /tmp/"));
}

/* The file itself is judged as that of a secret when there is one in it. */
static void
headers_that_are_secrets_need_a_closed_file(void **state)
{
	static const struct {
		const char *name;
		int mode;
		bool taken;
	} cases[] = {{"Authorization", 0644, false}, {"authorization", 0604, false},
	    {"Proxy-Authorization", 0644, false}, {"X-Api-Key", 0644, false}, {"X-AUTH-TOKEN", 0644, false},
	    {"Cookie", 0644, false}, {"X-Password", 0644, false}, {"Client-Secret", 0644, false},
	    {"Authorization", 0660, false}, {"Authorization", 0640, true}, {"Authorization", 0600, true},
	    {"X-Name", 0644, true}, {"Accept", 0644, true}};

	for (size_t i = 0; i < JR_COUNT(cases); i++) {
		char *text = jr_xasprintf("{\"http\": {" URL ",\n\"headers\": {\"%s\": \"hunter2\"}}}", cases[i].name);
		char *path = make_file(*state, "hook.json", text, cases[i].mode);
		struct jr_settings settings;
		struct jr_err err;

		if (jr_settings_read(&settings, path, *state, ALONE, &err) != cases[i].taken)
			fail_msg("%s with mode %o", cases[i].name, cases[i].mode);
		if (cases[i].taken) {
			jr_settings_release(&settings);
		} else {
			char *expected = jr_xasprintf("type: chmod o-rwx,g-w %s", path);

			assert_non_null(strstr(err.msg, "hook.json:2:13: headers: \""));
			assert_string_equal(err.msg + strlen(err.msg) - strlen(expected), expected);
			assert_null(strstr(err.msg, "hunter2"));
			free(expected);
		}
		free(text);
		free(path);
	}
}

static void
secrets_are_strict_base64(void **state)
{
	static const struct {
		const char *text, *expected;
	} refusals[] = {
	    {"", "expected \"whsec_\""},
	    {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "expected \"whsec_\""},
	    {"whsec_", "shorter than 24"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=", "shorter than 24"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "not base64"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-", "not base64"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "not base64"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAR=hMUFRYXGBkaGxwdHh8=", "not base64"},
	    {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd====", "not base64"},
	    {"whsec_AAEC AwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "not base64"},
	    {"whsec_" A_64 A_16 "AAAAAAA=", "not base64"}, /* 65 bytes */
	    {"whsec_" A_64 A_16 A_16, "longer than 64"},
	};
	static const unsigned char zeros[64] = {0};
	struct jr_secret secret;
	struct jr_err err;

	(void)state;
	for (size_t i = 0; i < JR_COUNT(refusals); i++) {
		if (jr_secret_parse(refusals[i].text, &secret, &err))
			fail_msg("\"%s\" was taken", refusals[i].text);
		if (strstr(err.msg, refusals[i].expected) == NULL)
			fail_msg("\"%s\" is not in \"%s\"", refusals[i].expected, err.msg);
		assert_memory_equal(secret.bytes, zeros, sizeof(zeros));
		assert_int_equal(secret.len, 0);
	}
	assert_true(jr_secret_parse("\t" SECRET_32 " \r\n", &secret, &err));
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(secret.bytes[i], i);
	assert_true(jr_secret_parse("whsec_" A_64 A_16 "AAAAAA==", &secret, &err));
	assert_int_equal(secret.len, 64);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(what_is_not_said_is_the_default),
	    TEST(a_request_without_a_timeout_has_that_of_the_attempt),
	    TEST(every_member_is_understood),
	    TEST(urls_that_cannot_be_used_are_refused),
	    TEST(wrong_values_are_refused),
	    TEST(a_ca_file_that_cannot_be_read_is_refused_with_the_reason),
	    TEST(a_ca_file_that_is_not_safe_is_refused),
	    TEST(codes_that_are_expected_are_no_failures),
	    TEST(secrets_are_read_from_their_files),
	    TEST(secrets_that_are_not_safe_are_refused_and_not_shown),
	    TEST(values_of_headers_are_read_from_files),
	    TEST(headers_that_are_secrets_need_a_closed_file),
	    TEST(secrets_are_strict_base64),
	};

	return cmocka_run_group_tests_name("settings_http", tests, NULL, NULL);
}
