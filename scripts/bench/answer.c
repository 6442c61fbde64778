/*
 * answer FILE MS: an HTTP server on a free port of 127.0.0.1, which it writes to FILE. It answers each request with 200
 * after so many milliseconds, and keeps connections open. For measurements only: it understands a request with
 * Content-Length, one at a time on a connection, and nothing else. It ends by a signal.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_CLIENTS = 1024,
	MOST_BYTES = 8192
};

struct client {
	size_t used;
	char bytes[MOST_BYTES];
};

/* An answer that is due: in a ring, in the order of the requests, which is that of the times. */
struct answer {
	int fd; /* -1: the client is gone */
	long long due;
};

static struct client *clients[MOST_CLIENTS];
static struct answer answers[MOST_CLIENTS];
static size_t first_answer;
static size_t n_answers;
static long long delay_ms;
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

static long long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
drop(int fd)
{
	size_t i;

	for (i = 0; i < n_answers; i++) {
		if (answers[(first_answer + i) % MOST_CLIENTS].fd == fd)
			answers[(first_answer + i) % MOST_CLIENTS].fd = -1;
	}
	free(clients[fd]);
	clients[fd] = NULL;
	close(fd);
}

static void
answer_later(int fd)
{
	struct answer *one = &answers[(first_answer + n_answers) % MOST_CLIENTS];

	if (n_answers == MOST_CLIENTS)
		return;
	one->fd = fd;
	one->due = now_ms() + delay_ms;
	n_answers++;
}

/* Send what is due. How long until the next answer is, -1: for ever. */
static int
send_answers(void)
{
	long long now = now_ms();

	while (n_answers > 0 && answers[first_answer].due <= now) {
		int fd = answers[first_answer].fd;

		first_answer = (first_answer + 1) % MOST_CLIENTS;
		n_answers--;
		if (fd >= 0 && write(fd, reply, sizeof(reply) - 1) != (ssize_t)sizeof(reply) - 1)
			drop(fd);
	}
	return n_answers > 0 ? (int)(answers[first_answer].due - now) : -1;
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
	n = whole(c);
	if (n == 0)
		return;
	memmove(c->bytes, c->bytes + n, c->used - n);
	c->used -= n;
	answer_later(fd);
}

int
main(int argc, char **argv)
{
	struct epoll_event events[64];
	int epoll = epoll_create1(0);
	int listener;
	int i;
	int n;

	if (argc != 3) {
		fputs("usage: answer FILE MS\n", stderr);
		return 64;
	}
	delay_ms = strtol(argv[2], NULL, 10);
	listener = listen_here(argv[1]);
	watch(epoll, listener);
	for (;;) {
		n = epoll_wait(epoll, events, 64, send_answers());
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				take(epoll, listener);
			else
				serve(events[i].data.fd);
		}
	}
}
