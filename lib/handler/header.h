/*
 * header: which values a request header may have, and which headers usually hold secrets. Pure.
 */
#ifndef JR_HEADER_H
#define JR_HEADER_H

#include "base/base.h"

/*
 * Visible ASCII, with blanks only inside. So no value can end a line, lose bytes on the way, or be read as other
 * characters by the receiver. Every header value is checked here before it is sent, wherever it comes from.
 */
bool jr_header_is_value(const char *text) JR_MUST;

/* Does a header of this name, in any case, usually hold a password, a key or the like? */
bool jr_header_is_secret(const char *name) JR_MUST;

#endif
