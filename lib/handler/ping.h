/*
 * ping: tell a dead man's switch how something ended.
 *
 * Services like healthchecks.io call for help when they hear nothing. They are told of a success by a GET of a URL, and
 * of a failure by one of URL/fail (https://healthchecks.io/docs/http_api/). What must hold: a ping is sent once
 * something is over and committed, and changes nothing of it, whatever the service answers; it ends within
 * JR_PING_MOST_MS. A ping that did not arrive is logged with -v only: the service itself notices, which is what it is
 * for. The URL (jr_settings_url) is a secret, so no message has more of it than scheme and host.
 */
#ifndef JR_PING_H
#define JR_PING_H

#include "base/loop.h"

#define JR_PING_TRIES 3
#define JR_PING_TRY_MS 5000
#define JR_PING_PAUSE_MS 1000
#define JR_PING_MOST_MS (JR_PING_TRIES * JR_PING_TRY_MS + (JR_PING_TRIES - 1) * JR_PING_PAUSE_MS)
#define JR_PINGS_MOST 100 /* at once; what comes on top is not sent */

/* Pure: the address for a success or a failure: "/fail" goes to the end of the path. Caller frees. */
char *jr_ping_address(const char *url, bool ok) JR_MUST;

/* Pings on a loop. libcurl is loaded with the first one. */
struct jr_pings;
struct jr_pings *jr_pings_new(struct jr_loop *loop) JR_MUST;
void jr_pings_free(struct jr_pings *pings); /* NULL is fine; what has not arrived is given up */
void jr_pings_send(struct jr_pings *pings, const char *url, bool ok);
bool jr_pings_are_over(const struct jr_pings *pings);

/* One ping; returns when it is over. */
void jr_ping_now(const char *url, bool ok);

#endif
