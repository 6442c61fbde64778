/*
 * http_parts: shared by the files of http.
 *
 *	http.c           the multi handle on the loop: its sockets, its timer, and which transfers are over
 *	http_transfer.c  one transfer: its options and its end; names of libcurl's errors
 *	http_answer.c    the answer: header lines and body, bounded; Retry-After
 *	http_address.c   is an address public? http_blocks.h has the blocks that are not
 */
#ifndef JR_HTTP_PARTS_H
#define JR_HTTP_PARTS_H

#include <netinet/in.h>

#include "handler/curl.h"
#include "handler/http.h"

struct jr_http {
	struct jr_loop *loop;
	CURLM *multi;
	struct jr_timer timer; /* the timeout that libcurl has set */
	struct jr_http_socket *sockets;
};

/* Why we stopped reading. libcurl reports only WRITE_ERROR, which does not say why. */
enum jr_cut {
	JR_CUT_NOT,
	JR_CUT_ENOUGH,  /* the body has reached JR_ANSWER_MAX: no error */
	JR_CUT_HEADERS, /* the header lines are too long */
	JR_CUT_CODING   /* a transfer coding that we did not ask for */
};

/* The part of the answer that has been received. */
struct jr_incoming {
	enum jr_cut cut;
	size_t header_bytes; /* of all header lines, including interim answers */
	bool headers_done;   /* further header lines are trailers */
	char *retry_after;   /* values of headers, unchanged; NULL: none */
	char *date;
	char *body; /* NULL: nothing yet */
	size_t body_len;
	int64_t body_total;
	int64_t heard_ms; /* when its last line or piece came; 0: the final answer has not begun */
};

struct jr_transfer {
	struct jr_http *http;
	CURL *easy; /* NULL: libcurl could not create it */
	bool added; /* to the multi handle */
	struct curl_slist *headers;
	CURLcode result;
	struct jr_timer slow; /* looks whether the answer pauses for too long */
	struct jr_timer end;  /* reports the end to the owner */
	jr_answer_fn *ended;
	void *ctx;
	int64_t unix_ms, began_ms; /* the time of the request, and the same by jr_clock_now_ms(); unix_ms 0: unknown */
	struct jr_incoming in;
	bool refuse_private;
	char unfit[64];                 /* the name of a header with an invalid value; "": none */
	char refused[INET6_ADDRSTRLEN]; /* the last address that was refused; "": none */
	const char *special;            /* what that address is, such as "loopback" */
	int no_socket;                  /* errno, if the system had no socket for the last address; else 0 */
	char message[CURL_ERROR_SIZE];  /* libcurl's message */
};

/* http_transfer.c. The name of CURLE_COULDNT_CONNECT is COULDNT_CONNECT; NULL: not in the list. */
void jr_transfer_over(struct jr_transfer *transfer, CURLcode result);
const char *jr_http_error_name(CURLcode code);

/* http_answer.c: callbacks of libcurl. If one of them takes fewer bytes than it got, libcurl ends the transfer. */
size_t jr_incoming_header(char *data, size_t size, size_t count, void *transfer);
size_t jr_incoming_body(char *data, size_t size, size_t count, void *transfer);
void jr_incoming_release(struct jr_incoming *in);

#endif
