/*
 * webhook: the signature of Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks), symmetric scheme
 * v1. Pure. A signature is "v1," and the base64 of the HMAC-SHA256 (libcrypto) of "id.timestamp.body" with the decoded
 * secret. Several secrets give several signatures, separated by a space: while a secret is being replaced, the receiver
 * may know only one of them.
 */
#ifndef JR_WEBHOOK_H
#define JR_WEBHOOK_H

#include "handler/settings.h"

/*
 * The value of webhook-signature. `id` contains no full stop (see jr_webhook_id), timestamp is in Unix seconds, `body`
 * is exactly the bytes that are sent. There is at least one secret. Caller frees.
 */
char *jr_webhook_sign(const struct jr_secret *secrets, size_t count, const char *id, int64_t timestamp,
    const char *body, size_t body_len) JR_MUST;

/*
 * Encode a run's key for a header. Visible ASCII stays; every other byte, "%" and, if `for_signature`, "." become %XX.
 * So two keys never become the same text, and no key can end a header. Caller frees.
 */
char *jr_webhook_id(const char *key, bool for_signature) JR_MUST;

#endif
