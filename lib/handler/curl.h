/*
 * curl: libcurl, loaded when it is first needed. With what it needs itself it is half of the libraries of this program,
 * and most ticks send no request. jr_curl.easy_init is curl_easy_init, and so on.
 */
#ifndef JR_CURL_H
#define JR_CURL_H

#include <curl/curl.h>

#include "base/err.h"

/* clang-format off */
#define JR_CURL_FUNCTIONS(X) \
	X(easy_cleanup) X(easy_getinfo) X(easy_init) X(easy_setopt) X(easy_strerror) X(free) X(getdate) \
	X(global_cleanup) X(global_init) X(multi_add_handle) X(multi_assign) X(multi_cleanup) X(multi_info_read) \
	X(multi_init) X(multi_remove_handle) X(multi_setopt) X(multi_socket_action) X(slist_append) X(slist_free_all) \
	X(url) X(url_cleanup) X(url_get) X(url_set) X(version_info)
/* clang-format on */

struct jr_curl {
#define JR_CURL_MEMBER(name) __typeof__(curl_##name) *(name);
	JR_CURL_FUNCTIONS(JR_CURL_MEMBER)
#undef JR_CURL_MEMBER
};

/* To be used only after jr_curl_load() was true. */
extern struct jr_curl jr_curl;

/* Cheap after the first time. JR_E_CONFIG: it is not there, or lacks a function. */
bool jr_curl_load(struct jr_err *err) JR_MUST;

#endif
