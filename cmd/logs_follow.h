/*
 * logs_follow: what has been added to a text that is kept as head and tail. Pure.
 */
#ifndef JR_LOGS_FOLLOW_H
#define JR_LOGS_FOLLOW_H

#include "base/base.h"

/*
 * The part of `new` that came after `old`; borrowed from `new`. Both are the kept output of one attempt, `old` the
 * earlier one (""; nothing yet); between them `dropped` more bytes of its middle were dropped. *gap: where `old` ended
 * cannot be found, since that was dropped too; all of `new` is returned.
 */
const char *jr_logs_follow_new(const char *old, const char *new, int64_t dropped, bool *gap) JR_MUST;

#endif
