/*
 * settings_secret: secrets in files of their own: signature keys and header values.
 *
 * They are not in NAME.json, which people show to each other. Others must not be able to read their files. What must
 * hold: no byte of a secret gets into a message, and buffers with a secret are wiped.
 */
#include "base/mem.h"
#include "handler/settings_parts.h"
#include "process/perm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "whsec_"
#define BASE64_MAX ((size_t)(JR_SECRET_MAX + 2) / 3 * 4)

/* The value of a base64 character, or -1. */
static int
sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648, strict: the text is padded, and unused bits are zero. */
static bool
decode(const char *text, size_t len, struct jr_secret *secret)
{
	size_t padding = 0;
	unsigned bits = 0, held = 0;

	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	if (len % 4 != 0)
		return false;
	for (size_t i = 0; i < len - padding; i++) {
		int value = sextet(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (unsigned)value;
		held += 6;
		if (held < 8)
			continue;
		held -= 8;
		if (secret->len == sizeof(secret->bytes))
			return false;
		secret->bytes[secret->len++] = (unsigned char)(bits >> held & 0xFF);
		bits &= (1U << held) - 1;
	}
	return bits == 0;
}

bool
jr_secret_parse(const char *text, struct jr_secret *secret, struct jr_err *err)
{
	static const char blanks[] = " \t\r\n";
	size_t len;

	*secret = (struct jr_secret){.len = 0};
	text += strspn(text, blanks);
	len = strlen(text);
	while (len > 0 && strchr(blanks, text[len - 1]) != NULL)
		len--;
	if (len < sizeof(PREFIX) - 1 || strncmp(text, PREFIX, sizeof(PREFIX) - 1) != 0)
		return jr_fail(err, JR_E_CONFIG,
		    "expected \"whsec_\" and base64 of %d to %d bytes; make one with: echo whsec_$(openssl rand -base64 32)",
		    JR_SECRET_MIN, JR_SECRET_MAX);
	text += sizeof(PREFIX) - 1;
	len -= sizeof(PREFIX) - 1;
	if (len > BASE64_MAX)
		return jr_fail(err, JR_E_CONFIG, "it is longer than %d bytes", JR_SECRET_MAX);
	if (!decode(text, len, secret)) {
		explicit_bzero(secret, sizeof(*secret));
		return jr_fail(
		    err, JR_E_CONFIG, "what follows \"whsec_\" is not base64 of at most %d bytes", JR_SECRET_MAX);
	}
	if (secret->len < JR_SECRET_MIN) {
		explicit_bzero(secret, sizeof(*secret));
		return jr_fail(err, JR_E_CONFIG, "it is shorter than %d bytes", JR_SECRET_MIN);
	}
	return true;
}

bool
jr_settings_is_open(const struct stat *st)
{
	return (st->st_mode & (S_IRWXO | S_IWGRP)) != 0;
}

static bool
check_file(int fd, const char *path, size_t max, struct jr_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return jr_fail(err, JR_E_CONFIG, "%s is not a plain file", path);
	if (jr_settings_is_open(&st))
		return jr_fail(err, JR_E_CONFIG, "%s is open to others: chmod o-rwx,g-w %s", path, path);
	if (st.st_size > (off_t)max)
		return jr_fail(err, JR_E_CONFIG, "%s is larger than %zu bytes", path, max);
	return true;
}

void
jr_settings_wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* The text of the file; NULL if it cannot be read or contains a NUL byte. */
static char *
read_open(int fd, const char *path, size_t max, struct jr_err *err)
{
	char *text = jr_xmalloc(max + 1);
	size_t len = 0;
	ssize_t got = 0;
	bool ok = true;

	while (len < max && (got = read(fd, text + len, max - len)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	if (got < 0)
		ok = jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
	else if (strlen(text) != len)
		ok = jr_fail(err, JR_E_CONFIG, "%s contains a NUL byte", path);
	if (ok)
		return text;
	explicit_bzero(text, len);
	free(text);
	return NULL;
}

char *
jr_settings_closed_file(const char *path, size_t max, struct jr_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;

	if (fd < 0)
		jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
	else if (check_file(fd, path, max, err) && jr_perm_check_named(path, err))
		text = read_open(fd, path, max, err);
	if (fd >= 0)
		(void)close(fd);
	return text;
}

static bool
read_secret_file(const char *path, struct jr_secret *secret, struct jr_err *err)
{
	char *text = jr_settings_closed_file(path, JR_SECRET_FILE_MAX, err);
	bool ok = text != NULL && (jr_secret_parse(text, secret, err) || jr_fail_in(err, path));

	jr_settings_wipe(text);
	return ok;
}

static bool
read_one(const struct jr_reading *r, const struct jr_step *step, const json_t *value, struct jr_http_target *http)
{
	const char *text = json_string_value(value);
	struct jr_err err = {.code = JR_E_CONFIG};
	char *path;
	bool ok;

	if (text == NULL || strncmp(text, JR_FILE_PREFIX, sizeof(JR_FILE_PREFIX) - 1) != 0 ||
	    text[sizeof(JR_FILE_PREFIX) - 1] == '\0')
		return jr_refuse(r, step,
		    "secret: expected \"file:PATH\" or a list of two of them: the secret itself stands in that file");
	path = jr_settings_path(r->directory, text + sizeof(JR_FILE_PREFIX) - 1);
	ok = read_secret_file(path, &http->secrets[http->secret_count], &err);
	free(path);
	if (!ok)
		return jr_refuse(r, step, "secret: %s", err.msg);
	http->secret_count++;
	return true;
}

bool
jr_read_secret(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_http_target *http = target;

	(void)member;
	if (!json_is_array(value))
		return read_one(r, step, value, http);
	if (json_array_size(value) == 0 || json_array_size(value) > JR_SECRETS_MAX)
		return jr_refuse(r, step, "secret: expected one or two files, not %zu", json_array_size(value));
	for (size_t i = 0; i < json_array_size(value); i++) {
		const struct jr_step element = {.up = step, .index = i};

		if (!read_one(r, &element, json_array_get(value, i), http))
			return false;
	}
	return true;
}
