/*
 * effect_child: run a command line in the place of whoever called us: with its descriptors, signals and environment.
 */
#ifndef JR_EFFECT_CHILD_H
#define JR_EFFECT_CHILD_H

#include "base/err.h"

/*
 * Its exit status, or what a shell would say of it: 128 + N, 127, 126. *started: false if it could not be; *err says
 * why. From here on TERM, INT and HUP are the command's, also when it has ended.
 */
int jr_effect_child_run(char **command, bool *started, struct jr_err *err);

#endif
