/*
 * webhook: signatures of Standard Webhooks, and keys encoded for a header. See webhook.h.
 *
 * The signed text is copied into one buffer, because the one-shot HMAC of libcrypto is the same in every version of it.
 * A payload is small enough for that.
 */
#include "handler/webhook.h"

#include "base/buf.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_LEN 32                              /* SHA-256 */
#define BASE64_SIZE ((DIGEST_LEN + 2) / 3 * 4 + 1) /* with the terminator */
#define SIGNATURES_MAX 256

/* Append one signature, "v1,...", to `out`. */
static void
add_signature(struct jr_buf *out, const struct jr_secret *secret, const char *text, size_t len)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned char base64[BASE64_SIZE];
	unsigned int digest_len = 0;
	const unsigned char *made =
	    HMAC(EVP_sha256(), secret->bytes, (int)secret->len, (const unsigned char *)text, len, digest, &digest_len);

	assert(made != NULL && digest_len == DIGEST_LEN);
	(void)made;
	(void)EVP_EncodeBlock(base64, digest, DIGEST_LEN);
	if (out->len > 0)
		jr_buf_addc(out, ' ');
	jr_buf_addf(out, "v1,%s", (const char *)base64);
}

char *
jr_webhook_sign(
    const struct jr_secret *secrets, size_t count, const char *id, int64_t timestamp, const char *body, size_t body_len)
{
	struct jr_buf text, out;

	assert(count > 0 && count <= JR_SECRETS_MAX);
	jr_buf_init(&text, strlen(id) + 32 + body_len);
	jr_buf_addf(&text, "%s.%" PRId64 ".", id, timestamp);
	jr_buf_add(&text, body, body_len);
	assert(!text.overflow);
	jr_buf_init(&out, SIGNATURES_MAX);
	for (size_t i = 0; i < count; i++)
		add_signature(&out, &secrets[i], text.data, text.len);
	assert(!out.overflow);
	jr_buf_release(&text);
	return jr_buf_detach(&out);
}

char *
jr_webhook_id(const char *key, bool for_signature)
{
	static const char digits[] = "0123456789ABCDEF";
	char *id = jr_xmalloc(strlen(key) * 3 + 1);
	char *end = id;

	for (const unsigned char *at = (const unsigned char *)key; *at != '\0'; at++) {
		if (*at > ' ' && *at < 0x7F && *at != '%' && !(for_signature && *at == '.')) {
			*end++ = (char)*at;
			continue;
		}
		*end++ = '%';
		*end++ = digits[*at >> 4];
		*end++ = digits[*at & 0xF];
	}
	*end = '\0';
	return id;
}
