/*
 * command_output: what a program prints, within a time limit.
 */
#ifndef JR_COMMAND_OUTPUT_H
#define JR_COMMAND_OUTPUT_H

#include "base/base.h"

/*
 * Run argv[0], looked up in PATH, without stdin, and return what it writes to stdout and stderr, up to `max` bytes; it
 * is killed after timeout_ms. *status: its exit status; -1: it was killed; -2: it could not be started, and the text
 * says why. Caller frees.
 */
char *jr_command_output(char *const *argv, int64_t timeout_ms, size_t max, int *status) JR_MUST;

#endif
