/*
 * clock: elapsed time of this process.
 *
 * What must hold: a sum with JR_NEVER stays JR_NEVER, so that no deadline wraps around into the past.
 */
#include "base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t
read_ms(clockid_t id)
{
	struct timespec now = {0};
	int rc = clock_gettime(id, &now);

	assert(rc == 0); /* both clocks exist in every kernel this program runs on */
	(void)rc;
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t
jr_clock_now_ms(void)
{
	return read_ms(CLOCK_BOOTTIME);
}

int64_t
jr_clock_wall_ms(void)
{
	return read_ms(CLOCK_REALTIME);
}

int64_t
jr_clock_after(int64_t start_ms, int64_t span_ms)
{
	int64_t at_ms;

	if (start_ms == JR_NEVER || span_ms == JR_NEVER || __builtin_add_overflow(start_ms, span_ms, &at_ms))
		return JR_NEVER;
	return at_ms;
}
