/*
 * http: which addresses are public. Each row of the table by itself, and those next to it; and addresses that are
 * judged without the table.
 */
#include "handler/http.h"
#include "handler/http_blocks.h"
#include "processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#define BYTES_MAX 16

static size_t
size_of(int family)
{
	return family == AF_INET ? 4 : 16;
}

static bool
is_public(int family, const unsigned char *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	memcpy(family == AF_INET ? (void *)&in.sin_addr : (void *)&in6.sin6_addr, address, size_of(family));
	return jr_address_special(family == AF_INET ? (const struct sockaddr *)&in : (const struct sockaddr *)&in6) ==
	       NULL;
}

static bool
is_public_text(const char *text)
{
	int family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
	unsigned char address[BYTES_MAX];

	assert_int_equal(inet_pton(family, text, address), 1);
	return is_public(family, address);
}

/* All bits behind the first `bits` become `bit`. */
static void
fill(unsigned char *address, size_t size, unsigned bits, bool bit)
{
	for (unsigned i = bits; i < size * 8; i++) {
		unsigned char mask = (unsigned char)(0x80U >> i % 8);

		address[i / 8] = (unsigned char)(bit ? address[i / 8] | mask : address[i / 8] & ~mask);
	}
}

/* The next address, or the one before it; false: there is none. */
static bool
step(unsigned char *address, size_t size, bool up)
{
	for (size_t i = size; i-- > 0;) {
		address[i] = (unsigned char)(address[i] + (up ? 1 : 255));
		if (address[i] != (up ? 0 : 255))
			return true;
	}
	return false;
}

/* Bit by bit, so that the test does not share the arithmetic of what it tests. */
static bool
is_covered(int family, const unsigned char *address, const struct jr_block *block)
{
	unsigned char prefix[BYTES_MAX];

	assert_int_equal(inet_pton(family, block->address, prefix), 1);
	for (unsigned i = 0; i < block->bits; i++) {
		if (((unsigned)(address[i / 8] ^ prefix[i / 8]) >> (7 - i % 8) & 1) != 0)
			return false;
	}
	return true;
}

/* Is it public as far as the rows say, and what is global unicast? */
static bool
should_be_public(int family, const unsigned char *address)
{
	const struct jr_block *blocks = family == AF_INET ? jr_blocks4 : jr_blocks6;
	size_t count = family == AF_INET ? JR_COUNT(jr_blocks4) : JR_COUNT(jr_blocks6);

	if (family == AF_INET6 && address[0] >> 5 != 1)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (is_covered(family, address, &blocks[i]))
			return false;
	}
	return true;
}

static void
expect_row(int family, const struct jr_block *block)
{
	unsigned char first[BYTES_MAX], last[BYTES_MAX], prefix[BYTES_MAX];
	size_t size = size_of(family);

	assert_int_equal(inet_pton(family, block->address, prefix), 1);
	assert_true(block->bits > 0 && block->bits <= size * 8);
	memcpy(first, prefix, sizeof(first));
	memcpy(last, prefix, sizeof(last));
	fill(first, size, block->bits, false);
	fill(last, size, block->bits, true);
	if (memcmp(first, prefix, size) != 0)
		fail_msg("%s/%u has bits behind its prefix", block->address, block->bits);
	if (is_public(family, first) || is_public(family, last))
		fail_msg("%s/%u is not refused whole", block->address, block->bits);
	if (step(first, size, false) && is_public(family, first) != should_be_public(family, first))
		fail_msg("the address before %s/%u", block->address, block->bits);
	if (step(last, size, true) && is_public(family, last) != should_be_public(family, last))
		fail_msg("the address behind %s/%u", block->address, block->bits);
}

static void
each_row_is_refused_and_no_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < JR_COUNT(jr_blocks4); i++)
		expect_row(AF_INET, &jr_blocks4[i]);
	for (size_t i = 0; i < JR_COUNT(jr_blocks6); i++)
		expect_row(AF_INET6, &jr_blocks6[i]);
}

/* Written down without the table, so that a row that is lost, or too large, is noticed. */
static void
well_known_addresses_are_right(void **state)
{
	static const char *const refused[] = {"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0",
	    "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.0", "172.31.255.255",
	    "192.0.0.0", "192.0.0.9", "192.0.0.170", "192.0.0.255", "192.0.2.1", "192.31.196.1", "192.52.193.1",
	    "192.88.99.1", "192.88.99.2", "192.168.0.1", "192.175.48.6", "198.18.0.0", "198.19.255.255", "198.51.100.1",
	    "203.0.113.255", "224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255", "::", "::1", "::7f00:1",
	    "::808:808", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::7f00:1",
	    "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "200::1", "1fff:ffff::1", "2001::1",
	    "2001:0:1::1", "2001:1::1", "2001:1::3", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
	    "2001:20::1", "2001:30::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::1", "2002:808:808::1",
	    "2620:4f:8000::1", "3ffe::1", "3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1", "8000::1", "fc00::1",
	    "fdff::1", "fe00::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1"};
	static const char *const let_through[] = {"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255",
	    "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
	    "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.31.195.255", "192.88.98.255",
	    "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255",
	    "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "2000::", "2001:200::1", "2001:db7::1",
	    "2001:db9::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1", "2620:4f:7fff::1", "2620:4f:8001::1",
	    "2a00:1450::1", "3ffd::1", "3fff:1000::1"};

	(void)state;
	for (size_t i = 0; i < JR_COUNT(refused); i++) {
		if (is_public_text(refused[i]))
			fail_msg("%s is public", refused[i]);
	}
	for (size_t i = 0; i < JR_COUNT(let_through); i++) {
		if (!is_public_text(let_through[i]))
			fail_msg("%s is not public", let_through[i]);
	}
	assert_non_null(jr_address_special((const struct sockaddr *)&(struct sockaddr_un){.sun_family = AF_UNIX}));
}

/* The smallest block says what it is. */
static void
it_is_called_by_its_name(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "192.0.0.9", &in.sin_addr), 1);
	assert_string_equal(jr_address_special((const struct sockaddr *)&in), "Port Control Protocol anycast");
	assert_int_equal(inet_pton(AF_INET6, "::1", &in6.sin6_addr), 1);
	assert_string_equal(jr_address_special((const struct sockaddr *)&in6), "loopback");
	assert_int_equal(inet_pton(AF_INET6, "4000::1", &in6.sin6_addr), 1);
	assert_string_equal(jr_address_special((const struct sockaddr *)&in6), "not known to be public");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_row_is_refused_and_no_more),
	    cmocka_unit_test(well_known_addresses_are_right),
	    cmocka_unit_test(it_is_called_by_its_name),
	};

	return cmocka_run_group_tests_name("http_address", tests, NULL, NULL);
}
