/*
 * payload: the payload of enqueue, from the command line, stdin or a file; and where it is not JSON.
 *
 * The text is never parsed here: PostgreSQL says whether it is JSON, and what it says is turned into line and column.
 */
#ifndef JR_PAYLOAD_H
#define JR_PAYLOAD_H

#include "base/err.h"

/* "-" is stdin, "@FILE" a file, all else the text itself. JR_E_DATA if it is too long or has a NUL. Caller frees. */
char *jr_payload_read(const char *argument, struct jr_err *err) JR_MUST;

/* The same of a file of at most `max` bytes that is no payload; "-" is stdin. */
char *jr_payload_read_file(const char *path, size_t max, struct jr_err *err) JR_MUST;

/* PostgreSQL refused `payload`: add line and column to the message, if its context tells them. */
void jr_payload_locate(const char *payload, struct jr_err *err);

/* The same of a text that is called `what`. False: it tells none, and the message is as it was. */
bool jr_payload_locate_in(const char *what, const char *text, struct jr_err *err);

#endif
