/*
 * pg_lookup: see pg_lookup.h.
 *
 * The process writes a line "NAME ADDRESS" for each address into a pipe. They are taken when it has ended.
 */
#include "pg/pg_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pg/pg_apart.h"

#define LOOKUP_S 60
#define ANSWER_MAX 65536
#define ADDRESSES_MAX 8 /* of a name */

struct work {
	const struct jr_pg_hosts *hosts;
	int fd;
};

static void
look_up(const char *name, int fd)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}; /* as libpq does it */
	struct addrinfo *found = NULL;

	if (getaddrinfo(name, NULL, &hints, &found) != 0)
		return;
	for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
		char address[64];

		if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof(address), NULL, 0, NI_NUMERICHOST) == 0)
			(void)dprintf(fd, "%s %s\n", name, address);
	}
	freeaddrinfo(found);
}

static void
look_up_all(void *ctx)
{
	const struct work *work = ctx;

	for (size_t i = 0; i < work->hosts->count; i++) {
		if (jr_pg_hosts_need_look_up(work->hosts, i))
			look_up(work->hosts->items[i].name, work->fd);
	}
}

/* The addresses of the name of the first line, which follow each other. Returns what is behind them. */
static char *
take_name(struct jr_pg_hosts *hosts, char *text)
{
	size_t len = strcspn(text, " "), count = 0;
	const char *addresses[ADDRESSES_MAX];
	char *line = text;

	while (strncmp(line, text, len) == 0 && line[len] == ' ') {
		char *end = strchr(line, '\n');

		if (end == NULL)
			break;
		*end = '\0';
		if (count < ADDRESSES_MAX)
			addresses[count++] = line + len + 1;
		line = end + 1;
	}
	if (count == 0) /* the process was killed in the middle of a line */
		return text + strlen(text);
	text[len] = '\0';
	jr_pg_hosts_know(hosts, text, addresses, count);
	return line;
}

static void
on_answer(void *ctx, short revents)
{
	struct jr_pg_lookup *lookup = ctx;
	struct jr_pg_hosts *hosts = lookup->hosts;
	char piece[4096], *at;
	ssize_t len = read(lookup->fd, piece, sizeof(piece));

	(void)revents;
	if (len > 0)
		(void)jr_buf_add(&lookup->answer, piece, (size_t)len);
	if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	at = lookup->answer.data;
	while (*at != '\0')
		at = take_name(hosts, at);
	jr_pg_lookup_stop(lookup);
}

static bool
are_worth_it(const struct jr_pg_hosts *hosts)
{
	bool some = false;

	for (size_t i = 0; i < hosts->count; i++)
		some = some || jr_pg_hosts_need_look_up(hosts, i);
	return some && hosts->count > 1;
}

void
jr_pg_lookup_start(struct jr_pg_lookup *lookup, struct jr_loop *loop, struct jr_pg_hosts *hosts)
{
	struct work work = {.hosts = hosts};
	int ends[2], reason;

	if (lookup->hosts != NULL || !are_worth_it(hosts) || pipe2(ends, O_CLOEXEC) != 0)
		return;
	work.fd = ends[1];
	reason = jr_pg_apart(look_up_all, &work, work.fd, LOOKUP_S);
	(void)close(ends[1]);
	if (reason != 0) { /* no process: the names are left out */
		(void)close(ends[0]);
		return;
	}
	lookup->hosts = hosts;
	lookup->fd = ends[0];
	(void)fcntl(lookup->fd, F_SETFL, O_NONBLOCK);
	jr_buf_init(&lookup->answer, ANSWER_MAX);
	jr_watch_init(&lookup->watch, on_answer, lookup);
	jr_watch_set(loop, &lookup->watch, lookup->fd, POLLIN);
}

void
jr_pg_lookup_stop(struct jr_pg_lookup *lookup)
{
	if (lookup->hosts == NULL)
		return;
	jr_watch_remove(&lookup->watch);
	(void)close(lookup->fd);
	jr_buf_release(&lookup->answer);
	lookup->hosts = NULL;
}
