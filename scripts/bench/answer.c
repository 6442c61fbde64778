/*
 * answer FILE: an HTTP server on a free port of 127.0.0.1, which it writes to FILE. It answers each request with 200 and keeps connections
 * open. For measurements only: it understands a request with Content-Length, and nothing else. It ends by a signal.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MOST_CLIENTS = 1024,
	MOST_BYTES = 8192
};

struct client {
	size_t used;
	char bytes[MOST_BYTES];
};

static struct client *clients[MOST_CLIENTS];
static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

static int
listen_here(const char *file)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	FILE *out;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 256) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0 || (out = fopen(file, "w")) == NULL) {
		perror("answer");
		exit(1);
	}
	fprintf(out, "%d\n", ntohs(address.sin_port));
	fclose(out);
	return fd;
}

static void
watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void
take(int epoll, int listener)
{
	int fd = accept(listener, NULL, NULL);
	int on = 1;

	if (fd < 0)
		return;
	if (fd >= MOST_CLIENTS || (clients[fd] = calloc(1, sizeof(struct client))) == NULL) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	watch(epoll, fd);
}

static void
drop(int fd)
{
	free(clients[fd]);
	clients[fd] = NULL;
	close(fd);
}

/* The length of the first whole request in the buffer, 0 if there is none yet. */
static size_t
whole(struct client *c)
{
	char *end;
	char *length;
	size_t total;

	c->bytes[c->used] = '\0';
	end = strstr(c->bytes, "\r\n\r\n");
	if (end == NULL)
		return 0;
	total = (size_t)(end - c->bytes) + 4;
	length = strcasestr(c->bytes, "\r\ncontent-length:");
	if (length != NULL && length < end)
		total += strtoul(length + 17, NULL, 10);
	return total <= c->used ? total : 0;
}

static void
serve(int fd)
{
	struct client *c = clients[fd];
	ssize_t got = read(fd, c->bytes + c->used, sizeof(c->bytes) - 1 - c->used);
	size_t n;

	if (got <= 0) {
		drop(fd);
		return;
	}
	c->used += (size_t)got;
	while ((n = whole(c)) > 0) {
		if (write(fd, reply, sizeof(reply) - 1) != (ssize_t)sizeof(reply) - 1) {
			drop(fd);
			return;
		}
		memmove(c->bytes, c->bytes + n, c->used - n);
		c->used -= n;
	}
}

int
main(int argc, char **argv)
{
	struct epoll_event events[64];
	int epoll = epoll_create1(0);
	int listener;
	int i;
	int n;

	if (argc != 2) {
		fputs("usage: answer FILE\n", stderr);
		return 64;
	}
	listener = listen_here(argv[1]);
	watch(epoll, listener);
	for (;;) {
		n = epoll_wait(epoll, events, 64, -1);
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				take(epoll, listener);
			else
				serve(events[i].data.fd);
		}
	}
}
