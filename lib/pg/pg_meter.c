/*
 * pg_meter: see pg_meter.h.
 *
 * There are two flows, each with a buffer (`piece`) of fixed size. A flow reads only when its piece is written. With
 * TLS the bytes are encrypted, which makes no difference here. What must hold: nothing is reordered or lost, and end of
 * file on the socket becomes end of file on the pair.
 */
#include "pg/pg_meter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define PIECE 65536

struct flow {
	int from, to;
	size_t at, len; /* the rest of the piece: where it begins, how long it is */
	bool ended;
	char piece[PIECE];
};

struct jr_pg_meter {
	struct jr_loop *loop;
	struct jr_watch server, client;
	struct flow down, up; /* from the server to the client, and back */
};

static bool
is_passing(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static void
fill(struct flow *flow)
{
	ssize_t n = recv(flow->from, flow->piece, sizeof(flow->piece), 0);

	if (n > 0) {
		flow->at = 0;
		flow->len = (size_t)n;
	} else if (n == 0 || !is_passing())
		flow->ended = true;
}

static void
drain(struct flow *flow)
{
	ssize_t n = send(flow->to, flow->piece + flow->at, flow->len, MSG_NOSIGNAL);

	if (n > 0) {
		flow->at += (size_t)n;
		flow->len -= (size_t)n;
	} else if (n < 0 && !is_passing()) {
		flow->len = 0; /* the other end is closed */
		flow->ended = true;
	}
}

static void
move(struct flow *flow)
{
	if (flow->len == 0 && !flow->ended)
		fill(flow);
	if (flow->len > 0)
		drain(flow);
	if (flow->ended && flow->len == 0)
		(void)shutdown(flow->to, SHUT_WR);
}

/* Watch a side for reading while the piece of its flow is empty, and for writing while a piece waits for it. */
static void
watch(struct jr_pg_meter *meter, struct jr_watch *side, const struct flow *in, const struct flow *out)
{
	bool reads = in->len == 0 && !in->ended, writes = out->len > 0 && !out->ended;

	if (reads || writes)
		jr_watch_set(meter->loop, side, in->from, (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)));
	else
		jr_watch_remove(side);
}

static void
watch_both(struct jr_pg_meter *meter)
{
	watch(meter, &meter->server, &meter->down, &meter->up);
	watch(meter, &meter->client, &meter->up, &meter->down);
}

static void
on_server(void *ctx, short revents)
{
	struct jr_pg_meter *meter = ctx;

	if (revents & ~POLLOUT) /* an error or a hang-up concerns both */
		move(&meter->down);
	if (revents & ~POLLIN)
		move(&meter->up);
	watch_both(meter);
}

static void
on_client(void *ctx, short revents)
{
	struct jr_pg_meter *meter = ctx;

	if (revents & ~POLLOUT)
		move(&meter->up);
	if (revents & ~POLLIN)
		move(&meter->down);
	watch_both(meter);
}

void
jr_pg_meter_pass(struct jr_pg_meter *meter)
{
	if (meter == NULL)
		return;
	move(&meter->up);
	watch_both(meter);
}

/* Move the socket to another descriptor, *server, and put pair[0] in its place. */
static bool
replace(int fd, int pair[2], int *server)
{
	*server = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return *server >= 0 && jr_fd_set_nonblocking(*server) && dup3(pair[0], fd, O_CLOEXEC) == fd;
}

struct jr_pg_meter *
jr_pg_meter_new(struct jr_loop *loop, int fd)
{
	struct jr_pg_meter *meter;
	int pair[2], server = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return NULL;
	if (!replace(fd, pair, &server)) {
		jr_fd_close(pair[0]);
		jr_fd_close(pair[1]);
		jr_fd_close(server);
		return NULL;
	}
	(void)close(pair[0]);
	meter = jr_xcalloc(1, sizeof(*meter));
	meter->loop = loop;
	meter->down.from = meter->up.to = server;
	meter->up.from = meter->down.to = pair[1];
	jr_watch_init(&meter->server, on_server, meter);
	jr_watch_init(&meter->client, on_client, meter);
	watch_both(meter);
	return meter;
}

void
jr_pg_meter_free(struct jr_pg_meter *meter)
{
	if (meter == NULL)
		return;
	move(&meter->up);
	jr_watch_remove(&meter->server);
	jr_watch_remove(&meter->client);
	(void)close(meter->up.from);
	(void)close(meter->up.to);
	free(meter);
}
