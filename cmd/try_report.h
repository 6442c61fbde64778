/*
 * try_report: what a rehearsal came to, in words: the verdict, why, and what a runner would do next.
 */
#ifndef JR_TRY_REPORT_H
#define JR_TRY_REPORT_H

#include "runner/rehearse.h"

/* Aligned lines on stdout. Output is not among them if it has been shown as it came. */
void jr_try_report_print(const struct jr_rehearsed *rehearsed, const struct jr_rehearsal *rehearsal);

/* The same, and the output, as one JSON document. */
void jr_try_report_document(const struct jr_rehearsed *rehearsed, const struct jr_rehearsal *rehearsal);

#endif
