/*
 * http_address: is an address that of a public host? Pure.
 *
 * What must hold: an unknown address is not public, because the caller refuses addresses that are not public. An IPv6
 * address that contains an IPv4 address (mapped, 6to4, NAT64, Teredo) is not public either, whatever the IPv4 address
 * is: we cannot know where a gateway would send the packet.
 */
#include "handler/http.h"
#include "handler/http_blocks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define BYTES_MAX 16
#define UNKNOWN "not known to be public"

static bool
is_in(const unsigned char *address, int family, const struct jr_block *block)
{
	unsigned whole = block->bits / 8, rest = block->bits % 8;
	unsigned char prefix[BYTES_MAX];

	if (inet_pton(family, block->address, prefix) != 1)
		return true; /* an invalid row refuses every address, so any test shows it */
	if (memcmp(address, prefix, whole) != 0)
		return false;
	return rest == 0 || ((unsigned)(address[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

/* The name of the smallest block that contains the address; NULL: none. */
static const char *
block_of(const unsigned char *address, int family, const struct jr_block *blocks, size_t count)
{
	const struct jr_block *found = NULL;

	for (size_t i = 0; i < count; i++) {
		if ((found == NULL || blocks[i].bits > found->bits) && is_in(address, family, &blocks[i]))
			found = &blocks[i];
	}
	return found != NULL ? found->name : NULL;
}

static const char *
special6(const unsigned char *address)
{
	const char *block = block_of(address, AF_INET6, jr_blocks6, JR_COUNT(jr_blocks6));

	if (block == NULL && !is_in(address, AF_INET6, &jr_global_unicast6))
		return UNKNOWN;
	return block;
}

const char *
jr_address_special(const struct sockaddr *address)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	/* Copied, because the caller's storage may not be aligned for these types. */
	if (address->sa_family == AF_INET) {
		memcpy(&in, address, sizeof(in));
		return block_of((const unsigned char *)&in.sin_addr, AF_INET, jr_blocks4, JR_COUNT(jr_blocks4));
	}
	if (address->sa_family == AF_INET6) {
		memcpy(&in6, address, sizeof(in6));
		return special6(in6.sin6_addr.s6_addr);
	}
	return UNKNOWN;
}
