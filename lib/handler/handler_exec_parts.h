/*
 * handler_exec_parts: what the files of handler_exec share. Nobody else includes it.
 *
 *	handler_exec.c           the life of a piece of work
 *	handler_exec_output.c    what it has printed, as text
 */
#ifndef JR_HANDLER_EXEC_PARTS_H
#define JR_HANDLER_EXEC_PARTS_H

#include "base/buf.h"

/* The captured bytes as clean and bounded text; NULL if there are none. Caller frees. */
char *jr_exec_output(const struct jr_capture *capture) JR_MUST;

/* How many bytes were captured so far, those that were dropped included. */
uint64_t jr_exec_output_total(const struct jr_capture *capture);

/* The output (NULL: none) with the warnings behind it, each a line that begins with "jobrun: ". Takes `output`. */
char *jr_exec_output_warn(char *output, const char *warnings) JR_MUST;

#endif
