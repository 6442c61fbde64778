/*
 * effect_child: run a command line as if our caller had started it: with its descriptors, signals and environment.
 */
#ifndef JR_EFFECT_CHILD_H
#define JR_EFFECT_CHILD_H

#include "base/err.h"

/*
 * Returns the command's exit status, or as a shell does 128 + N, 127 or 126. *started is false if it could not be
 * started; *err then says why. From now on TERM, INT and HUP are passed to the command and do not end this process, not
 * even after the command has ended.
 */
int jr_effect_child_run(char **command, bool *started, struct jr_err *err);

#endif
