/*
 * webhook: the signature of Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks), symmetric scheme
 * v1. Pure. HMAC-SHA256 by libcrypto over "id.timestamp.body" with the decoded secret; "v1," and base64; several
 * secrets give several signatures divided by a space, so that a receiver may know either while a secret is replaced.
 */
#ifndef JR_WEBHOOK_H
#define JR_WEBHOOK_H

#include "handler/settings.h"

/*
 * The value of webhook-signature. `id` has no full stop (see jr_webhook_id), timestamp is Unix seconds, `body` the very
 * bytes that are sent. At least one secret. Caller frees.
 */
char *jr_webhook_sign(const struct jr_secret *secrets, size_t count, const char *id, int64_t timestamp,
    const char *body, size_t body_len) JR_MUST;

/*
 * JOBRUN_KEY made fit for a header: visible ASCII stays, every other byte, "%" and, if `for_signature`, "." become %XX;
 * so two keys never become one, and no key can end a header. Caller frees.
 */
char *jr_webhook_id(const char *key, bool for_signature) JR_MUST;

#endif
