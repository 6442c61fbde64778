/*
 * http: transfers by libcurl on the one loop. Here is only the question whether libcurl looks names up without blocking.
 */
#include "http.h"

#include <curl/curl.h>

bool
jr_http_is_usable(struct jr_err *err)
{
	const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);

	if ((version->features & CURL_VERSION_ASYNCHDNS) != 0)
		return true;
	return jr_fail(err, JR_E_CONFIG,
	    "libcurl %s looks names up by blocking: http handlers need one with asynchronous DNS",
	    version->version);
}
