/*
 * written: was all that was printed on stdout written?
 */
#ifndef JR_WRITTEN_H
#define JR_WRITTEN_H

#include "base/err.h"

/*
 * Flush stdout. JR_E_TEMP if something that was printed so far could not be written; it is dropped then, so that it is
 * reported once. A reader that has gone away is no error.
 */
bool jr_written(struct jr_err *err) JR_MUST;

#endif
