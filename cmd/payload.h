/*
 * payload: read a payload from the command line, stdin or a file, and say where it is not JSON.
 *
 * The text is never parsed here. PostgreSQL decides whether it is JSON; its error is turned into line and column.
 */
#ifndef JR_PAYLOAD_H
#define JR_PAYLOAD_H

#include "base/err.h"

/*
 * "-" is stdin, "@FILE" a file, any other text the payload. A byte order mark is left out. JR_E_DATA: too long, or it
 * has a NUL. Caller frees.
 */
char *jr_payload_read(const char *argument, struct jr_err *err) JR_MUST;

/* The same for any file of at most `max` bytes; "-" is stdin. */
char *jr_payload_read_file(const char *path, size_t max, struct jr_err *err) JR_MUST;

/* Could it be a job type? Then somebody who typed a job type here has got the arguments wrong. */
bool jr_payload_is_name(const char *payload);

/*
 * PostgreSQL has refused `payload`: add line and column to the message if its context has them; or it is too deep.
 * false: it was refused for another reason; the message is unchanged.
 */
bool jr_payload_locate(const char *payload, struct jr_err *err);

/* The same for any text, which messages call `what`. */
bool jr_payload_locate_in(const char *what, const char *text, struct jr_err *err);

#endif
