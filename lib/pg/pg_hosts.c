/*
 * pg_hosts: see pg_hosts.h.
 *
 * What must hold: without `pinned` the names are given to libpq as the user wrote them, so each connection looks them
 * up again. With it every name has an address beside it, which libpq uses; the name is still what a certificate and a
 * password file are compared with.
 */
#include "pg/pg_hosts.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define LIST_MAX 65536

/* The item of a list at *at, and go on behind it. Of a list with one item (`alone`) each call gives that one. */
static char *
take_item(const char **at, bool alone)
{
	const char *from = *at == NULL ? "" : *at;
	size_t len = strcspn(from, ",");

	if (!alone && *at != NULL)
		*at = from + len + (from[len] == ',');
	return jr_xmemdup0(from, len);
}

static size_t
count_items(const char *list)
{
	size_t count = list == NULL || *list == '\0' ? 0 : 1;

	for (; count > 0 && *list != '\0'; list++)
		count += *list == ',';
	return count;
}

void
jr_pg_hosts_read(struct jr_pg_hosts *hosts, const char *names, const char *addresses, const char *ports)
{
	size_t count = count_items(names) > count_items(addresses) ? count_items(names) : count_items(addresses);
	bool one_port = count_items(ports) <= 1;

	if (count == 0)
		count = 1;
	for (size_t i = 0; i < count && i < JR_PG_HOSTS_MAX; i++) {
		hosts->items[i] = (struct jr_pg_host){.name = take_item(&names, false),
		    .address = take_item(&addresses, false),
		    .port = take_item(&ports, one_port)};
		hosts->count = i + 1;
	}
}

static void
free_host(struct jr_pg_host *host)
{
	free(host->name);
	free(host->address);
	free(host->port);
	free(host->known);
}

void
jr_pg_hosts_free(struct jr_pg_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++)
		free_host(&hosts->items[i]);
	*hosts = (struct jr_pg_hosts){.count = 0};
}

static struct jr_pg_host
copy_host(const struct jr_pg_host *from, const char *known)
{
	return (struct jr_pg_host){.name = jr_xstrdup(from->name),
	    .address = jr_xstrdup(from->address),
	    .port = jr_xstrdup(from->port),
	    .known = jr_xstrdup_or_null(known),
	    .further = from->further,
	    .silent = from->silent};
}

void
jr_pg_hosts_copy(struct jr_pg_hosts *to, const struct jr_pg_hosts *from)
{
	jr_pg_hosts_free(to);
	for (size_t i = 0; i < from->count; i++)
		to->items[i] = copy_host(&from->items[i], from->items[i].known);
	to->count = from->count;
	to->first = from->first;
	to->shuffled = from->shuffled;
}

/* The entry with the name of this one: without `pinned` its further addresses are not tried by themselves. */
static size_t
host_of(const struct jr_pg_hosts *hosts, size_t at)
{
	while (hosts->items[at].further) /* the first never is */
		at--;
	return at;
}

/* Is this a socket or a numeric address? */
static bool
needs_no_look_up(const char *name)
{
	size_t len = strcspn(name, "%"); /* the zone of an address of IPv6 */
	char text[INET6_ADDRSTRLEN];
	unsigned char bytes[16];

	if (*name == '\0' || *name == '/' || *name == '@')
		return true;
	if (len >= sizeof(text))
		return false;
	memcpy(text, name, len);
	text[len] = '\0';
	return inet_pton(AF_INET6, text, bytes) == 1 || (name[len] == '\0' && inet_pton(AF_INET, text, bytes) == 1);
}

/* Does this entry belong to the try? */
static bool
is_tried(const struct jr_pg_hosts *hosts, size_t at)
{
	const struct jr_pg_host *host = &hosts->items[at];

	if (host->silent)
		return false;
	if (!hosts->pinned)
		return !host->further;
	return host->known != NULL || *host->address != '\0' || needs_no_look_up(host->name);
}

void
jr_pg_hosts_begin(struct jr_pg_hosts *hosts, bool pinned)
{
	for (size_t i = 0; i < hosts->count; i++)
		hosts->items[i].silent = false;
	hosts->pinned = pinned;
}

bool
jr_pg_hosts_are_plain(const struct jr_pg_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts->items[i].silent)
			return false;
	}
	return hosts->count == 0 || (!hosts->pinned && host_of(hosts, hosts->first) == 0);
}

/* The entries in the order of the try. Returns how many. */
static size_t
order(const struct jr_pg_hosts *hosts, size_t out[JR_PG_HOSTS_MAX])
{
	size_t begin = hosts->pinned ? hosts->first : host_of(hosts, hosts->first), count = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		size_t at = (begin + i) % hosts->count;

		if (is_tried(hosts, at))
			out[count++] = at;
	}
	return count;
}

/*
 * libpq takes the empty value of an option for none and reads the connection string instead. So if the only host that
 * is left would leave one empty that the connection string sets, the host is named twice: "," is not empty.
 */
static bool
needs_comma(const struct jr_pg_hosts *hosts, const struct jr_pg_host *only)
{
	bool names = false, addresses = false, ports = false;

	for (size_t i = 0; i < hosts->count; i++) {
		names = names || *hosts->items[i].name != '\0';
		addresses = addresses || *hosts->items[i].address != '\0';
		ports = ports || *hosts->items[i].port != '\0';
	}
	return (names && *only->name == '\0') || (ports && *only->port == '\0') ||
	       (addresses && *only->address == '\0' && (!hosts->pinned || only->known == NULL));
}

bool
jr_pg_hosts_lists(const struct jr_pg_hosts *hosts, struct jr_pg_lists *lists)
{
	size_t entries[JR_PG_HOSTS_MAX], count = order(hosts, entries);
	struct jr_buf names, addresses, ports;

	if (count == 1 && needs_comma(hosts, &hosts->items[entries[0]]))
		entries[count++] = entries[0];
	jr_buf_init(&names, LIST_MAX);
	jr_buf_init(&addresses, LIST_MAX);
	jr_buf_init(&ports, LIST_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct jr_pg_host *host = &hosts->items[entries[i]];
		const char *comma = i == 0 ? "" : ",";
		bool known = hosts->pinned && *host->address == '\0' && host->known != NULL;

		(void)jr_buf_addf(&names, "%s%s", comma, host->name);
		(void)jr_buf_addf(&addresses, "%s%s", comma, known ? host->known : host->address);
		(void)jr_buf_addf(&ports, "%s%s", comma, host->port);
	}
	*lists = (struct jr_pg_lists){jr_buf_detach(&names), jr_buf_detach(&addresses), jr_buf_detach(&ports)};
	return count > 0;
}

void
jr_pg_lists_free(struct jr_pg_lists *lists)
{
	free(lists->names);
	free(lists->addresses);
	free(lists->ports);
}

/* libpq shows the address of a host without a name, the directory of a default socket, and a default port. */
static bool
is_host(const struct jr_pg_host *host, const char *name, const char *port)
{
	const char *shown = *host->name != '\0' ? host->name : host->address;

	if (port != NULL && *host->port != '\0' && strcmp(host->port, port) != 0)
		return false;
	return *shown == '\0' ? *name == '/' || *name == '@' || *name == '\0' : strcmp(shown, name) == 0;
}

size_t
jr_pg_hosts_find(const struct jr_pg_hosts *hosts, const char *name, const char *address, const char *port)
{
	size_t entries[JR_PG_HOSTS_MAX], count = order(hosts, entries), found = hosts->count;

	for (size_t i = 0; i < count; i++) {
		const struct jr_pg_host *host = &hosts->items[entries[i]];
		const char *numeric = *host->address != '\0' ? host->address : host->known;

		if (!is_host(host, name == NULL ? "" : name, port))
			continue;
		if (numeric != NULL && address != NULL && strcmp(numeric, address) == 0)
			return entries[i];
		if (found == hosts->count)
			found = entries[i];
	}
	return found;
}

size_t
jr_pg_hosts_left(const struct jr_pg_hosts *hosts, size_t at)
{
	size_t entries[JR_PG_HOSTS_MAX], count = order(hosts, entries);

	for (size_t i = 0; !hosts->shuffled && i < count; i++) {
		if (entries[i] == at)
			return count - i;
	}
	return count > 0 ? count : 1;
}

void
jr_pg_hosts_silent(struct jr_pg_hosts *hosts, size_t at)
{
	if (at >= hosts->count)
		return;
	hosts->items[at].silent = true;
	do
		at = (at + 1) % hosts->count;
	while (!hosts->pinned && hosts->items[at].further);
	hosts->first = at;
}

/* Take out the further addresses of a host. */
static void
forget_further(struct jr_pg_hosts *hosts, size_t at)
{
	size_t end = at + 1, gone;

	while (end < hosts->count && hosts->items[end].further)
		free_host(&hosts->items[end++]);
	gone = end - (at + 1);
	memmove(&hosts->items[at + 1], &hosts->items[end], (hosts->count - end) * sizeof(hosts->items[0]));
	hosts->count -= gone;
	if (hosts->first >= end)
		hosts->first -= gone;
	else if (hosts->first > at)
		hosts->first = at;
}

static void
add_further(struct jr_pg_hosts *hosts, size_t at, const char *address)
{
	if (hosts->count == JR_PG_HOSTS_MAX)
		return;
	memmove(&hosts->items[at + 2], &hosts->items[at + 1], (hosts->count - at - 1) * sizeof(hosts->items[0]));
	hosts->items[at + 1] = copy_host(&hosts->items[at], address);
	hosts->items[at + 1].further = true;
	hosts->count++;
	if (hosts->first > at)
		hosts->first++;
}

static void
set_known(struct jr_pg_host *host, const char *address)
{
	free(host->known);
	host->known = jr_xstrdup(address);
}

bool
jr_pg_hosts_need_look_up(const struct jr_pg_hosts *hosts, size_t at)
{
	const struct jr_pg_host *host = &hosts->items[at];

	return !host->further && *host->address == '\0' && !needs_no_look_up(host->name);
}

/* Which of the addresses is known at this entry? 0 if none is. */
static size_t
find_known(const struct jr_pg_host *host, const char *const *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (host->known != NULL && strcmp(host->known, addresses[i]) == 0)
			return i;
	}
	return 0;
}

void
jr_pg_hosts_know(struct jr_pg_hosts *hosts, const char *name, const char *const *addresses, size_t count)
{
	for (size_t at = 0; at < hosts->count; at++) {
		const struct jr_pg_host *host = &hosts->items[at];
		size_t best;

		if (strcmp(host->name, name) != 0 || !jr_pg_hosts_need_look_up(hosts, at))
			continue;
		if (host_of(hosts, hosts->first) == at)
			host = &hosts->items[hosts->first];
		best = find_known(host, addresses, count);
		forget_further(hosts, at);
		set_known(&hosts->items[at], addresses[best]);
		for (size_t i = count; i-- > 0;) {
			if (i != best)
				add_further(hosts, at, addresses[i]);
		}
	}
}

void
jr_pg_hosts_good(struct jr_pg_hosts *hosts, size_t at, const char *address)
{
	size_t end;

	if (at >= hosts->count)
		return;
	hosts->first = at;
	if (address == NULL || *address == '\0')
		return;
	end = at = host_of(hosts, at);
	do {
		if (hosts->items[end].known != NULL && strcmp(hosts->items[end].known, address) == 0) {
			hosts->first = end;
			return;
		}
		end++;
	} while (end < hosts->count && hosts->items[end].further);
	forget_further(hosts, at); /* the name leads elsewhere now */
	set_known(&hosts->items[at], address);
	hosts->first = at;
}
