/*
 * ping: tell a dead man's switch how something ended, and if asked to, that it has begun.
 *
 * Services like healthchecks.io call for help when they hear nothing. They are told of a success by a GET of a URL, of
 * a failure by one of URL/fail, and of a start by one of URL/start (https://healthchecks.io/docs/http_api/). What must
 * hold: the ping of an end is sent once that is committed, and no ping changes anything of what it tells, whatever the
 * service answers; all end within JR_PING_MOST_MS. Pings of one URL are sent one after the other, in their order: an
 * end that arrives before its start would look like something that never ends. A start is tried once, so that it does
 * not keep the end waiting. A ping that did not arrive is logged with -v only: the service itself notices, which is
 * what it is for. The URL (jr_settings_url) is a secret, so no message has more of it than scheme and host.
 */
#ifndef JR_PING_H
#define JR_PING_H

#include "base/loop.h"

#define JR_PING_TRIES 3
#define JR_PING_TRY_MS 5000
#define JR_PING_PAUSE_MS 1000
/* An end, after a start that is still on its way. */
#define JR_PING_MOST_MS ((1 + JR_PING_TRIES) * JR_PING_TRY_MS + (JR_PING_TRIES - 1) * JR_PING_PAUSE_MS)
#define JR_PINGS_MOST 100 /* at once; what comes on top is not sent */

enum jr_ping_kind {
	JR_PING_OK,
	JR_PING_FAIL,
	JR_PING_START
};

/* Pure: the address for this: "/fail" or "/start" goes to the end of the path. Caller frees. */
char *jr_ping_address(const char *url, enum jr_ping_kind kind) JR_MUST;

/* Pings on a loop. libcurl is loaded with the first one. */
struct jr_pings;
struct jr_pings *jr_pings_new(struct jr_loop *loop) JR_MUST;
void jr_pings_free(struct jr_pings *pings); /* NULL is fine; what has not arrived is given up */
void jr_pings_send(struct jr_pings *pings, const char *url, enum jr_ping_kind kind);
bool jr_pings_are_over(const struct jr_pings *pings);

/* One ping; returns when it is over. */
void jr_ping_now(const char *url, enum jr_ping_kind kind);

#endif
