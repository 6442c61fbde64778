/*
 * doctor_judge: judgements of `jobrun doctor` that are pure.
 */
#ifndef JR_DOCTOR_JUDGE_H
#define JR_DOCTOR_JUDGE_H

#include "doctor.h"

/* Of a server's PQserverVersion. *consequence: NULL, or what it means. */
enum jr_health jr_judge_version(int version, const char **consequence) JR_MUST;

/*
 * The server's clock was read between two readings of ours: how far is ours ahead, at least? Negative: behind. 0: they
 * may agree.
 */
int64_t jr_judge_skew(int64_t before_ms, int64_t server_ms, int64_t after_ms) JR_MUST;

#define JR_SKEW_MS 2000 /* clocks that are less apart agree */

#endif
