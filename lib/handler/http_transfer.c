/*
 * http_transfer: one transfer, from its options to its end.
 *
 * What must hold: a transfer uses nothing from its environment (no netrc, no proxy, no cookies) unless the target asks
 * for it; `ended` is called once, from a timer of the loop, as the last act of the transfer, even if libcurl refused to
 * start it; freeing a transfer never waits for a name server.
 */
#include "handler/http_parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "handler/header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_BUFFER 8192L
#define SEND_BUFFER 16384L

/* Set an option. The first refusal becomes the result of the transfer, and later options are not set. */
#define SET(transfer, option, value)                                                                                   \
	((transfer)->result == CURLE_OK                                                                                \
		? (void)((transfer)->result = jr_curl.easy_setopt((transfer)->easy, CURLOPT_##option, (value)))        \
		: (void)0)

/*
 * The names of the libcurl errors that an HTTP or HTTPS transfer can have, without CURLE_. libcurl has only texts for
 * them, which change between versions; a code for programs must not change.
 */
/* clang-format off */
#define NAME(name) [CURLE_##name] = #name

static const char *const names[] = {
	NAME(UNSUPPORTED_PROTOCOL), NAME(FAILED_INIT), NAME(URL_MALFORMAT), NAME(NOT_BUILT_IN),
	NAME(COULDNT_RESOLVE_PROXY), NAME(COULDNT_RESOLVE_HOST), NAME(COULDNT_CONNECT),
	NAME(WEIRD_SERVER_REPLY), NAME(HTTP2), NAME(PARTIAL_FILE), NAME(HTTP_RETURNED_ERROR),
	NAME(WRITE_ERROR), NAME(UPLOAD_FAILED), NAME(READ_ERROR), NAME(OUT_OF_MEMORY),
	NAME(OPERATION_TIMEDOUT), NAME(RANGE_ERROR), NAME(HTTP_POST_ERROR), NAME(SSL_CONNECT_ERROR),
	NAME(FUNCTION_NOT_FOUND), NAME(ABORTED_BY_CALLBACK), NAME(BAD_FUNCTION_ARGUMENT),
	NAME(INTERFACE_FAILED), NAME(TOO_MANY_REDIRECTS), NAME(UNKNOWN_OPTION), NAME(GOT_NOTHING),
	NAME(SSL_ENGINE_NOTFOUND), NAME(SSL_ENGINE_SETFAILED), NAME(SEND_ERROR), NAME(RECV_ERROR),
	NAME(SSL_CERTPROBLEM), NAME(SSL_CIPHER), NAME(PEER_FAILED_VERIFICATION),
	NAME(BAD_CONTENT_ENCODING), NAME(FILESIZE_EXCEEDED), NAME(USE_SSL_FAILED),
	NAME(SEND_FAIL_REWIND), NAME(SSL_CACERT_BADFILE), NAME(SSL_SHUTDOWN_FAILED), NAME(AGAIN),
	NAME(SSL_CRL_BADFILE), NAME(SSL_ISSUER_ERROR), NAME(CHUNK_FAILED), NAME(NO_CONNECTION_AVAILABLE),
	NAME(SSL_PINNEDPUBKEYNOTMATCH), NAME(SSL_INVALIDCERTSTATUS), NAME(HTTP2_STREAM), NAME(AUTH_ERROR),
	NAME(HTTP3), NAME(QUIC_CONNECT_ERROR), NAME(PROXY),
};
/* clang-format on */

const char *
jr_http_error_name(CURLcode code)
{
	size_t i = (size_t)code;

	return i < JR_COUNT(names) ? names[i] : NULL;
}

bool
jr_http_has_body(const char *method)
{
	return strcasecmp(method, "GET") != 0 && strcasecmp(method, "HEAD") != 0;
}

/* Add "Name: value"; "Name:" keeps libcurl from adding that header. Every header of a request is checked here. */
static void
add_header(struct jr_transfer *transfer, const char *line)
{
	size_t name_len = strcspn(line, ":");
	struct curl_slist *list;

	if (strcmp(line + name_len, ":") != 0 &&
	    (strncmp(line + name_len, ": ", 2) != 0 || !jr_header_is_value(line + name_len + 2))) {
		(void)snprintf(transfer->unfit, sizeof(transfer->unfit), "%.*s", (int)name_len, line);
		transfer->result = CURLE_BAD_FUNCTION_ARGUMENT;
		return;
	}
	list = jr_curl.slist_append(transfer->headers, line);
	if (list == NULL)
		transfer->result = CURLE_OUT_OF_MEMORY;
	else
		transfer->headers = list;
}

static void
add_headers(struct jr_transfer *transfer, char *const *headers)
{
	for (; headers != NULL && *headers != NULL; headers++)
		add_header(transfer, *headers);
}

/* The empty "Expect:" keeps libcurl from waiting for a "100 Continue", which many servers never send. */
static void
set_headers(struct jr_transfer *transfer, const struct jr_http_request *request)
{
	const struct jr_http_target *target = request->target;

	if (jr_http_has_body(target->method) && !jr_http_target_has_header(target, "Content-Type"))
		add_header(transfer, "Content-Type: application/json");
	if (!jr_http_target_has_header(target, "User-Agent"))
		add_header(transfer, "User-Agent: jobrun/" JR_VERSION);
	add_header(transfer, "Expect:");
	add_headers(transfer, target->headers);
	add_headers(transfer, request->headers);
	SET(transfer, HTTPHEADER, transfer->headers);
}

static void
set_request(struct jr_transfer *transfer, const struct jr_http_request *request)
{
	const char *method = request->target->method;

	SET(transfer, URL, request->target->url);
	SET(transfer, HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	if (jr_http_has_body(method)) {
		SET(transfer, POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
		SET(transfer, POSTFIELDS, request->body);
	} else if (strcasecmp(method, "HEAD") == 0) {
		SET(transfer, NOBODY, 1L);
	}
	SET(transfer, CUSTOMREQUEST, method);
	set_headers(transfer, request);
}

static void
set_limits(struct jr_transfer *transfer, const struct jr_http_target *target)
{
	SET(transfer, CONNECTTIMEOUT_MS, (long)target->connect_timeout_ms);
	SET(transfer, TIMEOUT_MS, (long)target->timeout_ms);
	SET(transfer, BUFFERSIZE, RECEIVE_BUFFER);
	SET(transfer, UPLOAD_BUFFERSIZE, SEND_BUFFER);
	SET(transfer, FOLLOWLOCATION, 0L);
	SET(transfer, HTTP09_ALLOWED, 0L);
	SET(transfer, NOSIGNAL, 1L);
	SET(transfer, TCP_KEEPALIVE, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(transfer, PROTOCOLS_STR, "http,https");
#else
	SET(transfer, PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* Leave a running name look-up to its thread; without this, freeing the transfer waits for it. */
	SET(transfer, QUICK_EXIT, 1L);
#endif
}

/*
 * Netrc, proxy and CA file. Without allow_private no kept connection is used: another transfer may have opened it to a
 * private address.
 */
static void
set_surroundings(struct jr_transfer *transfer, const struct jr_http_target *target)
{
	SET(transfer, NETRC, (long)CURL_NETRC_IGNORED);
	SET(transfer, DISALLOW_USERNAME_IN_URL, 1L);
	if (target->proxy == NULL) {
		SET(transfer, PROXY, "");
	} else if (strcmp(target->proxy, "environment") != 0) {
		SET(transfer, PROXY, target->proxy);
		SET(transfer, NOPROXY, "");
	}
	SET(transfer, SUPPRESS_CONNECT_HEADERS, 1L);
	if (target->ca_file != NULL)
		SET(transfer, CAINFO, target->ca_file);
	if (!target->allow_private) {
		SET(transfer, FRESH_CONNECT, 1L);
		SET(transfer, FORBID_REUSE, 1L);
	}
}

/*
 * libcurl calls this for each address that it tries. It refuses addresses that are not public, and opens the socket
 * with SOCK_CLOEXEC, so that no child inherits it.
 */
static curl_socket_t
open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct jr_transfer *transfer = ctx;
	const void *bytes = &((const struct sockaddr_in *)(const void *)&address->addr)->sin_addr;
	curl_socket_t fd;
	const char *special = transfer->refuse_private ? jr_address_special(&address->addr) : NULL;

	(void)purpose;
	if (special != NULL) {
		transfer->special = special;
		if (address->family == AF_INET6)
			bytes = &((const struct sockaddr_in6 *)(const void *)&address->addr)->sin6_addr;
		if (inet_ntop(address->family, bytes, transfer->refused, sizeof(transfer->refused)) == NULL)
			memcpy(transfer->refused, "?", 2);
		return CURL_SOCKET_BAD;
	}
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	transfer->no_socket = fd < 0 ? errno : 0;
	return fd;
}

/* Did the transfer end because this process, or this host, has no descriptors left? */
static bool
lacks_descriptors(const struct jr_transfer *transfer)
{
	return transfer->result == CURLE_COULDNT_CONNECT &&
	       (transfer->no_socket == EMFILE || transfer->no_socket == ENFILE);
}

static void
set_callbacks(struct jr_transfer *transfer)
{
	SET(transfer, PRIVATE, transfer);
	SET(transfer, ERRORBUFFER, transfer->message);
	SET(transfer, HEADERFUNCTION, jr_incoming_header);
	SET(transfer, HEADERDATA, transfer);
	SET(transfer, WRITEFUNCTION, jr_incoming_body);
	SET(transfer, WRITEDATA, transfer);
	SET(transfer, OPENSOCKETFUNCTION, open_socket);
	SET(transfer, OPENSOCKETDATA, transfer);
}

/* Is the certificate signed by nobody whom we trust? A wrong name or date is another error. */
static bool
is_unknown_certificate(const struct jr_transfer *transfer)
{
	long why = X509_V_OK;

	if (transfer->result != CURLE_PEER_FAILED_VERIFICATION ||
	    jr_curl.easy_getinfo(transfer->easy, CURLINFO_SSL_VERIFYRESULT, &why) != CURLE_OK)
		return false;
	return why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT || why == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
	       why == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN || why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
	       why == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

/* Takes `line`. */
static char *
with_end(char *line, const char *end)
{
	char *longer = jr_xasprintf("%s%s", line, end);

	free(line);
	return longer;
}

/* Our message or libcurl's, as one clean line. Caller frees. */
static char *
error_line(const struct jr_transfer *transfer, int status)
{
	char *line, after[32];

	if (transfer->unfit[0] != '\0')
		return jr_xasprintf("nothing was sent: the value of the header %s has a byte that is not visible ASCII",
		    transfer->unfit);
	if (transfer->in.cut == JR_CUT_HEADERS)
		return jr_xasprintf("the headers of the answer are longer than %d bytes", JR_ANSWER_HEADERS_MAX);
	if (transfer->in.cut == JR_CUT_CODING)
		return jr_xstrdup("the answer has a transfer coding that jobrun did not ask for");
	if (transfer->result == CURLE_COULDNT_CONNECT && transfer->refused[0] != '\0')
		return jr_xasprintf("%s is not a public address (%s), and allow_private is false", transfer->refused,
		    transfer->special);
	if (lacks_descriptors(transfer))
		return jr_xasprintf("nothing was sent: socket: %s", strerror(transfer->no_socket));
	line = transfer->message[0] != '\0'
		   ? jr_text_clean(transfer->message, strlen(transfer->message), CURL_ERROR_SIZE)
		   : jr_xstrdup(jr_curl.easy_strerror(transfer->result));
	for (char *at = line; *at != '\0'; at++) {
		if ((unsigned char)*at < ' ')
			*at = ' ';
	}
	if (is_unknown_certificate(transfer))
		line = with_end(line, " (\"ca_file\" in \"http\" names the certificates to trust)");
	(void)snprintf(after, sizeof(after), " (after HTTP %d)", status);
	return status != 0 ? with_end(line, after) : line;
}

/* The error as one word. `number` is storage for an error without a name. */
static const char *
error_code(const struct jr_transfer *transfer, char number[static 12])
{
	const char *name = jr_http_error_name(transfer->result);

	if (transfer->unfit[0] != '\0')
		return "BAD_HEADER";
	if (transfer->in.cut == JR_CUT_HEADERS)
		return "HEADERS_TOO_LARGE";
	if (transfer->in.cut == JR_CUT_CODING)
		return "BAD_CONTENT_ENCODING";
	if (name != NULL)
		return name;
	(void)snprintf(number, 12, "%d", (int)transfer->result);
	return number;
}

/* The status of the final answer. 0: there was none. */
static int
status_of(const struct jr_transfer *transfer)
{
	long status = 0;

	if (transfer->easy == NULL ||
	    jr_curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status < 200 ||
	    status > 999)
		return 0;
	return (int)status;
}

/*
 * libcurl itself refuses a header line that is too long, with CURLE_OUT_OF_MEMORY (until 8.6) or CURLE_TOO_LARGE. It
 * does not mean that memory is short: that would have ended the process elsewhere.
 */
static void
judge_headers(struct jr_transfer *transfer)
{
	const int too_large = 100; /* CURLE_TOO_LARGE of newer versions */

	if (transfer->in.cut == JR_CUT_NOT && transfer->in.header_bytes > 0 && !transfer->in.headers_done &&
	    (transfer->result == CURLE_OUT_OF_MEMORY || (int)transfer->result == too_large))
		transfer->in.cut = JR_CUT_HEADERS;
}

/* libcurl takes an answer that ends within its headers for a whole one. It is none: no status, and no rule applies. */
static void
judge_end(struct jr_transfer *transfer, struct jr_answer *answer)
{
	if (transfer->result != CURLE_OK)
		return;
	if (answer->status != 0 && !transfer->in.headers_done) {
		(void)snprintf(transfer->message, sizeof(transfer->message), "the answer ended within its headers");
		answer->status = 0;
	}
	if (answer->status == 0)
		transfer->result = CURLE_WEIRD_SERVER_REPLY;
}

/* Unix time. -1: the owner did not tell it. */
static int64_t
now_s_of(const struct jr_transfer *transfer)
{
	if (transfer->unix_ms == 0)
		return -1;
	return (transfer->unix_ms + (jr_clock_now_ms() - transfer->began_ms)) / 1000;
}

static void
on_end(void *ctx)
{
	struct jr_transfer *transfer = ctx;
	const struct jr_incoming *in = &transfer->in;
	char *error = NULL, number[12];
	struct jr_answer answer = {.status = status_of(transfer),
	    .body = in->body != NULL ? in->body : "",
	    .body_len = in->body_len,
	    .body_total = in->body_total};

	judge_headers(transfer);
	judge_end(transfer, &answer);
	if (transfer->result != CURLE_OK && in->cut != JR_CUT_ENOUGH) {
		answer.code = error_code(transfer, number);
		answer.error = error = error_line(transfer, answer.status);
		answer.passing = lacks_descriptors(transfer);
	}
	if (in->retry_after != NULL) {
		int64_t wait_ms = jr_retry_after_ms(in->retry_after, in->date, now_s_of(transfer));

		answer.has_retry_after = wait_ms >= 0;
		answer.retry_after_ms = wait_ms >= 0 ? wait_ms : 0;
	}
	transfer->ended(transfer->ctx, &answer);
	free(error); /* the transfer may be gone */
}

void
jr_transfer_over(struct jr_transfer *transfer, CURLcode result)
{
	jr_timer_cancel(&transfer->slow);
	transfer->result = result;
	jr_timer_set(transfer->http->loop, &transfer->end, jr_clock_now_ms());
}

/* Take it from libcurl, which then cannot end it a second time. */
static void
leave_multi(struct jr_transfer *transfer)
{
	if (transfer->added)
		(void)jr_curl.multi_remove_handle(transfer->http->multi, transfer->easy);
	transfer->added = false;
}

/*
 * The timeout limits the whole transfer; from the status line of the final answer, the server must not pause for long
 * either. Not CURLOPT_LOW_SPEED_TIME, which looks at an average in whole bytes per second: one byte in 8 s counts as 0.
 */
static void
on_slow(void *ctx)
{
	struct jr_transfer *transfer = ctx;
	int64_t now_ms = jr_clock_now_ms();
	int64_t since_ms = transfer->in.heard_ms != 0 ? transfer->in.heard_ms : now_ms;

	if (now_ms - since_ms < JR_HTTP_SLOW_MS) {
		jr_timer_set(transfer->http->loop, &transfer->slow, since_ms + JR_HTTP_SLOW_MS);
		return;
	}
	leave_multi(transfer);
	(void)snprintf(transfer->message, sizeof(transfer->message), "%d s without a byte", JR_HTTP_SLOW_MS / 1000);
	jr_transfer_over(transfer, CURLE_OPERATION_TIMEDOUT);
}

struct jr_transfer *
jr_transfer_start(struct jr_http *http, const struct jr_http_request *request, jr_answer_fn *ended, void *ctx)
{
	struct jr_transfer *transfer = jr_xcalloc(1, sizeof(*transfer));

	transfer->http = http;
	transfer->ended = ended;
	transfer->ctx = ctx;
	transfer->unix_ms = request->unix_ms;
	transfer->began_ms = jr_clock_now_ms();
	transfer->refuse_private = !request->target->allow_private;
	jr_timer_init(&transfer->slow, on_slow, transfer);
	jr_timer_init(&transfer->end, on_end, transfer);
	transfer->easy = jr_curl.easy_init();
	if (transfer->easy == NULL) {
		jr_transfer_over(transfer, CURLE_FAILED_INIT);
		return transfer;
	}
	set_callbacks(transfer);
	set_request(transfer, request);
	set_limits(transfer, request->target);
	set_surroundings(transfer, request->target);
	if (transfer->result == CURLE_OK) {
		transfer->added = jr_curl.multi_add_handle(http->multi, transfer->easy) == CURLM_OK;
		if (!transfer->added)
			transfer->result = CURLE_FAILED_INIT;
	}
	if (transfer->result != CURLE_OK)
		jr_transfer_over(transfer, transfer->result);
	else
		jr_timer_set(http->loop, &transfer->slow, transfer->began_ms + JR_HTTP_SLOW_MS);
	return transfer;
}

void
jr_transfer_free(struct jr_transfer *transfer)
{
	if (transfer == NULL)
		return;
	jr_timer_cancel(&transfer->slow);
	jr_timer_cancel(&transfer->end);
	leave_multi(transfer);
	jr_curl.easy_cleanup(transfer->easy);
	jr_curl.slist_free_all(transfer->headers);
	jr_incoming_release(&transfer->in);
	free(transfer);
}
