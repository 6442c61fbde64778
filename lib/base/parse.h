/*
 * parse: numbers, durations and names as people type them. Pure. Whole strings only: no leading or trailing bytes.
 *
 * Each fills *err with JR_E_USAGE and a line that names the text and what was expected; `what` is the option or
 * variable it belongs to ("--lease"). On failure the result is left alone.
 */
#ifndef JR_PARSE_H
#define JR_PARSE_H

#include "base/err.h"

/* A decimal integer in [min, max]. */
bool jr_parse_int(const char *what, const char *s, int64_t min, int64_t max, int64_t *out, struct jr_err *err) JR_MUST;

/*
 * A duration: one or more NUMBER UNIT pairs with units ms, s, m, h, d, w, largest first ("90s", "1h30m", "1.5h", "2d");
 * a number without a unit is refused ("5" : write 5s or 5m), but a bare 0 is taken. Never negative, at most
 * JR_DURATION_MAX_MS.
 */
bool jr_parse_duration(const char *what, const char *s, int64_t *out_ms, struct jr_err *err) JR_MUST;

/* A duration in words for people, at most two units: "1m 30s", "20s", "350ms", "2d 3h". Caller frees. */
char *jr_format_duration(int64_t ms) JR_MUST;

/* A job type: [a-z0-9][a-z0-9_.-]{0,62}, not ending in .sql or .json. jobrun.* is a job type too. */
bool jr_parse_job_type(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* The name of a definition: what a job type may be. */
bool jr_parse_definition(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* A queue name: as a job type, without the rule about endings. */
bool jr_parse_queue(const char *what, const char *s, struct jr_err *err) JR_MUST;

/* An idempotency key, a unique key, a lock key: from 1 to JR_KEY_MAX bytes. */
bool jr_parse_key(const char *what, const char *s, struct jr_err *err) JR_MUST;

#endif
