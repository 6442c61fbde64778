/*
 * header: what may be the value of a header of a request, and which headers are secrets by their names. Pure.
 */
#ifndef JR_HEADER_H
#define JR_HEADER_H

#include "base/base.h"

/*
 * Visible ASCII, with blanks only between: nothing that ends a line, is cut off on the way, or is read as another
 * character by whoever receives it. Every value that is sent is asked about here, wherever it comes from.
 */
bool jr_header_is_value(const char *text) JR_MUST;

/* Does a header of this name usually hold a password, a key or the like? Whatever the case of its letters. */
bool jr_header_is_secret(const char *name) JR_MUST;

#endif
