/*
 * http: transfers by libcurl on the one loop.
 *
 * A curl multi handle driven by curl_multi_socket_action: its sockets are watches of the loop, its timeout is a timer,
 * so there is one wait. Connections are kept and used again. libcurl is initialised on first use. What must hold: no
 * answer costs more memory than the limits below, whatever the server sends; a transfer ends within its timeout; no
 * name is looked up by blocking (jr_http_is_usable).
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

#define JR_ANSWER_KEPT 2048         /* bytes of the body that are kept for people */
#define JR_ANSWER_MAX 1048576       /* then reading ends, and the status is the answer */
#define JR_ANSWER_HEADERS_MAX 65536 /* then it is an error */
#define JR_HTTP_SLOW_MS 30000       /* no byte for so long is an error */
#define JR_RETRY_AFTER_MAX_MS 86400000

/* Is libcurl one that looks names up without blocking? JR_E_CONFIG if not. */
bool jr_http_is_usable(struct jr_err *err) JR_MUST;

struct jr_http *jr_http_new(struct jr_loop *loop, struct jr_err *err) JR_MUST;
void jr_http_free(struct jr_http *http); /* every transfer has been freed; NULL is fine */

/* Borrowed until `ended`. headers: "Name: value", NULL-terminated, on top of the target's. */
struct jr_http_request {
	const struct jr_http_target *target;
	char *const *headers;
	const char *body;
	size_t body_len;
};

struct jr_answer {
	int status;        /* 0: no answer; error says why */
	const char *code;  /* NULL, or the name of libcurl's error: OPERATION_TIMEDOUT */
	const char *error; /* one line for people, clean */
	const char *body;  /* the first JR_ANSWER_KEPT bytes, as they came */
	size_t body_len;
	int64_t body_total; /* bytes that came */
	bool has_retry_after;
	int64_t
	    retry_after_ms; /* capped at a day; a date counts from the answer's own Date, and is ignored without one */
};

typedef void jr_answer_fn(void *ctx, const struct jr_answer *answer);

/* Pure: does a request of this method carry a body? All do but GET and HEAD; of those the body is not sent. */
bool jr_http_has_body(const char *method);

/* Never NULL; what fails is told through `ended`, from the loop, once. */
struct jr_transfer *jr_transfer_start(
    struct jr_http *http, const struct jr_http_request *request, jr_answer_fn *ended, void *ctx) JR_MUST;
void jr_transfer_free(struct jr_transfer *transfer); /* before `ended`: breaks it off; NULL is fine */

/* Pure: Retry-After, in seconds or as a date, with the answer's Date (NULL: none). -1: cannot be understood. */
int64_t jr_retry_after_ms(const char *value, const char *date);

/*
 * Pure: what the address is, if it is not that of a public host ("loopback"; the blocks are in http_blocks.h); NULL if
 * it is. Only global unicast is public: what is not known is not, IPv4 addresses in those of IPv6 are not.
 */
const char *jr_address_special(const struct sockaddr *address) JR_MUST;

#endif
