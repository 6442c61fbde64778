/*
 * http_address: addresses that strangers cannot be at. Pure.
 *
 * A table of prefixes for each family. IPv6 addresses that stand for an IPv4 one are judged by that one, wherever the
 * kernel or a gateway would send the packet to it. What must hold: what is not known is private, since the question is
 * asked to refuse.
 *
 * Source: IANA IPv4 and IPv6 Special-Purpose Address Registries.
 */
#include "handler/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

struct prefix4 {
	uint32_t address; /* in host order */
	unsigned bits;
};

struct prefix6 {
	unsigned char address[16];
	unsigned bits;
};

/* clang-format off */
#define IP4(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct prefix4 private4[] = {
	{ IP4(0, 0, 0, 0), 8 },       /* this network; 0.0.0.0 is this host */
	{ IP4(10, 0, 0, 0), 8 },
	{ IP4(100, 64, 0, 0), 10 },   /* shared, behind a carrier's NAT */
	{ IP4(127, 0, 0, 0), 8 },
	{ IP4(169, 254, 0, 0), 16 },  /* link-local; the metadata of clouds */
	{ IP4(172, 16, 0, 0), 12 },
	{ IP4(192, 0, 0, 0), 24 },    /* protocol assignments */
	{ IP4(192, 0, 2, 0), 24 },    /* documentation, as the two with 100 and 113 */
	{ IP4(192, 168, 0, 0), 16 },
	{ IP4(198, 18, 0, 0), 15 },   /* benchmarks */
	{ IP4(198, 51, 100, 0), 24 },
	{ IP4(203, 0, 113, 0), 24 },
	{ IP4(224, 0, 0, 0), 4 },     /* multicast */
	{ IP4(240, 0, 0, 0), 4 },     /* reserved, broadcast */
};

static const struct prefix6 private6[] = {
	{ { 0 }, 96 },                             /* ::, ::1 and what once was "IPv4-compatible" */
	{ { 0xFC }, 7 },                           /* unique local */
	{ { 0xFE, 0x80 }, 10 },                    /* link-local */
	{ { 0xFE, 0xC0 }, 10 },                    /* site-local, of old */
	{ { 0xFF }, 8 },                           /* multicast */
	{ { 0x01 }, 64 },                          /* discard */
	{ { 0x20, 0x01 }, 32 },                    /* Teredo: an IPv4 address in disguise */
	{ { 0x20, 0x01, 0x0D, 0xB8 }, 32 },        /* documentation */
	{ { 0x3F, 0xFF }, 20 },                    /* documentation */
	{ { 0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01 }, 48 }, /* NAT64 of a local network */
};
/* clang-format on */

static bool
is_private4(uint32_t address)
{
	for (size_t i = 0; i < JR_COUNT(private4); i++) {
		uint32_t mask = ~UINT32_C(0) << (32 - private4[i].bits);

		if ((address & mask) == private4[i].address)
			return true;
	}
	return false;
}

static bool
has_prefix(const unsigned char *address, const unsigned char *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(address, prefix, whole) != 0)
		return false;
	return rest == 0 || ((unsigned)(address[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

static uint32_t
embedded4(const unsigned char *at)
{
	return IP4(at[0], at[1], at[2], at[3]);
}

static bool
is_private6(const unsigned char *address)
{
	static const unsigned char mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	static const unsigned char nat64[12] = {0x00, 0x64, 0xFF, 0x9B};
	static const unsigned char six_to_four[2] = {0x20, 0x02};

	if (has_prefix(address, mapped, 96) || has_prefix(address, nat64, 96))
		return is_private4(embedded4(address + 12));
	if (has_prefix(address, six_to_four, 16))
		return is_private4(embedded4(address + 2));
	for (size_t i = 0; i < JR_COUNT(private6); i++) {
		if (has_prefix(address, private6[i].address, private6[i].bits))
			return true;
	}
	return false;
}

bool
jr_address_is_private(const struct sockaddr *address)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	/* Copied: the storage of the caller need not be aligned for them. */
	if (address->sa_family == AF_INET) {
		memcpy(&in, address, sizeof(in));
		return is_private4(ntohl(in.sin_addr.s_addr));
	}
	if (address->sa_family == AF_INET6) {
		memcpy(&in6, address, sizeof(in6));
		return is_private6(in6.sin6_addr.s6_addr);
	}
	return true;
}
