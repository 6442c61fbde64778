/*
 * curl: see curl.h. The name of the file says which interface libcurl has; it has been this one since 2006.
 */
#include "handler/curl.h"

#include <dlfcn.h>
#include <string.h>

#define FILE_NAME "libcurl.so.4"

struct jr_curl jr_curl;

static const struct {
	const char *name;
	size_t at;
} functions[] = {
#define JR_CURL_PLACE(name) {"curl_" #name, offsetof(struct jr_curl, name)},
    JR_CURL_FUNCTIONS(JR_CURL_PLACE)
#undef JR_CURL_PLACE
};

/* It stays loaded: libraries that have threads or handlers of exit() must not be unloaded. */
bool
jr_curl_load(struct jr_err *err)
{
	struct jr_curl found;
	void *library;

	if (jr_curl.version_info != NULL)
		return true;
	library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return jr_fail(err, JR_E_CONFIG, "cannot load libcurl: %s", dlerror());
	for (size_t i = 0; i < JR_COUNT(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (function == NULL)
			return jr_fail(err, JR_E_CONFIG, "cannot use libcurl: %s", dlerror());
		memcpy((char *)&found + functions[i].at, &function, sizeof(function));
	}
	jr_curl = found;
	return true;
}
