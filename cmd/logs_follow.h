/*
 * logs_follow: find what has been added to an output that is kept as head and tail. Pure.
 */
#ifndef JR_LOGS_FOLLOW_H
#define JR_LOGS_FOLLOW_H

#include "base/base.h"

/*
 * The part of `new` that came after `old`; borrowed from `new`. Both are the kept output of one attempt, `old` read
 * earlier ("": nothing yet). `dropped` is how many more bytes of the middle were dropped since. *gap: the end of `old`
 * is not in `new`, since it was dropped too; then all of `new` is returned.
 */
const char *jr_logs_follow_new(const char *old, const char *new, int64_t dropped, bool *gap) JR_MUST;

#endif
