/*
 * webhook: signatures are those of the reference libraries, and no key gets out of its header.
 */
#include "handler/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, of the tests of the Standard Webhooks libraries. */
static const struct jr_secret known = {
    .bytes = {49, 242, 144, 246, 191, 6, 41, 138, 171, 79, 8, 212, 60, 63, 8, 44, 246, 72, 163, 98, 218, 45, 164, 176},
    .len = 24};

static void
the_known_vector_is_signed_as_everywhere(void **state)
{
	static const char body[] = "{\"test\": 2432232314}";
	char *signature = jr_webhook_sign(&known, 1, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body));

	(void)state;
	assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	free(signature);
}

/* Made with hmac of Python: an empty body, and 64 bytes 0 to 63 as the second secret. */
static void
two_secrets_give_two_signatures(void **state)
{
	struct jr_secret secrets[2] = {known, {.len = JR_SECRET_MAX}};
	char *signature;

	(void)state;
	for (size_t i = 0; i < JR_SECRET_MAX; i++)
		secrets[1].bytes[i] = (unsigned char)i;
	signature = jr_webhook_sign(secrets, 2, "a", 0, "", 0);
	assert_string_equal(signature,
	    "v1,ZyVG66Mr75yBcUDUg3OFSwOBLDdB73ytHZQLL4wzqLI= v1,uveq/R7Ke8zKZ1m8ObG+BocfQ3KjHEmEeOmkG099p/g=");
	free(signature);
}

static void
each_byte_of_the_body_counts(void **state)
{
	char *one = jr_webhook_sign(&known, 1, "a", 1, "x\0y", 3);
	char *other = jr_webhook_sign(&known, 1, "a", 1, "x\0z", 3);

	(void)state;
	assert_string_not_equal(one, other);
	free(one);
	free(other);
}

static void
check_id(const char *key, const char *signed_id, const char *plain_id)
{
	char *first = jr_webhook_id(key, true), *second = jr_webhook_id(key, false);

	assert_string_equal(first, signed_id);
	assert_string_equal(second, plain_id);
	free(first);
	free(second);
}

static void
keys_cannot_leave_their_header(void **state)
{
	(void)state;
	check_id("order-4711_x~!\"/", "order-4711_x~!\"/", "order-4711_x~!\"/");
	check_id("", "", "");
	check_id("a.b", "a%2Eb", "a.b");
	check_id("100%", "100%25", "100%25");
	check_id("%2E", "%252E", "%252E");
	check_id("a\r\nX-Evil: 1", "a%0D%0AX-Evil:%201", "a%0D%0AX-Evil:%201");
	check_id("\t\x7F\xC3\xA9", "%09%7F%C3%A9", "%09%7F%C3%A9");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_known_vector_is_signed_as_everywhere),
	    cmocka_unit_test(two_secrets_give_two_signatures),
	    cmocka_unit_test(each_byte_of_the_body_counts),
	    cmocka_unit_test(keys_cannot_leave_their_header),
	};

	return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
