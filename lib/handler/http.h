/*
 * http: transfers by libcurl on the one loop.
 *
 * A curl multi handle driven by curl_multi_socket_action: its sockets are watches of the loop and its timeout is a
 * timer, so poll is called in one place. Connections are kept and used again. libcurl is loaded (curl.h) and
 * initialised on first use. What must hold: no answer needs more memory than the limits below, whatever the server
 * sends; a transfer ends within its timeout; no name look-up blocks (jr_http_is_usable).
 *
 * Source: libcurl manual, "curl_multi_socket_action", "libcurl security considerations".
 */
#ifndef JR_HTTP_H
#define JR_HTTP_H

#include <sys/socket.h>

#include "base/loop.h"
#include "handler/settings.h"

struct jr_http;
struct jr_transfer;

#define JR_ANSWER_KEPT 2048         /* bytes of the body that are kept, for people */
#define JR_ANSWER_MAX 1048576       /* bytes of the body that are read; a longer body is no error */
#define JR_ANSWER_HEADERS_MAX 65536 /* bytes of all header lines; more is an error */
#define JR_HTTP_SLOW_MS 30000       /* a pause of this length within an answer is an error */
#define JR_RETRY_AFTER_MAX_MS 86400000

/* Can libcurl look up names without blocking? JR_E_CONFIG if not. */
bool jr_http_is_usable(struct jr_err *err) JR_MUST;

/* The version of libcurl. */
const char *jr_http_library(void);

struct jr_http *jr_http_new(struct jr_loop *loop, struct jr_err *err) JR_MUST;
void jr_http_free(struct jr_http *http); /* after all transfers have been freed; NULL is fine */

/* Borrowed until `ended`. headers: "Name: value", NULL-terminated, in addition to those of the target. */
struct jr_http_request {
	const struct jr_http_target *target;
	char *const *headers;
	const char *body;
	size_t body_len;
	int64_t unix_ms; /* the time now: needed if an answer has Retry-After as a date, but no Date; 0: unknown */
};

struct jr_answer {
	int status;        /* 0: no answer; error says why */
	const char *code;  /* the name of libcurl's error, such as OPERATION_TIMEDOUT; NULL: no error */
	const char *error; /* one line for people, clean */
	bool passing;      /* this host had no descriptor for it: nothing was sent, and a later try may succeed */
	const char *body;  /* the first JR_ANSWER_KEPT bytes, unchanged */
	size_t body_len;
	int64_t body_total; /* bytes received */
	bool has_retry_after;
	int64_t retry_after_ms; /* at most a day; a date is relative to the answer's Date, else to the request's time */
};

typedef void jr_answer_fn(void *ctx, const struct jr_answer *answer);

/* Pure: does a request of this method have a body? All methods except GET and HEAD do. */
bool jr_http_has_body(const char *method);

/* Never NULL: a failure to start is reported through `ended` too. `ended` is called once, from a timer of the loop. */
struct jr_transfer *jr_transfer_start(
    struct jr_http *http, const struct jr_http_request *request, jr_answer_fn *ended, void *ctx) JR_MUST;
void jr_transfer_free(struct jr_transfer *transfer); /* before `ended`, this aborts the transfer; NULL is fine */

/*
 * Pure: parse Retry-After, in seconds or as a date. -1: invalid. A date is relative to the answer's Date, or to now_s
 * (Unix time; -1: unknown) if that is NULL or invalid.
 */
int64_t jr_retry_after_ms(const char *value, const char *date, int64_t now_s);

/*
 * Pure: NULL if the address is that of a public host; else what it is, such as "loopback" (see http_blocks.h). Only
 * global unicast is public. Unknown addresses are not public, nor are IPv6 addresses that contain an IPv4 address.
 */
const char *jr_address_special(const struct sockaddr *address) JR_MUST;

#endif
