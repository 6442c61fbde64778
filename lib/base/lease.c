/*
 * lease: the arithmetic of a lease. Pure.
 *
 * All parts are fractions of the lease and the heartbeat. What must hold, and is checked here for every module:
 * 0 < lock_timeout < statement_timeout < deadline < heartbeat <= L/4, and 0 < kill < margin.
 */
#include "base/lease.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"

#include <assert.h>
#include <stdlib.h>

/* A shorter heartbeat would make lock_timeout 0 ms, which PostgreSQL takes for "no timeout". */
#define HEARTBEAT_MIN_MS 20

static bool
fail_lease(int64_t lease_ms, struct jr_err *err)
{
	char *given = jr_format_duration(lease_ms);
	char *least = jr_format_duration(JR_LEASE_MIN_MS);
	char *most = jr_format_duration(JR_LEASE_MAX_MS);

	jr_fail(err, JR_E_CONFIG, "a lease of %s cannot be used: it must be between %s and %s", given, least, most);
	free(given);
	free(least);
	free(most);
	return false;
}

static bool
fail_heartbeat(int64_t heartbeat_ms, int64_t lease_ms, struct jr_err *err)
{
	char *given = jr_format_duration(heartbeat_ms);
	char *lease = jr_format_duration(lease_ms);
	char *most = jr_format_duration(lease_ms / 4);

	jr_fail(err, JR_E_CONFIG,
	    "a heartbeat of %s cannot keep a lease of %s: it must be between %dms and a quarter of the lease, %s",
	    given, lease, HEARTBEAT_MIN_MS, most);
	free(given);
	free(lease);
	free(most);
	return false;
}

static bool
is_in_order(const struct jr_lease *lease)
{
	return lease->lock_ms > 0 && lease->lock_ms < lease->statement_ms && lease->statement_ms < lease->deadline_ms &&
	       lease->deadline_ms < lease->heartbeat_ms && lease->heartbeat_ms <= lease->lease_ms / 4 &&
	       lease->kill_ms > 0 && lease->kill_ms < lease->margin_ms;
}

bool
jr_lease_init(struct jr_lease *lease, int64_t lease_ms, int64_t heartbeat_ms, struct jr_err *err)
{
	if (lease_ms < 0)
		lease_ms = JR_LEASE_MS;
	if (lease_ms < JR_LEASE_MIN_MS || lease_ms > JR_LEASE_MAX_MS)
		return fail_lease(lease_ms, err);
	if (heartbeat_ms < 0)
		heartbeat_ms = lease_ms / 4 < JR_HEARTBEAT_MS ? lease_ms / 4 : JR_HEARTBEAT_MS;
	if (heartbeat_ms < HEARTBEAT_MIN_MS || heartbeat_ms > lease_ms / 4)
		return fail_heartbeat(heartbeat_ms, lease_ms, err);
	lease->lease_ms = lease_ms;
	lease->heartbeat_ms = heartbeat_ms;
	lease->deadline_ms = heartbeat_ms / 4;
	lease->margin_ms = lease_ms / 6;
	lease->kill_ms = lease_ms / 18;
	lease->statement_ms = lease->deadline_ms * 3 / 5;
	lease->lock_ms = lease->deadline_ms / 5;
	assert(is_in_order(lease));
	return true;
}

int64_t
jr_lease_fence_at(const struct jr_lease *lease, int64_t sent_ms)
{
	return jr_clock_after(sent_ms, lease->lease_ms - lease->margin_ms);
}
