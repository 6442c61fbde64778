/* ping: see ping.h. */
#include "handler/ping.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "handler/http.h"

struct ping {
	struct jr_pings *pings;
	struct jr_http_target target;
	char method[4], proxy[12], *headers[1];
	struct jr_status_range expect;
	struct jr_transfer *transfer; /* NULL: it waits for its next try */
	struct jr_timer again;
	char *url; /* whose: without "/fail" or "/start" */
	int tries, most;
	struct ping *next, **prev; /* the newest is the first */
};

struct jr_pings {
	struct jr_loop *loop;
	struct jr_http *http; /* NULL: none has been sent */
	struct ping *first;
	size_t count;
};

/* --- addresses --- */

char *
jr_ping_address(const char *url, enum jr_ping_kind kind)
{
	size_t path = strcspn(url, "?"), end = path;

	while (end > 0 && url[end - 1] == '/')
		end--;
	if (kind == JR_PING_OK)
		return jr_xstrdup(url);
	return jr_xasprintf("%.*s/%s%s", (int)end, url, kind == JR_PING_START ? "start" : "fail", url + path);
}

/* --- pings --- */

static void start(struct ping *ping);

static void
on_again(void *ctx)
{
	start(ctx);
}

static void
wipe(char *secret)
{
	explicit_bzero(secret, strlen(secret));
	free(secret);
}

static void
drop(struct ping *ping)
{
	*ping->prev = ping->next;
	if (ping->next != NULL)
		ping->next->prev = ping->prev;
	ping->pings->count--;
	jr_timer_cancel(&ping->again);
	jr_transfer_free(ping->transfer);
	wipe(ping->target.url);
	wipe(ping->url);
	free(ping);
}

/* The oldest ping of this URL that is not over. */
static struct ping *
oldest_of(const struct jr_pings *pings, const char *url)
{
	struct ping *oldest = NULL;

	for (struct ping *ping = pings->first; ping != NULL; ping = ping->next) {
		if (strcmp(ping->url, url) == 0)
			oldest = ping;
	}
	return oldest;
}

/* It is over: the next one of its URL may go. */
static void
pass_on(struct ping *ping)
{
	struct jr_pings *pings = ping->pings;
	char *url = jr_xstrdup(ping->url);
	struct ping *next;

	drop(ping);
	next = oldest_of(pings, url);
	if (next != NULL)
		start(next);
	wipe(url);
}

/* A wrong address is not tried again; a service that is away or overloaded is. */
static bool
may_help(const struct jr_answer *answer)
{
	return answer->status == 0 || answer->status == 429 || answer->status >= 500;
}

static void
on_answer(void *ctx, const struct jr_answer *answer)
{
	struct ping *ping = ctx;
	bool arrived = answer->code == NULL && answer->status >= 200 && answer->status < 300;

	if (!arrived && may_help(answer) && ping->tries < ping->most) {
		jr_transfer_free(ping->transfer);
		ping->transfer = NULL;
		jr_timer_set(ping->pings->loop, &ping->again, jr_clock_after(jr_clock_now_ms(), JR_PING_PAUSE_MS));
		return;
	}
	if (!arrived) {
		char *origin = jr_http_origin(ping->target.url);

		jr_log(JR_INFO, JR_EVENT_PING_FAILED, JR_S("to", origin), JR_I("code", answer->status),
		    JR_S("reason", answer->error == NULL ? "" : answer->error));
		free(origin);
	}
	pass_on(ping);
}

static void
start(struct ping *ping)
{
	const struct jr_http_request request = {
	    .target = &ping->target, .headers = ping->headers, .body = "", .body_len = 0};

	ping->tries++;
	ping->transfer = jr_transfer_start(ping->pings->http, &request, on_answer, ping);
}

struct jr_pings *
jr_pings_new(struct jr_loop *loop)
{
	struct jr_pings *pings = jr_xcalloc(1, sizeof(*pings));

	pings->loop = loop;
	return pings;
}

void
jr_pings_free(struct jr_pings *pings)
{
	if (pings == NULL)
		return;
	for (struct ping *ping = pings->first, *next; ping != NULL; ping = next) {
		next = ping->next;
		drop(ping);
	}
	jr_http_free(pings->http);
	free(pings);
}

void
jr_pings_send(struct jr_pings *pings, const char *url, enum jr_ping_kind kind)
{
	struct jr_err err;
	struct ping *ping;

	if (pings->http == NULL)
		pings->http = jr_http_new(pings->loop, &err);
	if (pings->http == NULL || pings->count == JR_PINGS_MOST) {
		jr_log(JR_INFO, JR_EVENT_PING_NOT_SENT,
		    JR_S("reason", pings->http == NULL ? err.msg : "too many at once"));
		return;
	}
	ping = jr_xcalloc(1, sizeof(*ping));
	*ping = (struct ping){.method = "GET", .proxy = "environment", .expect = {200, 299}};
	ping->pings = pings;
	ping->url = jr_xstrdup(url);
	ping->most = kind == JR_PING_START ? 1 : JR_PING_TRIES;
	ping->target = (struct jr_http_target){.url = jr_ping_address(url, kind),
	    .method = ping->method,
	    .headers = ping->headers,
	    .proxy = ping->proxy,
	    .expect = &ping->expect,
	    .expect_count = 1,
	    .timeout_ms = JR_PING_TRY_MS,
	    .connect_timeout_ms = JR_PING_TRY_MS,
	    .allow_private = true};
	jr_timer_init(&ping->again, on_again, ping);
	ping->next = pings->first;
	ping->prev = &pings->first;
	if (ping->next != NULL)
		ping->next->prev = &ping->next;
	pings->first = ping;
	pings->count++;
	if (oldest_of(pings, url) == ping)
		start(ping);
}

bool
jr_pings_are_over(const struct jr_pings *pings)
{
	return pings->first == NULL;
}

void
jr_ping_now(const char *url, enum jr_ping_kind kind)
{
	struct jr_err err;
	struct jr_loop *loop = jr_loop_new(&err);
	struct jr_pings *pings = loop == NULL ? NULL : jr_pings_new(loop);
	int64_t until_ms = jr_clock_after(jr_clock_now_ms(), JR_PING_MOST_MS);
	bool turns = true;

	if (pings == NULL) {
		jr_log(JR_INFO, JR_EVENT_PING_NOT_SENT, JR_S("reason", err.msg));
		return;
	}
	jr_pings_send(pings, url, kind);
	while (turns && !jr_pings_are_over(pings) && jr_clock_now_ms() < until_ms)
		turns = jr_loop_turn(loop, &err);
	jr_pings_free(pings);
	jr_loop_free(loop);
}
