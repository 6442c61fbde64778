/*
 * http_parts: what the files of http share.
 *
 *	http.c           the multi handle on the loop: sockets, its timer, which transfers are over
 *	http_transfer.c  one transfer: its options, its end; names of libcurl's errors
 *	http_answer.c    what comes in: header lines and body, bounded; Retry-After
 *	http_address.c   which addresses are public; http_blocks.h: which are not
 */
#ifndef JR_HTTP_PARTS_H
#define JR_HTTP_PARTS_H

#include <curl/curl.h>
#include <netinet/in.h>

#include "handler/http.h"

struct jr_http {
	struct jr_loop *loop;
	CURLM *multi;
	struct jr_timer timer; /* what libcurl asked for */
	struct jr_http_socket *sockets;
};

/* Why this side ended the reading; the error that libcurl makes of it (WRITE_ERROR) says nothing. */
enum jr_cut {
	JR_CUT_NOT,
	JR_CUT_ENOUGH,  /* the body is longer than anybody needs: no error */
	JR_CUT_HEADERS, /* too many bytes of header lines */
	JR_CUT_CODING   /* a transfer coding nobody asked for */
};

/* What has come of the answer so far. */
struct jr_incoming {
	enum jr_cut cut;
	size_t header_bytes; /* of all header lines, those of interim answers too */
	bool headers_done;   /* what comes now is a trailer */
	char *retry_after;   /* values as they came; NULL: none */
	char *date;
	char *body; /* NULL: nothing yet */
	size_t body_len;
	int64_t body_total;
};

struct jr_transfer {
	struct jr_http *http;
	CURL *easy; /* NULL: none could be made */
	bool added; /* to the multi handle */
	struct curl_slist *headers;
	CURLcode result;
	struct jr_timer end; /* it is over: tell the owner */
	jr_answer_fn *ended;
	void *ctx;
	struct jr_incoming in;
	bool refuse_private;
	char unfit[64];                 /* the name of a header whose value must not be sent; "": none */
	char refused[INET6_ADDRSTRLEN]; /* the last address that was refused; "": none */
	const char *special;            /* what it is */
	char message[CURL_ERROR_SIZE];  /* libcurl's words */
};

/* http_transfer.c. The name is COULDNT_CONNECT for CURLE_COULDNT_CONNECT; NULL: it has no name here. */
void jr_transfer_over(struct jr_transfer *transfer, CURLcode result);
const char *jr_http_error_name(CURLcode code);

/* http_answer.c: as libcurl calls them. What they do not take ends the transfer. */
size_t jr_incoming_header(char *data, size_t size, size_t count, void *transfer);
size_t jr_incoming_body(char *data, size_t size, size_t count, void *transfer);
void jr_incoming_release(struct jr_incoming *in);

#endif
