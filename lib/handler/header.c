/*
 * header: see header.h.
 */
#include "handler/header.h"

#include <string.h>

/* The name of a header with a secret value contains one of these. */
static const char *const secret_words[] = {
    "authorization",               /* also Proxy-Authorization */
    "cookie", "credential", "key", /* X-Api-Key, Apikey, Ocp-Apim-Subscription-Key */
    "passphrase", "passwd", "password", "secret", "session", "signature", "token", /* X-Auth-Token, Private-Token */
};

bool
jr_header_is_value(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || text[0] == ' ' || text[len - 1] == ' ')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < ' ' || *text > '~')
			return false;
	}
	return true;
}

bool
jr_header_is_secret(const char *name)
{
	for (size_t i = 0; i < JR_COUNT(secret_words); i++) {
		if (strcasestr(name, secret_words[i]) != NULL)
			return true;
	}
	return false;
}
