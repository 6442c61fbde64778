/*
 * expected: what the table in attempt.h says, for the tests of the attempt and of the judgement.
 */
#ifndef JR_TEST_EXPECTED_H
#define JR_TEST_EXPECTED_H

#include "runner/attempt.h"

static inline struct jr_run
example_run(void)
{
	return (struct jr_run){.id = 1,
	    .attempts = 1,
	    .max_attempts = 5,
	    .timeout_ms = -1,
	    .grace_ms = -1,
	    .backoff_base_ms = -1,
	    .backoff_cap_ms = -1};
}

/* What the header's table says of an end after `reason`; -1: nothing is written. */
static inline int
expected_kind(enum jr_attempt_event reason, enum jr_verdict verdict)
{
	switch (reason) {
	case JR_EV_LOST:
		return -1;
	case JR_EV_TIMEOUT:
		return JR_OUT_FAILED;
	case JR_EV_CANCEL:
		return verdict == JR_DONE ? JR_OUT_SUCCEEDED : JR_OUT_CANCELLED;
	case JR_EV_SHUTDOWN:
		if (verdict == JR_DONE)
			return JR_OUT_SUCCEEDED;
		return verdict == JR_GIVE_UP ? JR_OUT_DEAD : JR_OUT_RELEASED;
	case JR_EV_ENDED:
	case JR_EV_OVERDUE:
	case JR_EV_COUNT:
	default:
		break;
	}
	if (verdict == JR_DONE)
		return JR_OUT_SUCCEEDED;
	if (verdict == JR_LATER)
		return JR_OUT_LATER;
	return verdict == JR_GIVE_UP ? JR_OUT_DEAD : JR_OUT_FAILED;
}

#endif
