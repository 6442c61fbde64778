/*
 * ranges: the ranges of the monitoring plugin guidelines (https://www.monitoring-plugins.org/doc/guidelines.html).
 *
 *	10      alert if the value is below 0 or above 10
 *	10:     ... if it is below 10
 *	~:10    ... if it is above 10
 *	10:20   ... if it is not from 10 to 20
 *	@10:20  ... if it is from 10 to 20
 *
 * Values are whole numbers. A range of seconds takes durations, too: 5m, 1h:2h.
 */
#ifndef JR_RANGES_H
#define JR_RANGES_H

#include "base/err.h"

struct jr_range {
	int64_t low, high; /* both ends belong to it; INT64_MIN, INT64_MAX: no end */
	bool inside;       /* alert inside of it, not outside */
};

/* Read `text`. On failure JR_E_USAGE, and *range is not touched. */
bool jr_range_parse(
    const char *what, const char *text, bool seconds, struct jr_range *range, struct jr_err *err) JR_MUST;

bool jr_range_alerts(const struct jr_range *range, int64_t value);

/* As the guidelines write it, with plain numbers: "300", "@10:20", "~:5". Caller frees. */
char *jr_range_text(const struct jr_range *range) JR_MUST;

#endif
