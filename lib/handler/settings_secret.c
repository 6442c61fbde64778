/*
 * settings_secret: keys of signatures, in files of their own.
 *
 * They are kept out of NAME.json, which is shown around, and their files must be closed to others. What must hold: no
 * byte of a secret gets into a message, and what was read of it is wiped.
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
#define FILE_PREFIX "file:"
#define BASE64_MAX ((size_t)(JR_SECRET_MAX + 2) / 3 * 4)

/* The value of a character of base64, -1 if it is none. */
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

/* RFC 4648, strict: padded, and the bits that are left over are zero. */
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

static bool
check_file(int fd, const char *path, struct jr_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return jr_fail(err, JR_E_CONFIG, "%s is not a plain file", path);
	if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0)
		return jr_fail(err, JR_E_CONFIG, "%s is open to others: chmod o-rwx,g-w %s", path, path);
	if (st.st_size > JR_SECRET_FILE_MAX)
		return jr_fail(err, JR_E_CONFIG, "%s is larger than %d bytes", path, JR_SECRET_FILE_MAX);
	return true;
}

static bool
read_open(int fd, const char *path, struct jr_secret *secret, struct jr_err *err)
{
	char bytes[JR_SECRET_FILE_MAX + 1];
	size_t len = 0;
	ssize_t got;
	bool ok;

	if (!check_file(fd, path, err))
		return false;
	while (len < sizeof(bytes) - 1 && (got = read(fd, bytes + len, sizeof(bytes) - 1 - len)) > 0)
		len += (size_t)got;
	bytes[len] = '\0';
	if (strlen(bytes) != len)
		ok = jr_fail(err, JR_E_CONFIG, "there are bytes in it that are no text");
	else
		ok = jr_secret_parse(bytes, secret, err);
	explicit_bzero(bytes, sizeof(bytes));
	return ok || jr_fail_in(err, path);
}

static bool
read_secret_file(const char *path, struct jr_secret *secret, struct jr_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool ok;

	if (fd < 0)
		return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
	ok = read_open(fd, path, secret, err);
	(void)close(fd);
	return ok;
}

static bool
read_one(const struct jr_reading *r, const struct jr_step *step, const json_t *value, struct jr_http_target *http)
{
	const char *text = json_string_value(value);
	struct jr_err err = {.code = JR_E_CONFIG};
	char *path;
	bool ok;

	if (text == NULL || strncmp(text, FILE_PREFIX, sizeof(FILE_PREFIX) - 1) != 0 ||
	    text[sizeof(FILE_PREFIX) - 1] == '\0')
		return jr_refuse(r, step,
		    "secret: expected \"file:PATH\" or a list of two of them: the secret itself stands in that file");
	path = jr_settings_path(r->directory, text + sizeof(FILE_PREFIX) - 1);
	ok = read_secret_file(path, &http->secrets[http->secret_count], &err) && jr_perm_check_named(path, &err);
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
