/*
 * http: the multi handle of libcurl on the loop.
 *
 * libcurl reports through two callbacks which sockets to watch and when to call it. It must not be called from inside
 * these callbacks, so they only set watches and the timer. When a watch or the timer fires, libcurl is called, and then
 * the transfers that are over are marked. Each of them reports to its owner from a timer of its own. No function of
 * libcurl is on the stack then, so the owner may free the transfer or start others.
 */
#include "handler/http_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#include <poll.h>
#include <stdlib.h>

#define IDLE_CONNECTIONS 128L /* kept for later; with TLS each needs about 50 kB */

struct jr_http_socket {
	struct jr_http *http;
	struct jr_watch watch;
	struct jr_http_socket *next, **prev;
};

bool
jr_http_is_usable(struct jr_err *err)
{
	const curl_version_info_data *info;

	if (!jr_curl_load(err))
		return false;
	info = jr_curl.version_info(CURLVERSION_NOW);
	if (info->features & CURL_VERSION_ASYNCHDNS)
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "cannot run http handlers: libcurl %s blocks during name look-ups; one with AsynchDNS is needed",
	    info->version);
}

const char *
jr_http_library(void)
{
	struct jr_err err;

	return jr_curl_load(&err) ? jr_curl.version_info(CURLVERSION_NOW)->version : "none";
}

static void
mark_ended(struct jr_http *http)
{
	CURLMsg *message;
	int left;

	while ((message = jr_curl.multi_info_read(http->multi, &left)) != NULL) {
		CURLcode result = message->data.result;
		char *transfer = NULL;

		if (message->msg == CURLMSG_DONE &&
		    jr_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) == CURLE_OK)
			jr_transfer_over((struct jr_transfer *)(void *)transfer, result);
	}
}

static void
act(struct jr_http *http, curl_socket_t fd)
{
	int running;

	/* 0: libcurl itself checks what the socket is ready for, which is more exact than our bit mask. */
	(void)jr_curl.multi_socket_action(http->multi, fd, 0, &running);
	mark_ended(http);
}

static void
on_timer(void *ctx)
{
	act(ctx, CURL_SOCKET_TIMEOUT);
}

static void
on_socket_ready(void *ctx, short revents)
{
	const struct jr_http_socket *socket = ctx;

	(void)revents;
	act(socket->http, socket->watch.fd);
}

static void
drop_socket(struct jr_http_socket *socket)
{
	jr_watch_remove(&socket->watch);
	*socket->prev = socket->next;
	if (socket->next != NULL)
		socket->next->prev = socket->prev;
	free(socket);
}

static struct jr_http_socket *
add_socket(struct jr_http *http)
{
	struct jr_http_socket *socket = jr_xcalloc(1, sizeof(*socket));

	socket->http = http;
	jr_watch_init(&socket->watch, on_socket_ready, socket);
	socket->next = http->sockets;
	socket->prev = &http->sockets;
	if (socket->next != NULL)
		socket->next->prev = &socket->next;
	http->sockets = socket;
	return socket;
}

/* A callback of libcurl. curl_multi_assign is the only function of libcurl that it may call. */
static int
want_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	struct jr_http *http = ctx;
	struct jr_http_socket *socket = known;
	short events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		(void)jr_curl.multi_assign(http->multi, fd, NULL);
		if (socket != NULL)
			drop_socket(socket);
		return 0;
	}
	if (socket == NULL) {
		socket = add_socket(http);
		(void)jr_curl.multi_assign(http->multi, fd, socket);
	}
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= POLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= POLLOUT;
	jr_watch_set(http->loop, &socket->watch, fd, events);
	return 0;
}

static int
want_timer(CURLM *multi, long span_ms, void *ctx)
{
	struct jr_http *http = ctx;

	(void)multi;
	if (span_ms < 0)
		jr_timer_cancel(&http->timer);
	else
		jr_timer_set(http->loop, &http->timer, jr_clock_after(jr_clock_now_ms(), span_ms));
	return 0;
}

static bool
set_up(struct jr_http *http)
{
	return jr_curl.multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, want_socket) == CURLM_OK &&
	       jr_curl.multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http) == CURLM_OK &&
	       jr_curl.multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, want_timer) == CURLM_OK &&
	       jr_curl.multi_setopt(http->multi, CURLMOPT_TIMERDATA, http) == CURLM_OK &&
	       jr_curl.multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS) == CURLM_OK;
}

struct jr_http *
jr_http_new(struct jr_loop *loop, struct jr_err *err)
{
	struct jr_http *http;
	CURLcode code;

	if (!jr_http_is_usable(err))
		return NULL;
	code = jr_curl.global_init(CURL_GLOBAL_DEFAULT); /* libcurl counts these calls */
	if (code != CURLE_OK) {
		jr_fail(err, JR_E_TEMP, "could not start libcurl: %s", jr_curl.easy_strerror(code));
		return NULL;
	}
	http = jr_xcalloc(1, sizeof(*http));
	http->loop = loop;
	jr_timer_init(&http->timer, on_timer, http);
	http->multi = jr_curl.multi_init();
	if (http->multi != NULL && set_up(http))
		return http;
	jr_fail(err, JR_E_TEMP, "could not start libcurl: %s", jr_curl.easy_strerror(CURLE_FAILED_INIT));
	jr_http_free(http);
	return NULL;
}

/*
 * curl_multi_cleanup closes the idle connections. So their watches are removed before it, and the callbacks are unset
 * so that it cannot ask for new ones.
 */
void
jr_http_free(struct jr_http *http)
{
	if (http == NULL)
		return;
	if (http->multi != NULL) {
		(void)jr_curl.multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, NULL);
		(void)jr_curl.multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, NULL);
	}
	for (struct jr_http_socket *socket = http->sockets, *next; socket != NULL; socket = next) {
		next = socket->next;
		drop_socket(socket);
	}
	jr_timer_cancel(&http->timer);
	(void)jr_curl.multi_cleanup(http->multi);
	jr_curl.global_cleanup();
	free(http);
}
