/*
 * doctor_judge: see doctor_judge.h.
 */
#include "doctor_judge.h"

#define VERSION_LEAST 120000
#define VERSION_BEHIND 190000 /* the first one that jobrun was not tested with */

enum jr_health
jr_judge_version(int version, const char **consequence)
{
	*consequence = NULL;
	if (version < VERSION_LEAST) {
		*consequence = "jobrun needs 12 or newer, and does not work with it";
		return JR_HEALTH_FAIL;
	}
	if (version >= VERSION_BEHIND) {
		*consequence = "this jobrun was tested with 12 to 18; a newer one may know it";
		return JR_HEALTH_WARN;
	}
	return JR_HEALTH_OK;
}

int64_t
jr_judge_skew(int64_t before_ms, int64_t server_ms, int64_t after_ms)
{
	return server_ms < before_ms ? before_ms - server_ms : server_ms > after_ms ? after_ms - server_ms : 0;
}
