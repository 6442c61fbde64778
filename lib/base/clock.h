/*
 * clock: elapsed time of this process.
 *
 * The database decides what is due and how long a lease lasts. This clock only tells the process when to stop itself.
 * It is CLOCK_BOOTTIME, which goes on while the host is suspended. Its readings are never compared with the database's.
 */
#ifndef JR_CLOCK_H
#define JR_CLOCK_H

#include "base/base.h"

#define JR_NEVER INT64_MAX

int64_t jr_clock_now_ms(void);  /* CLOCK_BOOTTIME */
int64_t jr_clock_wall_ms(void); /* CLOCK_REALTIME since 1970, for log lines and JOBRUN_DEADLINE only */

/* start + span; JR_NEVER if either is JR_NEVER or the sum does not fit. */
int64_t jr_clock_after(int64_t start_ms, int64_t span_ms);

#endif
