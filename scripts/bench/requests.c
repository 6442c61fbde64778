/*
 * requests URL N AT_ONCE: send N small POST requests, so many at once, with libcurl and without a database: what HTTP
 * takes.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

static size_t
ignore(const char *data, size_t size, size_t n, void *user)
{
	(void)data;
	(void)user;
	return size * n;
}

static CURL *
request(const char *url)
{
	CURL *one = curl_easy_init();

	if (one == NULL)
		exit(1);
	curl_easy_setopt(one, CURLOPT_URL, url);
	curl_easy_setopt(one, CURLOPT_POSTFIELDS, "{}");
	curl_easy_setopt(one, CURLOPT_WRITEFUNCTION, ignore);
	return one;
}

/* Start the next request on each handle that is free again. False after an error. */
static int
collect(CURLM *all, long *left, long *open)
{
	CURLMsg *message;
	int queued;

	while ((message = curl_multi_info_read(all, &queued)) != NULL) {
		CURL *one = message->easy_handle;
		long code = 0;

		curl_easy_getinfo(one, CURLINFO_RESPONSE_CODE, &code);
		if (message->data.result != CURLE_OK || code != 200) {
			fprintf(stderr, "requests: %s, status %ld\n", curl_easy_strerror(message->data.result), code);
			return 0;
		}
		curl_multi_remove_handle(all, one);
		(*open)--;
		if (*left > 0) {
			curl_multi_add_handle(all, one);
			(*left)--;
			(*open)++;
		} else {
			curl_easy_cleanup(one);
		}
	}
	return 1;
}

int
main(int argc, char **argv)
{
	CURLM *all;
	long left;
	long open;
	long i;
	int running;

	if (argc != 4) {
		fputs("usage: requests URL N AT_ONCE\n", stderr);
		return 64;
	}
	left = strtol(argv[2], NULL, 10);
	open = strtol(argv[3], NULL, 10);
	open = open < left ? open : left;
	left -= open;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	all = curl_multi_init();
	for (i = 0; i < open; i++)
		curl_multi_add_handle(all, request(argv[1]));
	while (open > 0) {
		if (curl_multi_perform(all, &running) != CURLM_OK || !collect(all, &left, &open))
			return 1;
		if (open > 0)
			curl_multi_poll(all, NULL, 0, 1000, NULL);
	}
	curl_multi_cleanup(all);
	return 0;
}
