/*
 * pg_hosts: the hosts of a connection string, and in which order they are tried. No I/O.
 *
 * libpq goes on to the next host by itself when one refuses, but not when one does not answer: its asynchronous calls
 * know no connect_timeout. So the caller says jr_pg_hosts_silent and makes a new connection with the lists of those
 * that are left.
 *
 * An order can be pinned: then it has only what needs no look-up of a name. These are sockets, numeric addresses, hosts
 * with a hostaddr, and names whose address is known from an earlier connection or look-up. A host may have several
 * known addresses; they are entries behind each other.
 */
#ifndef JR_PG_HOSTS_H
#define JR_PG_HOSTS_H

#include "base/base.h"

#define JR_PG_HOSTS_MAX 64 /* entries */

/* As in libpq's options host, hostaddr and port; "" is libpq's default. */
struct jr_pg_host {
	char *name, *address, *port;
	char *known;  /* the numeric address of the name; NULL: not known */
	bool further; /* one more address of the host of the entry before it */
	bool silent;  /* it has not answered in this try */
};

struct jr_pg_hosts {
	struct jr_pg_host items[JR_PG_HOSTS_MAX];
	size_t count;
	size_t first;  /* with which a try begins: the last good one, or the one behind the last silent one */
	bool pinned;   /* this try looks up no name */
	bool shuffled; /* libpq tries them in an order of its own (load_balance_hosts) */
};

/* Values for the options host, hostaddr and port. */
struct jr_pg_lists {
	char *names, *addresses, *ports;
};

/* From the values of the options, each of which may be NULL. What is more than JR_PG_HOSTS_MAX is left out. */
void jr_pg_hosts_read(struct jr_pg_hosts *hosts, const char *names, const char *addresses, const char *ports);
void jr_pg_hosts_copy(struct jr_pg_hosts *to, const struct jr_pg_hosts *from); /* frees what was in *to */
void jr_pg_hosts_free(struct jr_pg_hosts *hosts);                              /* *hosts is empty then */

/* A new try begins: no host is silent. */
void jr_pg_hosts_begin(struct jr_pg_hosts *hosts, bool pinned);

/* Is this try the same as one with the connection string as it is? */
bool jr_pg_hosts_are_plain(const struct jr_pg_hosts *hosts);

/* The hosts that are to be tried, in their order. false: none is left. */
bool jr_pg_hosts_lists(const struct jr_pg_hosts *hosts, struct jr_pg_lists *lists) JR_MUST;
void jr_pg_lists_free(struct jr_pg_lists *lists);

/* The entry that PQhost, PQhostaddr and PQport (may be NULL) speak of; `count` if there is none. */
size_t jr_pg_hosts_find(const struct jr_pg_hosts *hosts, const char *name, const char *address, const char *port);

/* How many are to be tried from this entry on, with it; at least 1. */
size_t jr_pg_hosts_left(const struct jr_pg_hosts *hosts, size_t at);

/* This entry has not answered. The next try begins with the one behind it. */
void jr_pg_hosts_silent(struct jr_pg_hosts *hosts, size_t at);

/* This entry has answered, from this address (may be NULL). The next try begins with it. */
void jr_pg_hosts_good(struct jr_pg_hosts *hosts, size_t at, const char *address);

/* Has this entry a name that has to be looked up? False of a further address. */
bool jr_pg_hosts_need_look_up(const struct jr_pg_hosts *hosts, size_t at);

/* A look-up of this name has found these addresses, at least one. The last good one stays first. */
void jr_pg_hosts_know(struct jr_pg_hosts *hosts, const char *name, const char *const *addresses, size_t count);

#endif
