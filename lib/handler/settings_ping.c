/*
 * settings_ping: the address of a dead man's switch, in NAME.json or in a file of its own. Who knows it can report a
 * success, so it is never shown, but for scheme and host.
 */
#include "base/mem.h"
#include "handler/document.h"
#include "handler/settings_parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URL_MAX 4096

static char *
url_in_file(const char *path, struct jr_err *err)
{
	char *text = jr_settings_closed_file(path, URL_MAX, err), *url = NULL;

	if (text != NULL)
		url = jr_xmemdup0(text, strcspn(text, " \t\r\n"));
	jr_settings_wipe(text);
	return url;
}

char *
jr_settings_url(const char *text, const char *directory, struct jr_err *err)
{
	bool in_file = strncmp(text, JR_FILE_PREFIX, sizeof(JR_FILE_PREFIX) - 1) == 0;
	char *here = directory == NULL ? getcwd(NULL, 0) : NULL;
	const char *from = directory != NULL ? directory : here != NULL ? here : ".";
	char *path = in_file ? jr_settings_path(from, text + sizeof(JR_FILE_PREFIX) - 1) : NULL;
	char *url = in_file ? url_in_file(path, err) : jr_xstrdup(text);
	const char *problem = url == NULL ? NULL : jr_http_url_problem(url);

	if (problem != NULL) {
		jr_fail(err, JR_E_CONFIG, "%s%scannot be used: %s", in_file ? path : "", in_file ? ": " : "", problem);
		jr_settings_wipe(url);
		url = NULL;
	}
	free(here);
	free(path);
	return url;
}

bool
jr_read_ping(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_settings *settings = target;
	const char *text = jr_read_text(r, step, value, "a URL or \"file:PATH\"");
	struct jr_err err;

	(void)member;
	if (text == NULL)
		return false;
	settings->ping = jr_settings_url(text, r->directory, &err);
	return settings->ping != NULL || jr_refuse(r, step, "ping: %s", err.msg);
}

void
jr_show_ping(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;
	char *origin;

	if (settings->ping == NULL)
		return;
	origin = jr_http_origin(settings->ping);
	jr_show_words(out, member, origin);
	jr_show_value(out, member, jr_document_string(origin, strlen(origin)));
	free(origin);
}

void
jr_show_ping_start(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;

	if (settings->ping_start)
		jr_show_words(out, member, "");
	if (settings->ping != NULL)
		jr_show_value(out, member, json_boolean(settings->ping_start));
}
