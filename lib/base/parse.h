/*
 * parse: numbers, durations and names as people type them. Pure. The whole string must match.
 *
 * On failure each function fills *err with JR_E_USAGE and a line that names the text and what was expected, and does
 * not touch the result. `what` is the option or variable that the text belongs to ("--lease").
 */
#ifndef JR_PARSE_H
#define JR_PARSE_H

#include "base/err.h"

/* A decimal integer in [min, max]. */
bool jr_parse_int(const char *what, const char *s, int64_t min, int64_t max, int64_t *out, struct jr_err *err) JR_MUST;

/*
 * A duration: one or more NUMBER UNIT pairs with units ms, s, m, h, d, w, largest first ("90s", "1h30m", "1.5h", "2d").
 * A number without a unit is refused ("5": write 5s or 5m), except 0. Never negative, at most JR_DURATION_MAX_MS.
 */
bool jr_parse_duration(const char *what, const char *s, int64_t *out_ms, struct jr_err *err) JR_MUST;

/* A duration as text, with at most two units: "1m 30s", "20s", "350ms", "2d 3h". Caller frees. */
char *jr_format_duration(int64_t ms) JR_MUST;

/* A job type: [a-z0-9][a-z0-9_.-]{0,62}, not ending in .sql or .json. A type of jobrun's own (jobrun.*) passes too. */
bool jr_parse_job_type(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* The name of a definition, under the same rules as a job type. */
bool jr_parse_definition(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* A queue name, under the same rules as a job type, but with any ending. */
bool jr_parse_queue(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* An idempotency key, unique key or lock key: 1 to JR_KEY_MAX bytes. */
bool jr_parse_key(const char *what, const char *s, struct jr_err *err) JR_MUST;

#endif
