/*
 * backoff: how long to wait before the next try. Pure.
 *
 * What must hold: for every n, base and cap the delay lies in [d/2, d], a base of a second or more gives no delay below
 * a second, and nothing overflows: the base is doubled only after a check that the result stays below the cap.
 */
#include "base/backoff.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LEAST_MS 1000 /* the shortest delay when the base is at least this long */

/* Spread the bits of a seed (splitmix64), so that neighbouring seeds have nothing in common. */
static uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9E3779B97F4A7C15);
	x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
	return x ^ x >> 31;
}

void
jr_random_seed(struct jr_random *random, uint64_t seed)
{
	random->state = mix(seed);
	if (random->state == 0) /* the one state the generator never leaves */
		random->state = 1;
}

void
jr_random_seed_system(struct jr_random *random)
{
	uint64_t seed;
	ssize_t got;

	do {
		got = getrandom(&seed, sizeof(seed), 0);
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(seed)) /* jitter needs difference between runners, no secrecy */
		seed = (uint64_t)jr_clock_wall_ms() << 24 ^ (uint64_t)getpid();
	jr_random_seed(random, seed);
}

static uint64_t
next_random(struct jr_random *random)
{
	uint64_t x = random->state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	random->state = x;
	return x * UINT64_C(0x2545F4914F6CDD1D);
}

uint64_t
jr_random_below(struct jr_random *random, uint64_t n)
{
	uint64_t skip, x;

	if (n == 0)
		return 0;
	skip = (0 - n) % n; /* 2^64 mod n: the values left over once [0, 2^64) is cut into pieces of n */
	do {
		x = next_random(random);
	} while (x < skip);
	return x % n;
}

/* min(cap, base * 2^(n-1)) */
static int64_t
full_delay(int64_t n, int64_t base_ms, int64_t cap_ms)
{
	int64_t base = base_ms > 0 ? base_ms : 0;
	int64_t cap = cap_ms > base ? cap_ms : base;
	int64_t doublings = n > 1 ? n - 1 : 0;

	if (base == 0)
		return 0;
	if (doublings >= 63 || base > cap >> doublings)
		return cap;
	return base << doublings;
}

int64_t
jr_backoff_ms(struct jr_random *random, int64_t n, int64_t base_ms, int64_t cap_ms)
{
	int64_t min_ms, max_ms;

	jr_backoff_range(n, base_ms, cap_ms, &min_ms, &max_ms);
	return min_ms + (int64_t)jr_random_below(random, (uint64_t)(max_ms - min_ms) + 1);
}

void
jr_backoff_range(int64_t n, int64_t base_ms, int64_t cap_ms, int64_t *min_ms, int64_t *max_ms)
{
	*max_ms = full_delay(n, base_ms, cap_ms);
	*min_ms = *max_ms / 2;
	if (base_ms >= LEAST_MS && *min_ms < LEAST_MS)
		*min_ms = LEAST_MS;
}
