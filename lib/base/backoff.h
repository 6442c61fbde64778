/*
 * backoff: how long to wait before the next try. Pure.
 *
 * d = min(cap, base * 2^(n-1)). The delay is drawn evenly from [d/2, d] ("equal jitter", after Marc Brooker,
 * "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). With a base of a second or more it is never below a
 * second. Every n from 0 to INT64_MAX gives a delay in range: n < 1 counts as 1, and the product is clamped before it
 * can overflow.
 */
#ifndef JR_BACKOFF_H
#define JR_BACKOFF_H

#include "base/base.h"

#define JR_BACKOFF_BASE_MS 10000
#define JR_BACKOFF_CAP_MS 3600000

/* State of a small random generator (xorshift64*, Vigna 2016). One per runner; a fixed seed makes a test repeatable. */
struct jr_random {
	uint64_t state;
};

void jr_random_seed(struct jr_random *random, uint64_t seed);   /* any seed will do, 0 included */
void jr_random_seed_system(struct jr_random *random);           /* from getrandom(2) */
uint64_t jr_random_below(struct jr_random *random, uint64_t n); /* evenly from [0, n); 0 for n = 0 */

/* The delay in ms before try n + 1, for n tries made. base < 0 counts as 0; cap < base counts as base. */
int64_t jr_backoff_ms(struct jr_random *random, int64_t n, int64_t base_ms, int64_t cap_ms);

/* The bounds of that delay, to be shown: d/2 (at least a second if base is a second or more) and d. */
void jr_backoff_range(int64_t n, int64_t base_ms, int64_t cap_ms, int64_t *min_ms, int64_t *max_ms);

#endif
